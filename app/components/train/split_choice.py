"""The split and the settings of the form that starts transfers."""

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.shared import stores, words
from app.components.shared.guide_links import help_link
from app.components.shared.request_fields import draw_fields
from bandgap.datasets.units import states_unit
from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import BOTH, HUECKEL, METHOD, MOLECULES, SUPERCELL
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.entries import MethodEntry
from bandgap.predictions.conformal import smallest_calibration_set
from bandgap.runs.requests import TransferRequest

MOST_BY_DEFAULT = 2_000  # the time of exact Gaussian processes grows with the cube of it


def usual_lengths(methods: Mapping[str, MethodEntry]) -> dict[str, str]:
    """Return warm-up and draws of the first method that samples, as texts."""
    samplers = (method.sampler for method in methods.values())
    first: Mapping[str, Any] = next(
        (sampler for sampler in samplers if {"warmup", "draws"} <= set(sampler)), {}
    )
    return {
        key: f"{length:,}" if (length := first.get(key)) else "the method's own"
        for key in ("warmup", "draws")
    }


def usual_n(available: int, *, total: int, test_percent: int | None = None) -> int:
    """Return the initial number of structures to learn from: all that are not held out.

    Parameters
    ----------
    available
        Number of labelled structures that every selected method takes.
    total
        Number of labelled structures, of which `test_percent` are held out.
    """
    percent = usual_test_percent(total) if test_percent is None else test_percent
    return max(1, min(MOST_BY_DEFAULT, available - n_held_out(total, percent)))


def usual_test_percent(total: int) -> int:
    """Return the initial share of the structures that is held out, in per cent."""
    return 30 if total < 1000 else 20


def n_held_out(total: int, percent: int) -> int:
    """Return the number of structures that are held out."""
    return max(1, round(percent / 100 * total))


def choose_split(
    total: int,
    *,
    available: int,
    usual: Mapping[str, str],
    levels_installed: bool,
    bonds_installed: bool,
    numbers: Mapping[str, int],
    levels: ElectronLevels = "none",
    more: DeltaGenerator,
) -> tuple[TransferRequest, dict[str, int]]:
    """Draw the split and, in another place, more settings, and return them.

    Parameters
    ----------
    total
        Number of labelled structures.
    available
        Number of those that every selected method takes.
    usual
        Usual lengths of the chains, as texts.
    levels_installed
        Whether the worker can compute electron levels by tight binding.
    bonds_installed
        Whether it can perceive the bonds of molecules, for levels by Hückel's method.
    numbers
        Number of structures by the name of a stored number, which may be a baseline.
    levels
        The proposed electron levels.
    more
        Place of the expander with more settings.

    Returns
    -------
    request
        A request without a method.
    lengths
        Lengths of the chains that were entered, by their names in a sampler.
    """
    left_column, right_column = st.columns(2)
    seed = right_column.container(key="field-seed").number_input(
        "Seed", 0, 2**31 - 1, 0, help=_SEED_HELP
    )
    with more.expander("More settings"):
        test = st.slider(
            "Held out for the test",
            5,
            50,
            usual_test_percent(total),
            5,
            format="%d %%",
            help=_TEST_HELP + help_link("explanation/calibration", "What is measured"),
        )
        share = st.slider(
            "Hold back for conformal intervals",
            0,
            50,
            0,
            5,
            format="%d %%",
            help=_CONFORMAL_HELP + help_link("explanation/intervals", "Conformal intervals"),
        )
        with_levels = st.checkbox(
            f"Learn from electron levels too ({METHOD})",
            value=levels not in ("none", HUECKEL) and levels_installed,
            disabled=not levels_installed,
            help=_LEVELS_HELP
            + ("" if levels_installed else _LEVELS_MISSING)
            + help_link("how-to/electron-levels", "Electron levels"),
            key=f"levels-of-the-structure-{levels}",
        )
        of_molecules = st.checkbox(
            "Levels of each molecule alone",
            value=levels == MOLECULES and levels_installed,
            disabled=not with_levels,
            help=_MOLECULES_HELP + help_link("how-to/electron-levels", "Which one"),
            key=f"levels-of-molecules-{levels}",
        )
        dense = st.checkbox(
            "Levels at more k points where a cell is small",
            disabled=not with_levels or of_molecules,
            help=_SUPERCELL_HELP + help_link("how-to/electron-levels", "Which one"),
            key=f"levels-at-more-k-points-{levels}",
        )
        of_bonds = st.checkbox(
            "Learn from levels by Hückel's method",
            value=levels in (HUECKEL, BOTH) and bonds_installed,
            disabled=of_molecules or dense or not bonds_installed,
            help=_HUECKEL_HELP
            + ("" if bonds_installed else _BONDS_MISSING)
            + help_link("how-to/electron-levels", "Levels from bonds"),
            key=f"levels-of-bonds-{levels}",
        )
        baseline = st.selectbox(
            "Learn the difference to",
            ["", *(name for name in numbers if states_unit(name))],
            format_func=lambda k: (
                f"{k} (of {words.count(numbers[k], 'structure')})"
                if k
                else "nothing: the gap itself"
            ),
            help=_BASELINE_HELP
            + help_link(
                "how-to/theory-levels-and-baselines", "Learn the difference to a cheaper gap"
            ),
        )
        upload = st.file_uploader(
            "Your own features",
            type=["csv", "tsv", "txt", "parquet", "npz"],
            key="train-features",
            help=_FEATURES_HELP + help_link("how-to/own-features", "Own features"),
        )
        is_alone = st.checkbox(
            "Learn from your own features alone", disabled=upload is None, key="train-alone"
        )
        drawn = draw_fields(TransferRequest, key="train")
        warmup = st.number_input(
            "Warm-up iterations",
            20,
            100_000,
            None,
            placeholder=usual["warmup"],
            help=_WARMUP_HELP
            + help_link("tutorials/reading-a-posterior", "First: have the chains settled?"),
        )
        draws = st.number_input(
            "Draws of each chain",
            20,
            100_000,
            None,
            placeholder=usual["draws"],
            help=_DRAWS_HELP
            + help_link("tutorials/reading-a-posterior", "First: have the chains settled?"),
        )
    n_test = n_held_out(total, test)
    with_baseline = min(available, numbers[baseline]) if baseline else available
    default_n = usual_n(with_baseline, total=total, test_percent=test)
    # drawn last, as its default depends on the share held out; it is the first in its column
    entered_n = left_column.number_input(
        "Labelled structures",
        10,
        max(total - 1, 10),
        None,
        placeholder=f"{default_n:,}",
        key="train-n",  # a change of the share held out keeps an entered number
        help=_N_HELP,
    )
    n = default_n if entered_n is None else entered_n
    levels_name: ElectronLevels = "none"
    if with_levels:
        levels_name = SUPERCELL if dense else METHOD
        if of_molecules:
            levels_name = MOLECULES
        elif of_bonds and not dense:
            levels_name = BOTH
    elif of_bonds:
        levels_name = HUECKEL
    request = TransferRequest(
        n=int(n),
        n_test=n_test,
        seed=int(seed),
        conformal_share=share / 100,
        levels=levels_name,
        baseline=baseline,
        features="" if upload is None else stores.stored_table(upload),
        preset="none" if upload is not None and is_alone else None,
        **drawn,
    )
    st.caption(split_sentence(request, total=total))
    lengths = {"warmup": warmup, "draws": draws}
    return request, {name: int(value) for name, value in lengths.items() if value is not None}


def split_sentence(request: TransferRequest, *, total: int) -> str:
    """Return how many structures are used, held out and unused, and the device of the run."""
    n = request.n or 0
    n_test = request.n_test or 0
    unit = "whole formulas" if request.by_formula else "single structures"
    n_unused = max(total - n - n_test, 0)
    unused = f"{n_unused:,} unused" if n_unused else "none unused"
    conformal = "no conformal intervals"
    if request.conformal_share:
        conformal = (
            f"{words.percent(request.conformal_share)} of the {n:,} held back for conformal "
            "intervals"
        )
    device = "chosen by the worker" if request.device == "auto" else request.device
    levels = "" if request.levels == "none" else f" electron levels of {n + n_test:,} structures;"
    return (
        f"Of {words.count(total, 'labelled structure')} the run learns from {n:,}; {n_test:,} are "
        f"held out for the test, by {unit}; {unused}. {words.sentence(conformal)};{levels} device "
        f"{device}."
    )


_N_HELP = (
    "How many the transfer learns from, drawn at random among those not held out. Empty: all of "
    f"them, at most {MOST_BY_DEFAULT:,}. More is better and slower."
)
_SEED_HELP = "Fixes the split and the random numbers: the same seed repeats the run."
_WARMUP_HELP = "Methods that sample: iterations in which each chain adapts; they are discarded."
_DRAWS_HELP = (
    "Methods that sample: iterations that count. Raise them when the chains have not agreed yet."
)
_CONFORMAL_HELP = (
    f"{Quantity.CONFORMAL.help} A share of the labelled structures above, which the fit then does "
    f"without; 95 % needs at least {smallest_calibration_set(0.95)} of them. At 0 % there are no "
    "conformal intervals."
)
_TEST_HELP = (
    "Share of all labelled structures that is never learned from; error and coverage are measured "
    "on it. Runs with the same share and seed are tested on the same structures."
)
_LEVELS_HELP = (
    "Gap, HOMO and LUMO of every structure by tight binding: seconds of computing for each "
    "crystal, here and for every prediction, and often much smaller errors. Gaussian processes, "
    "kernel ridge and trees learn from all three; the other methods learn what a straight line in "
    "this gap leaves of yours."
)
_MOLECULES_HELP = (
    "Of the molecules inside the crystal, without its metals: for hybrid perovskites and other "
    "crystals with a framework of metal. A structure without a molecule is left out."
)
_HUECKEL_HELP = (
    "Gap, HOMO and LUMO of the molecules in a structure, from their bonds alone: milliseconds "
    "for each, in addition to tight binding or instead of it. A structure without a molecule is "
    "left out."
)
_SUPERCELL_HELP = (
    "Of a supercell instead of the cell alone: it pays with inorganic crystals of a few atoms. "
    "Large cells, as of organic crystals, are not repeated."
)
_BASELINE_HELP = (
    "A gap at a cheaper level that every structure has besides its known gap: another gap column "
    "of the table on the page Data, or a number of extXYZ files whose name states its unit, such "
    "as gap_pbe_eV. Every method then learns what a straight line in it leaves. Structures without "
    "it are left out, and predictions need it too."
)
_FEATURES_HELP = (
    "A table (CSV, Parquet or npz) of numbers of your own for each structure, by its id, such as "
    "embeddings of another program. Learned from beside the descriptor or alone, without a source "
    "model; predictions need the same columns."
)
_BONDS_MISSING = (
    " RDKit is not installed on this server: `pip install -c constraints.txt .` in the folder of "
    "bandgap's README."
)
_LEVELS_MISSING = (
    " Not installed on this server: `pip install -c constraints.txt '.[xtb]'` in the folder of "
    "bandgap's README."
)
