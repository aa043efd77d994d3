"""The form that starts transfers: data, source model, methods, split; one press makes one run for each method."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import session
import streamlit as st

from bandgap.descriptors.electron_levels import SUPERCELL, own_gaps_problem
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.estimates import (
    Work,
    atoms_to_describe,
    atoms_with_levels,
    describe_seconds,
    estimate_transfer,
    past_transfers,
)
from bandgap.jobs.rows import Dataset
from bandgap.jobs.sources import Source
from bandgap.jobs.starting import start_transfer
from bandgap.sources.cards import NO_SOURCE
from bandgap.sources.proposed import Target, propose
from components.shared import frame, stores, tables, words
from components.shared.estimate_words import estimate_sentence
from components.shared.run_choice import choose
from components.train.many_rows import BY_BATCHES, mini_batch_hint
from components.train.method_choice import choose_methods
from components.train.split_choice import choose_split, usual_lengths, usual_n
from components.train.unseen_elements import tested_alike, too_few_known, unseen, unseen_sentence


@st.fragment
def setup_form(datasets: Mapping[str, Dataset], usable: Mapping[str, int], *, primary: bool = True) -> None:
    """Draw the form: one press makes one job for each method, however often it is pressed."""
    sources = stores.sources() | {NO_SOURCE: Source(NO_SOURCE, "No source model", Path())}
    methods = stores.library().catalogue("method")
    left, right = st.columns(2, gap="large")
    with left:
        names = {i: f"{d.name} ({words.count(usable[i], 'labelled structure')})" for i, d in datasets.items()}
        dataset = datasets[choose("data", "Target data", names, help=_DATA_HELP)]
    sets = stores.elements(dataset)
    with right:
        titles = {i: source.title for i, source in sources.items()}
        target = Target(sets, dataset.level_of_theory, usual_n(usable[dataset.id]))
        proposed, why_none = proposed_source(sources, target)
        source = sources[choose("source", "Source model", titles, proposed=proposed, help=_SOURCE_HELP)]
        if source.id == NO_SOURCE and why_none:
            st.caption(words.escaped_sentence(why_none))
    total = usable[dataset.id]
    if total < stores.MIN_LABELLED:
        st.warning(
            f"{words.count(total, 'structure')} with a gap; at least {stores.MIN_LABELLED} are needed. "
            "Give more of them a gap on the Data page."
        )
        return
    left, right = st.columns(2, gap="large")
    installed, transfers = stores.levels_installed(), source.id != NO_SOURCE
    proposal = propose(target, transfers=transfers, levels_installed=installed)
    with left:
        chosen = choose_methods(methods, parts=source.parts if transfers else None, proposal=proposal)
    with right:
        st.markdown("Split and settings")
        numbers, lengths = stores.numbers(dataset), usual_lengths(methods)
        split = choose_split(
            total, usual=lengths, levels_installed=installed, numbers=numbers, levels=proposal.levels != "none"
        )
        config = {"source": source.id} | split
        if source.id != NO_SOURCE:
            with st.expander("What the source model was trained on"):
                tables.card(source.card)
        sampler = config.pop("sampler")
        if source.id != NO_SOURCE:
            cost = estimate_transfer(Work(BY_BATCHES, config["n"]), past=past_transfers(stores.jobs()))
            if hint := mini_batch_hint(config["n"], chosen, methods, cost):
                st.info(hint)
        lacking = unseen(sets, source.manifest.get("descriptor") or {})
        if said := unseen_sentence(lacking, chosen, methods):
            st.info(words.escaped_sentence(said))
        runs = [run_config(config, name, methods[name], sampler=sampler) for name in chosen]
        runs = tested_alike(runs, lacking, methods)
        problem = obstacle(runs, usable=total) or too_few_known(runs, lacking, methods)
        problem = problem or levels_obstacle(runs, dataset)
        start_button(dataset, source, runs, methods=methods, problem=problem, primary=primary)


def proposed_source(sources: Mapping[str, Source], target: Target) -> tuple[str, str]:
    """Return the first source model where it is proposed for a target, else that there is none and why."""
    first, total = next(iter(sources.values())), target.total
    known = unseen(target.element_sets, first.manifest.get("descriptor") or {}).known
    if propose(target, n_known=known).transfers:
        return first.id, ""
    return NO_SOURCE, (
        f"Proposed, because {first.title} knows all elements of {known:,} of {words.count(total, 'structure')}. "
        "Any source model can be chosen all the same."
    )


def run_config(
    config: Mapping[str, Any], name: str, method: Mapping[str, Any], *, sampler: Mapping[str, int]
) -> dict[str, Any]:
    """Return the settings of one method's run: of a method that samples, also how long its chains are."""
    own = method["settings"].get("sampler", {})
    lengths = {key: own[key] for key in ("warmup", "draws") if own.get(key) is not None} | dict(sampler)
    return {**config, "method": name, "settings": {"sampler": lengths} if own else {}}


def start_button(
    dataset: Dataset,
    source: Source,
    runs: list[dict[str, Any]],
    *,
    methods: Mapping[str, Mapping[str, Any]],
    problem: str,
    primary: bool,
) -> None:
    """Say how long it will take, or what is in the way, and start on a press."""
    if problem:
        st.error(words.escaped_sentence(problem))
    else:
        past, fresh = past_transfers(stores.jobs()), atoms_to_describe(stores.jobs(), dataset, source.id)
        total = stores.library().counts(dataset.id)["usable"]
        with_levels = atoms_with_levels(stores.jobs(), dataset, runs[0], total=total)
        atom_s = describe_seconds(source.manifest.get("descriptor") or {})
        found = {
            methods[run["method"]]["title"]: estimate_transfer(
                Work.of(run),
                past=past,
                atoms=fresh if k == 0 else 0,
                atom_s=atom_s,
                levels_atoms=with_levels if k == 0 else 0,
            )
            for k, run in enumerate(runs)
        }
        st.caption(estimate_sentence(found, device=stores.device_of(runs[0]["device"])))
    label = "Start the transfer" if len(runs) < 2 else f"Start {len(runs)} transfers"
    kind: Literal["primary", "secondary"] = "primary" if primary else "secondary"
    if st.button(label, type=kind, key="start-transfers", disabled=bool(problem)):
        start(dataset, runs, methods=methods)


def obstacle(runs: list[dict[str, Any]], *, usable: int) -> str:
    """Return why these runs cannot start, or an empty text."""
    if not runs:
        return "No method is chosen. Tick at least one."
    n, n_test = runs[0]["n"], runs[0]["n_test"]
    if n + n_test > usable:
        return (
            f"{n} to learn from and {n_test} held out are more than the {usable} labelled structures. "
            "Lower one of the two."
        )
    return ""


def levels_obstacle(runs: list[dict[str, Any]], dataset: Dataset) -> str:
    """Return why electron levels cannot be given to these runs, or an empty text."""
    return own_gaps_problem(dataset.level_of_theory) if runs and "levels" in runs[0] else ""


def start(dataset: Dataset, runs: list[dict[str, Any]], *, methods: Mapping[str, Mapping[str, Any]]) -> None:
    """Queue the transfers and show the first of them; say which of them were there before."""
    try:
        started = [
            start_transfer(stores.jobs(), stores.library(), dataset, config=run, title=title_of(run, methods))
            for run in runs
        ]
    except BandgapError as error:
        frame.problem(error)
        return
    known = [found.job for found in started if not found.new]
    if finished := [words.escaped(job.title) for job in known if job.state == "finished"]:
        session.tell(
            f"Finished before with the same settings and seed, which give the same result: {', '.join(finished)}. "
            "Change the seed, the size or a setting for another run."
        )
    session.choose("run", next((found.run for found in started if found.new), started[0].run))
    st.rerun()


def title_of(run: Mapping[str, Any], methods: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name that a run begins with: its method, its size, and what is not usual of its split."""
    parts = [methods[run["method"]]["title"], f"n = {run['n']}"]
    parts += [f"{100 * run['conformal_share']:.0f} % held back"] if run["conformal_share"] else []
    parts += ["by formula"] if run["by_formula"] else []
    parts += ["tested on known elements"] if run.get("test_known") else []
    parts += (
        ["electron levels" + (" at more k points" if run["levels"] == SUPERCELL else "")] if "levels" in run else []
    )
    parts += [f"difference to {run['baseline']}"] if "baseline" in run else []
    return ", ".join(parts)


_DATA_HELP = "The labelled crystals that the transfer learns from."
_SOURCE_HELP = (
    "The network that was trained on many structures; the transfer moves it to your crystals. Without one, methods "
    "without transfer learn from your crystals alone, whatever their elements are: on inorganic crystals they err less "
    "than transfers from the shipped source models, and are proposed."
)
