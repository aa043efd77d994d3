"""The form that starts transfers: data, source model, methods and split."""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from app import session
from app.components.shared import frame, stores, tables, words
from app.components.shared.estimate_words import estimate_sentence, rounded
from app.components.shared.guide_links import help_link
from app.components.shared.run_choice import choose
from app.components.shared.run_files import finished_runs, read_run, run_summary
from app.components.train.first_answer import with_first_answer
from app.components.train.method_choice import OwnError, choose_methods
from app.components.train.near_copies import near_copies_hint, source_copies_hint
from app.components.train.split_choice import choose_split, usual_lengths, usual_n
from app.components.train.unseen_elements import (
    n_taken,
    tested_alike,
    too_few_known,
    unseen,
    unseen_sentence,
)
from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import (
    BOTH,
    HUECKEL,
    METHOD,
    MOLECULES,
    SUPERCELL,
    tight_binding_gaps_problem,
)
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.estimates import TransferTimes
from bandgap.jobs.rows import Dataset
from bandgap.jobs.sources import Source
from bandgap.jobs.starting import FIRST_ANSWER, Started, start_transfer
from bandgap.runs.requests import TransferRequest
from bandgap.sources.cards import NO_SOURCE
from bandgap.sources.measured_errors import CrystalKind, levels_help
from bandgap.sources.method_cards import MethodCard, method_cards
from bandgap.sources.proposed import Proposal, Target, propose


@st.fragment
def setup_form(
    datasets: Mapping[str, Dataset], usable: Mapping[str, int], *, primary: bool = True
) -> None:
    """Draw the form; the button makes one job for each method, even if it is pressed twice."""
    sources = stores.sources() | {NO_SOURCE: Source(NO_SOURCE, "No source model", Path())}
    methods = stores.library().methods()
    left_column, right_column = st.columns(2, gap="large")
    with left_column.container(key="field-target"):
        names = {
            i: f"{name} ({words.count(usable[i], 'labelled structure')})"
            for i, name in stores.dataset_labels(list(datasets.values())).items()
        }
        dataset = datasets[
            choose(
                "data",
                "Target data",
                names,
                help=_DATA_HELP + help_link("how-to/labels-and-units", "Labels and units"),
            )
        ]
    sets = stores.elements(dataset)
    with right_column.container(key="field-source"):
        titles = {i: source.title for i, source in sources.items()}
        target = Target(
            sets,
            dataset.level_of_theory,
            usual_n(usable[dataset.id], total=usable[dataset.id]),
            has_metals=stores.contains_metals(dataset),
        )
        proposed, why_none = proposed_source(sources, target)
        source = sources[
            choose(
                "source",
                "Source model",
                titles,
                proposed=proposed,
                help=_SOURCE_HELP
                + help_link("explanation/which-source-and-method", "Which source"),
            )
        ]
        if source.id == NO_SOURCE and why_none:
            st.caption(words.escaped_sentence(why_none))
    total = usable[dataset.id]
    if total < stores.MIN_LABELLED:
        st.warning(
            f"{words.count(total, 'structure')} with a gap; at least {stores.MIN_LABELLED} are "
            "needed. Give more of them a gap on the Data page."
        )
        return
    installed = stores.system().levels
    transfers = source.id != NO_SOURCE
    bonds_installed = stores.system().rdkit
    proposal = propose(
        target,
        transfers=transfers,
        levels_installed=installed,
        bonds_installed=bonds_installed,
        potentials=stores.system().potentials,
    )
    cards = method_cards(target, proposal)
    cards_place = st.container()
    left_column, right_column = st.container(key="train-split").columns(2, gap="large")
    more = st.container()
    with cards_place:
        choice = choose_methods(
            methods,
            parts=source.parts if transfers else None,
            proposal=proposal,
            cards=cards,
            errors_here=errors_on(dataset, source),
            more=more,
        )
    picked = choice.methods
    lacking = unseen(sets, source.manifest.get("descriptor") or {})
    with left_column:
        base, sampler_lengths = choose_split(
            total,
            available=n_taken(picked, lacking, methods),
            usual=usual_lengths(methods),
            levels_installed=installed,
            bonds_installed=bonds_installed,
            numbers=stores.numbers(dataset),
            levels=preset_levels(proposal, picked, kind=target.kind),
            more=more,
        )
    times = TransferTimes(stores.jobs(), stores.library())
    for name, place in choice.time_places.items():
        if estimate := times.estimate(with_method(base, name, methods[name], sampler_lengths)):
            place.caption(f"About {rounded(estimate.seconds)}.")
        else:
            place.empty()
    with more:
        if source.id != NO_SOURCE:
            with st.expander("What the source model was trained on"):
                tables.card(source.card)
                if text := source_copies_hint(dataset, source):
                    st.markdown(text)
        if text := near_copies_hint(dataset, base):
            st.info(text)
    with right_column:
        if text := unseen_sentence(lacking, picked, methods):
            st.info(words.escaped_sentence(text))
        if text := levels_left_out(proposal, picked, base.levels):
            st.info(words.escaped_sentence(text))
        requests = [with_method(base, name, methods[name], sampler_lengths) for name in picked]
        requests = tested_alike(requests, lacking, methods)
        problem = obstacle(requests, usable=total) or too_few_known(requests, lacking, methods)
        problem = problem or levels_obstacle(requests, dataset)
        if base.features and source.id != NO_SOURCE:
            problem = problem or _FEATURES_WITH_SOURCE
        if not problem:
            requests = with_first_answer(
                requests,
                fast=fast_method(cards, choice.time_places),
                request_of=lambda name: with_method(base, name, methods[name], sampler_lengths),
                dataset=dataset,
                source=source,
                times=times,
                lacking=lacking,
                methods=methods,
            )
        start_button(
            dataset,
            source,
            requests,
            n_chosen=len(picked),
            methods=methods,
            times=times,
            usable=total,
            problem=problem,
            primary=primary,
        )


def fast_method(cards: Sequence[MethodCard], methods: Collection[str]) -> str | None:
    """Return the method of the card "Fast", None where that is not one of the shown `methods`."""
    return next(
        (card.method for card in cards if card.role == "Fast" and card.method in methods), None
    )


def errors_on(dataset: Dataset, source: Source) -> dict[str, OwnError]:
    """Return the error of the newest finished run of each method on a data set.

    Only runs from the same source model count.
    """
    errors: dict[str, OwnError] = {}
    for run in finished_runs().values():
        if run.dataset != dataset.id or run.source != source.id or run.method in errors:
            continue
        summary = run_summary(run.id)
        if summary.n is not None and not math.isnan(summary.rmse_eV):
            mean_gap = read_run(run.id).manifest.get("tested", {}).get("mean_gap_rmse_eV")
            mean_text = "" if mean_gap is None else f" (mean gap: {mean_gap:.2f} eV)"
            errors[run.method] = OwnError(
                summary.n,
                f"Your run: RMSE {summary.rmse_eV:.2f} eV{mean_text}, {summary.n} labels.",
            )
    return errors


def proposed_source(sources: Mapping[str, Source], target: Target) -> tuple[str, str]:
    """Return the id of the proposed source model and, if none is proposed, the reason."""
    first = next(iter(sources.values()))
    total = target.total
    n_known = unseen(target.element_sets, first.manifest.get("descriptor") or {}).n_known
    if propose(target, n_known=n_known).transfers:
        return first.id, ""
    which = f"all {total:,}" if not n_known else f"{total - n_known:,} of the {total:,}"
    return NO_SOURCE, (
        f"Proposed, because {first.title} was trained without an element of {which} structures. "
        "Any source model can be chosen all the same."
    )


def with_method(
    base: TransferRequest, name: str, method: MethodEntry, sampler_lengths: Mapping[str, int]
) -> TransferRequest:
    """Return the request of a method; for a method that samples it contains the chain lengths."""
    settings: dict[str, Any] = {}
    if method.sampler:
        defaults = {
            key: method.sampler[key]
            for key in ("warmup", "draws")
            if method.sampler.get(key) is not None
        }
        settings["sampler"] = defaults | dict(sampler_lengths)
    return base.changed(method=name, settings=settings)


def start_button(
    dataset: Dataset,
    source: Source,
    requests: Sequence[TransferRequest],
    *,
    n_chosen: int,
    methods: Mapping[str, MethodEntry],
    times: TransferTimes,
    usable: int,
    problem: str,
    primary: bool,
) -> None:
    """Draw the estimated time or the problem, and the button that starts the transfers.

    The button names the number of chosen methods; a first answer is not one of them.
    """
    if problem:
        st.error(words.escaped_sentence(problem))
    else:
        estimates = {methods[str(r.method)].title: times.estimate(r) for r in requests}
        device = stores.device_of(requests[0].device)
        time_text = estimate_sentence(estimates, device=device)
        st.caption(" ".join(filter(None, [time_text, features_sentence(source, usable)])))
    label = "Start the transfer" if n_chosen < 2 else f"Start {n_chosen} transfers"
    kind: Literal["primary", "secondary"] = "primary" if primary else "secondary"
    if st.button(label, type=kind, key="start-transfers", disabled=bool(problem)):
        has_first_answer = len(requests) > n_chosen
        start(dataset, source, requests, has_first_answer=has_first_answer, methods=methods)


def features_sentence(source: Source, n: int) -> str:
    """Return the number of features and the memory of `n` structures, "" if it is not known yet."""
    n_features = (source.manifest.get("network") or {}).get("n_features")
    if not isinstance(n_features, int):
        return ""
    n_bytes = 4 * n_features * n
    return (
        f"{n_features:,} features a structure, {words.size(n_bytes)} of memory for "
        f"{words.count(n, 'labelled structure')}."
    )


def obstacle(requests: Sequence[TransferRequest], *, usable: int) -> str:
    """Return why these transfers cannot start, or an empty text."""
    if not requests:
        return "No method is chosen. Tick at least one."
    n = requests[0].n or 0
    n_test = requests[0].n_test or 0
    if n + n_test > usable:
        return (
            f"{n} to learn from and {n_test} held out are more than the {usable} labelled "
            "structures. Lower one of the two."
        )
    return ""


def preset_levels(
    proposal: Proposal, methods: Sequence[str], *, kind: CrystalKind
) -> ElectronLevels:
    """Return the proposed electron levels where they helped each of the picked methods.

    Of levels of both ways, those of tight binding alone are used where only these helped.
    """
    choices: tuple[ElectronLevels, ...] = (proposal.levels,)
    if proposal.levels == BOTH:
        choices = (BOTH, METHOD)
    for levels in choices:
        if all(
            levels_help(kind, method, levels, has_source=proposal.transfers) for method in methods
        ):
            return levels
    return "none"


def levels_left_out(proposal: Proposal, picked: Sequence[str], levels: str | None) -> str:
    """Return that methods are picked without the proposed electron levels, or an empty text."""
    if not picked or proposal.levels in ("none", levels):
        return ""
    present = "none" if levels in ("none", None) else f"{levels} levels"
    return (
        f"Proposed are {proposal.levels} levels; this start has {present}, as not every picked "
        "method was better with them. Its errors may be larger than those on the cards. Levels are "
        "set under More settings, for all methods of a start."
    )


def levels_obstacle(requests: Sequence[TransferRequest], dataset: Dataset) -> str:
    """Return why these transfers cannot learn from electron levels, or an empty text."""
    with_levels = bool(requests) and requests[0].levels not in ("none", HUECKEL)
    return tight_binding_gaps_problem(dataset.level_of_theory) if with_levels else ""


def start(
    dataset: Dataset,
    source: Source,
    requests: Sequence[TransferRequest],
    *,
    has_first_answer: bool,
    methods: Mapping[str, MethodEntry],
) -> None:
    """Submit the transfers, select the first one, and show which runs existed before.

    With `has_first_answer` the first request is that of a first answer to the second one.
    """
    started: list[Started] = []
    try:
        for request in requests:
            started.append(
                start_transfer(
                    stores.jobs(),
                    stores.library(),
                    dataset,
                    source=source.id,
                    request=request,
                    title=title_of(request, methods),
                    first_answer=started[0].run if has_first_answer and started else "",
                )
            )
    except BandgapError as error:
        frame.problem(error)
        return
    repeated = [entry.job for entry in started if not entry.new]
    if finished := [words.escaped(job.title) for job in repeated if job.state == "finished"]:
        session.set_message(
            "Finished before with the same settings and seed, which give the same result: "
            f"{', '.join(finished)}. Change the seed, the size or a setting for another run."
        )
    session.choose("run", run_to_show(started))
    session.set_trains_on("")
    st.rerun()


def run_to_show(started: Sequence[Started]) -> str:
    """Return the first new run; without one, the first run, or its active first answer."""
    for entry in started:
        if entry.new:
            return entry.run
    first_answer = str(started[0].job.payload.get(FIRST_ANSWER, ""))
    is_active = any(
        job.active and job.subject == first_answer for job in stores.jobs_of("transfer").values()
    )
    return first_answer if is_active else started[0].run


def title_of(request: TransferRequest, methods: Mapping[str, MethodEntry]) -> str:
    """Return the initial name of a run: its method, its size, and unusual settings."""
    title = [methods[str(request.method)].title, f"n = {request.n}"]
    if request.conformal_share:
        title.append(f"{100 * request.conformal_share:.0f} % held back")
    if request.by_formula:
        title.append("by formula")
    if request.test_known:
        title.append("tested on known elements")
    if request.levels != "none":
        names = {
            SUPERCELL: "electron levels at more k points",
            MOLECULES: "levels of the molecules",
            HUECKEL: "Hückel levels",
            BOTH: "electron levels and Hückel levels",
        }
        title.append(names.get(request.levels or "", "electron levels"))
    if request.baseline:
        title.append(f"difference to {request.baseline}")
    if request.features:
        title.append(f"own features{' alone' if request.preset else ''}")
    return ", ".join(title)


_FEATURES_WITH_SOURCE = (
    "Your own features are learned without a source model, which has its own descriptor. Choose "
    "No source model, or remove the table under More settings."
)
_DATA_HELP = "The labelled crystals that the transfer learns from."
_SOURCE_HELP = (
    "The network that was trained on many structures; the transfer moves it to your crystals. "
    "Without one, methods without transfer learn from your crystals only, whatever their elements "
    "are: on inorganic crystals their errors are lower than those of transfers from the shipped "
    "source models, and they are proposed."
)
