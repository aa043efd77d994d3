"""The form that starts transfers: data, source model, methods, split; one press makes one run for each method."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import session
import streamlit as st

from bandgap.descriptors.electron_levels import METHOD, SUPERCELL, own_gaps_problem
from bandgap.foundation.errors import BandgapError
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.estimates import Work, atoms_to_describe, describe_seconds, estimate_transfer, past_transfers
from bandgap.jobs.rows import Dataset
from bandgap.jobs.sources import Source
from bandgap.jobs.starting import start_transfer
from bandgap.predictions.conformal import smallest_calibration_set
from bandgap.sources.cards import NO_SOURCE
from components.shared import frame, stores, tables, words
from components.shared.estimate_words import estimate_sentence
from components.shared.run_choice import choose
from components.train.many_rows import BY_BATCHES, mini_batch_hint

DEFAULT_N = 200
PREFERRED = ("btl_pcp_pe", "stacking", "parts_gp")  # with a source model, and without (benchmarks.crystals)
LAST = "without transfer"  # the family that is only there to compare with
PARTS = {
    "fisher": "Fisher information",
    "variational": "a variational posterior of its weights",
    "snapshots": "snapshots of its training",
}


@st.fragment
def setup_form(datasets: Mapping[str, Dataset], usable: Mapping[str, int], *, primary: bool = True) -> None:
    """Draw the form: one press makes one job for each method, however often it is pressed."""
    sources = stores.sources() | {NO_SOURCE: Source(NO_SOURCE, "No source model", Path())}
    methods = stores.library().catalogue("method")
    left, right = st.columns(2, gap="large")
    with left:
        names = {i: f"{d.name} ({words.count(usable[i], 'labelled structure')})" for i, d in datasets.items()}
        dataset = datasets[choose("data", "Target data", names, help=_DATA_HELP)]
    with right:
        titles = {i: source.title for i, source in sources.items()}
        source = sources[choose("source", "Source model", titles, help=_SOURCE_HELP)]
    total = usable[dataset.id]
    if total < stores.MIN_LABELLED:
        st.warning(
            f"{words.count(total, 'structure')} with a gap; at least {stores.MIN_LABELLED} are needed. "
            "Give more of them a gap on the Data page."
        )
        return
    left, right = st.columns(2, gap="large")
    with left:
        chosen = choose_methods(methods, parts=source.parts if source.id != NO_SOURCE else None)
    with right:
        st.markdown("Split and settings")
        numbers = stores.numbers(dataset)
        lengths, installed = usual_lengths(methods), stores.levels_installed()
        split = choose_split(total, usual=lengths, levels_installed=installed, numbers=numbers)
        config = {"source": source.id} | split
        if source.id != NO_SOURCE:
            with st.expander("What the source model was trained on"):
                tables.card(source.card)
        sampler = config.pop("sampler")
        if source.id != NO_SOURCE:
            cost = estimate_transfer(Work(BY_BATCHES, config["n"]), past=past_transfers(stores.jobs()))
            if hint := mini_batch_hint(config["n"], chosen, methods, cost):
                st.info(hint)
        runs = [run_config(config, name, methods[name], sampler=sampler) for name in chosen]
        start_button(dataset, source, runs, methods=methods, usable=total, primary=primary)


def usual_lengths(methods: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the lengths of the chains of the first method that samples, in words."""
    samplers = (method["settings"].get("sampler", {}) for method in methods.values())
    first: Mapping[str, Any] = next((sampler for sampler in samplers if {"warmup", "draws"} <= set(sampler)), {})
    return {key: f"{length:,}" if (length := first.get(key)) else "the method's own" for key in ("warmup", "draws")}


def choose_split(
    total: int, *, usual: Mapping[str, str], levels_installed: bool, numbers: Mapping[str, int]
) -> dict[str, Any]:
    """Draw what is learned from and what is held out, and the settings that are rarely changed.

    `numbers` counts the structures by the name of a number that the store has of them, which may be a baseline.
    """
    left, right = st.columns(2)
    most = max(total - 1, 10)
    n = left.number_input("Labelled structures", 10, most, min(DEFAULT_N, round(0.7 * total)), help=_N_HELP)
    seed = right.number_input("Seed", 0, 2**31 - 1, 0, help=_SEED_HELP)
    with st.expander("More settings"):
        test = st.slider("Held out for the test", 5, 50, 30 if total < 1000 else 20, 5, format="%d %%", help=_TEST_HELP)
        grouped = st.checkbox("Keep a formula on one side of the split", help=_FORMULA_HELP)
        share = st.slider("Hold back for conformal intervals", 0, 50, 0, 5, format="%d %%", help=_CONFORMAL_HELP)
        levels = st.checkbox(
            f"Learn from electron levels too ({METHOD})",
            disabled=not levels_installed,
            help=_LEVELS_HELP + ("" if levels_installed else _LEVELS_MISSING),
        )
        dense = st.checkbox("Levels at more k points where a cell is small", disabled=not levels, help=_SUPERCELL_HELP)
        baseline = st.selectbox(
            "Learn the difference to",
            ["", *numbers],
            format_func=lambda k: (
                f"{k} (of {words.count(numbers[k], 'structure')})" if k else "nothing: the gap itself"
            ),
            help=_BASELINE_HELP,
        )
        device = st.selectbox("Device", ["auto", "cpu", "cuda"], help="auto takes a GPU where there is one.")
        warmup = st.number_input(
            "Warm-up iterations", 20, 100_000, None, placeholder=usual["warmup"], help=_WARMUP_HELP
        )
        draws = st.number_input("Draws of each chain", 20, 100_000, None, placeholder=usual["draws"], help=_DRAWS_HELP)
    n_test = max(1, round(test / 100 * total))
    how = "whole formulas" if grouped else "single structures"
    back = f"{share} % of the {n:,} held back for conformal intervals" if share else "no conformal intervals"
    st.caption(f"{words.count(n_test, 'structure')} held out by {how}; {back}; device {device}.")
    sampler = {k: int(v) for k, v in (("warmup", warmup), ("draws", draws)) if v is not None}
    config: dict[str, Any] = {"n": int(n), "n_test": n_test, "seed": int(seed), "conformal_share": share / 100}
    config |= {"levels": SUPERCELL if dense else METHOD} if levels else {}
    config |= {"baseline": baseline} if baseline else {}
    return config | {"by_formula": grouped, "device": device, "sampler": sampler}


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
    usable: int,
    primary: bool,
) -> None:
    """Say how long it will take, or what is in the way, and start on a press."""
    problem = obstacle(runs, usable=usable) or levels_obstacle(runs, dataset)
    if problem:
        st.error(words.escaped_sentence(problem))
    else:
        past, levels = past_transfers(stores.jobs()), "levels" in runs[0]
        fresh = atoms_to_describe(stores.jobs(), dataset, source.id, levels=levels)
        atom_s = describe_seconds(source.manifest.get("descriptor") or {})
        found = {
            methods[run["method"]]["title"]: estimate_transfer(
                Work.of(run), past=past, atoms=fresh if k == 0 else 0, atom_s=atom_s
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
    parts += (
        ["electron levels" + (" at more k points" if run["levels"] == SUPERCELL else "")] if "levels" in run else []
    )
    parts += [f"difference to {run['baseline']}"] if "baseline" in run else []
    return ", ".join(parts)


_DATA_HELP = "The labelled crystals that the transfer learns from."
_SOURCE_HELP = (
    "The network that was trained on many structures; the transfer moves it to your crystals. Without one, methods "
    "without transfer learn from your crystals alone, whatever their elements are."
)
_N_HELP = "How many the transfer learns from, drawn at random among those not held out. More is better and slower."
_SEED_HELP = "Fixes the split and the random numbers: the same seed repeats the run."
_WARMUP_HELP = "Methods that sample: iterations in which each chain finds its place; they are thrown away."
_DRAWS_HELP = "Methods that sample: iterations that count. Raise them when the chains have not agreed yet."
_CONFORMAL_HELP = (
    f"{Quantity.CONFORMAL.help} A share of the labelled structures above, which the fit then does without; 95 % needs "
    f"at least {smallest_calibration_set(0.95)} of them. At 0 % there are no conformal intervals."
)
_TEST_HELP = (
    "Share of all labelled structures that is never learned from; error and coverage are measured on it. Runs with the "
    "same share and seed are tested on the same structures."
)
_LEVELS_HELP = (
    "Gap, HOMO and LUMO of every structure by tight binding: seconds of computing for each crystal, here and for every "
    "prediction, and often much smaller errors. Gaussian processes, kernel ridge and trees learn from all three; the "
    "other methods learn what a straight line in this gap leaves of yours."
)
_SUPERCELL_HELP = (
    "Of a supercell instead of the cell alone: it pays with inorganic crystals of a few atoms. Large cells, as of "
    "organic crystals, are not repeated."
)
_BASELINE_HELP = (
    "A gap at a cheaper level, in eV, that every structure has beside its known gap: another gap column of the table "
    "on the page Data, or a number of extXYZ files. Every method then learns what a straight line in it leaves. "
    "Structures without it are left out, and predictions need it too."
)
_LEVELS_MISSING = (
    " Not installed on this server: `pip install -c constraints.txt '.[xtb]'` in the folder of bandgap's README."
)
_FORMULA_HELP = (
    "Structures of one composition, such as polymorphs, are then all learned from or all tested on: the honest test of "
    "what the model knows of compounds that it has not seen."
)


def choose_methods(methods: Mapping[str, Mapping[str, Any]], *, parts: frozenset[str] | None) -> list[str]:
    """Draw a checkbox for every method and return those that are chosen; `parts` is what the source model carries.

    The first method that can be is chosen to begin with. One that needs a source model where there is none (`parts` is
    None), or a part that the source lacks, says so and cannot be.
    """
    families: dict[str, list[str]] = {}
    for name, method in sorted(methods.items(), key=lambda item: item[1].get("family") == LAST):
        families.setdefault(method.get("family", ""), []).append(name)
    missing = {name: _lacking(method, parts) for name, method in methods.items()}
    default = next((name for name in PREFERRED if name in methods and not missing[name]), next(iter(methods)))
    chosen: list[str] = []
    st.markdown("Methods", help=_HELP)
    for family, names in families.items():
        title = f"{words.sentence(family)} ({len(names)})" if family else words.count(len(names), "method")
        with st.expander(title, expanded=default in names):
            for name in names:
                key = f"method-{name}" + ("" if parts is not None else "-alone")
                if _checkbox(key, methods[name], lacking=missing[name], chosen=name == default):
                    chosen.append(name)
    return chosen


def _lacking(method: Mapping[str, Any], parts: frozenset[str] | None) -> str:
    """Return what a method needs and does not have, as a sentence, or an empty text."""
    need = method.get("needs", "")
    if parts is None:
        return "" if method.get("family") == LAST else " Needs a source model."
    return (
        f" Needs a source model with {PARTS.get(need, need)}, which this one lacks."
        if need and need not in parts
        else ""
    )


def _checkbox(key: str, method: Mapping[str, Any], *, lacking: str, chosen: bool) -> bool:
    ticked = st.checkbox(method["title"], value=chosen and not lacking, key=key, disabled=bool(lacking))
    st.caption(f"{method['summary']} Takes {method['cost']}.{lacking}")
    return ticked and not lacking


_HELP = (
    "Several methods make several runs with the same split, so that they can be compared. The first kind learns how "
    "far every layer may move and gives intervals from that; the last kind does without the source model."
)
