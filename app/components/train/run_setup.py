"""The form that starts transfers: data, source model, methods and split."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.advice import advice
from app.components.shared.estimate_words import estimate_help, rounded
from app.components.shared.guide_links import help_link
from app.components.shared.run_choice import choose
from app.components.train.method_choice import choose_methods
from app.components.train.split_choice import choose_split, more_settings, usual_n
from app.components.train.unseen_elements import n_taken, tested_alike, unseen, unseen_sentence
from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import (
    BOTH,
    HUECKEL,
    METHOD,
    tight_binding_gaps_problem,
)
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.estimates import Estimate, JobTimes
from bandgap.jobs.housekeeping import MAX_NAME
from bandgap.jobs.next_step import FEWEST_LABELLED
from bandgap.jobs.rows import Dataset
from bandgap.jobs.sources import Source
from bandgap.jobs.starting import Started, start_transfer
from bandgap.runs.requests import TransferRequest
from bandgap.sources.cards import NO_SOURCE
from bandgap.sources.measured_errors import CrystalKind, levels_help
from bandgap.sources.method_cards import method_cards
from bandgap.sources.proposed import Proposal, Target, propose, source_gain

Methods = Mapping[str, MethodEntry]


@st.fragment
def setup_form(
    datasets: Mapping[str, Dataset], usable: Mapping[str, int], *, primary: bool = True
) -> None:
    """Draw the form; the button makes one job for each method, even if it is pressed twice."""
    methods = stores.library().methods()
    left_column, right_column = st.columns(2, gap="large")
    with left_column.container(key="field-target"):
        dataset = _choose_dataset(datasets, usable)
    total = usable[dataset.id]
    if total < FEWEST_LABELLED:
        st.warning(
            f"{words.count(total, 'structure')} with a gap; at least {FEWEST_LABELLED} are needed."
        )
        if primary:
            advice("train", dataset.id)
        return
    sets = stores.elements(dataset)
    target = stores.target(dataset, usual_n(total, dataset, total=total))
    with right_column.container(key="field-source"):
        source = _choose_source(target)
    transfers = source.id != NO_SOURCE
    proposal = stores.proposal(target, transfers=transfers)
    cards = method_cards(target, proposal)
    cards_place, split_place = st.container(), st.container(key="field-split")
    start_place, more_place = st.container(key="start-place"), st.container()
    for place in (split_place, start_place):
        place.empty()  # a container without content has no place, and no height that CSS keeps
    with cards_place:
        picked, time_places = choose_methods(
            methods,
            parts=source.parts if transfers else None,
            proposal=proposal,
            cards=cards,
            more=more_place,
            is_demo=dataset.origin in DEMOS,
        )
    lacking = unseen(sets, source.manifest.get("descriptor") or {})
    with split_place:
        n, n_test, by_formula = choose_split(
            dataset, total=total, available=n_taken(picked, lacking, methods)
        )
    base, lengths = more_settings(
        TransferRequest(n=n, n_test=n_test, by_formula=by_formula),
        levels=preset_levels(proposal, picked, kind=target.kind),
        numbers=stores.numbers(dataset),
        place=more_place,
    )
    times = JobTimes(stores.jobs(), stores.library())
    requests_by_method = {
        name: with_method(base, name, methods[name], lengths) for name in (*picked, *time_places)
    }
    estimates = {
        name: times.transfer(dataset.id, source.id, request)
        for name, request in requests_by_method.items()
    }
    errors = {card.method: card.measured for card in cards}
    for name, place in time_places.items():
        measured, estimate = errors[name], estimates[name]
        parts = [f"RMSE {measured.text}" if measured else ""]
        parts.append(f"about {rounded(estimate.seconds)}" if estimate else "")
        place.caption(words.sentence(" · ".join(filter(None, parts))) or "\u00a0")
    seconds = {name: estimate.seconds for name, estimate in estimates.items() if estimate}
    picked = sorted(picked, key=lambda name: seconds.get(name, 0.0))
    requests = tested_alike([requests_by_method[name] for name in picked], lacking, methods)
    with start_place:
        for text in (
            unseen_sentence(lacking, picked, methods),
            levels_left_out(proposal, picked, base.levels),
        ):
            if text:
                st.info(words.escaped_sentence(text))
        start_button(
            dataset,
            source,
            requests,
            methods=methods,
            estimates=[e for name in picked if (e := estimates[name])],
            problem=obstacle(requests, dataset, usable=total, transfers=transfers),
            primary=primary,
        )


def _choose_dataset(datasets: Mapping[str, Dataset], usable: Mapping[str, int]) -> Dataset:
    names = {
        i: f"{name} ({words.count(usable[i], 'labelled structure')})"
        for i, name in stores.dataset_labels(datasets.values()).items()
    }
    link = help_link("how-to/labels-and-units", "Labels and units")
    return datasets[choose("data", "Target data", names, help=_DATA_HELP + link)]


def _choose_source(target: Target) -> Source:
    sources = stores.sources() | {NO_SOURCE: Source(NO_SOURCE, "No source model", Path())}
    proposed = proposed_source(sources, target)
    why_none = (
        " None is proposed: the first lacks elements of your structures, and no other was measured "
        "to help on such ones."
    )
    text = _SOURCE_HELP + (why_none if proposed == NO_SOURCE else "")
    link = help_link("explanation/which-source-and-method", "Which source")
    titles = {i: source.title for i, source in sources.items()}
    source_id = choose("source", "Source model", titles, proposed=proposed, help=text + link)
    return sources[source_id]


def proposed_source(sources: Mapping[str, Source], target: Target) -> str:
    """Return the id of the proposed source model, or `NO_SOURCE`."""
    gain = source_gain(target, potentials=stores.system().potentials)
    if gain and gain[0].source in sources:
        return gain[0].source
    first = next(iter(sources.values()))
    n_known = unseen(target.element_sets, first.manifest.get("descriptor") or {}).n_known
    return first.id if propose(target, n_known=n_known).transfers else NO_SOURCE


def with_method(
    base: TransferRequest, name: str, method: MethodEntry, lengths: Mapping[str, int]
) -> TransferRequest:
    """Return the request of a method; for a method that samples it contains the chain lengths."""
    settings: dict[str, Any] = {}
    if method.sampler:
        defaults = {
            key: method.sampler[key]
            for key in ("warmup", "draws")
            if method.sampler.get(key) is not None
        }
        settings["sampler"] = defaults | dict(lengths)
    return base.changed(method=name, settings=settings)


def start_button(
    dataset: Dataset,
    source: Source,
    requests: Sequence[TransferRequest],
    *,
    methods: Methods,
    estimates: Sequence[Estimate],
    problem: str,
    primary: bool,
) -> None:
    """Draw the problem or the time, and the button that starts the transfers, the quickest first.

    `requests` are in that order; `estimates` are those of the transfers whose time is known.
    """
    if problem:
        st.error(words.escaped_sentence(problem))
    label = "Start training" if len(requests) < 2 else f"Start {len(requests)} trainings"
    kind: Literal["primary", "secondary"] = "primary" if primary else "secondary"
    with frame.row():
        if st.button(
            label,
            type=kind,
            key="start-transfers",
            disabled=bool(problem),
            help=features_sentence(source, len(requests) and (requests[0].n or 0)) or None,
        ):
            start(dataset, source, requests, methods=methods)
        if estimates and not problem:
            st.caption(
                f"About {rounded(sum(estimate.seconds for estimate in estimates))}.",
                width="content",
                help=estimate_help(estimates),
            )


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


def obstacle(
    requests: Sequence[TransferRequest], dataset: Dataset, *, usable: int, transfers: bool
) -> str:
    """Return why these transfers cannot start, or an empty text."""
    if not requests:
        return "No method is chosen. Tick at least one."
    first = requests[0]
    n = first.n or 0
    n_test = first.n_test or 0
    if n + n_test > usable:
        return (
            f"{n} to learn from and {n_test} held out are more than the {usable} labelled "
            "structures. Lower one of the two."
        )
    if first.features and transfers:
        return _FEATURES_WITH_SOURCE
    if first.levels in ("none", HUECKEL):
        return ""
    return tight_binding_gaps_problem(dataset.level_of_theory)


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
        if all(levels_help(kind, name, levels, has_source=proposal.transfers) for name in methods):
            return levels
    return "none"


def levels_left_out(proposal: Proposal, picked: Sequence[str], levels: str | None) -> str:
    """Return that methods are picked without the proposed electron levels, or an empty text."""
    if not picked or proposal.levels in ("none", levels):
        return ""
    present = "none" if levels in ("none", None) else f"{levels} levels"
    return (
        f"Proposed are {proposal.levels} levels; this start has {present} (More settings), as not "
        "every picked method was better with them. Errors may be larger than on the cards."
    )


def start(
    dataset: Dataset,
    source: Source,
    requests: Sequence[TransferRequest],
    *,
    methods: Methods,
) -> None:
    """Submit the transfers, select the last new one, and say which existed before.

    The first one is a first answer to the others, while they run.
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
                    title=title_of(request, dataset, methods),
                    first_answer=started[0].run if started else "",
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
    session.choose(
        "run", next((entry.run for entry in started[::-1] if entry.new), started[-1].run)
    )
    session.set_trains_on("")
    st.rerun()


def title_of(request: TransferRequest, dataset: Dataset, methods: Methods) -> str:
    """Return the initial name of a run: what, with unusual settings, on what, and when."""
    parts = (
        request.by_formula and "By formula",
        methods[str(request.method)].title,
        request.conformal_share and f"{100 * request.conformal_share:.0f} % held back",
        request.test_known and "tested on known elements",
        request.levels != "none" and f"{request.levels} levels",
        request.baseline and f"difference to {request.baseline}",
        request.features and f"own features{' alone' if request.preset else ''}",
        f"{request.n} of {dataset.name[:40]}",
        time.strftime("%d %b %H:%M"),
    )
    return ", ".join(map(str, filter(None, parts)))[:MAX_NAME]


_FEATURES_WITH_SOURCE = (
    "Your own features are learned without a source model, which has its own descriptor. Choose "
    "No source model, or remove the table under More settings."
)
_DATA_HELP = "The labelled crystals that the transfer learns from."
_SOURCE_HELP = (
    "The network that was trained on many structures; the transfer moves it to your crystals. "
    "Without one, methods without transfer learn from your crystals only, whatever their elements "
    "are."
)
