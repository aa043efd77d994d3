"""The split and the settings of the form that starts transfers."""

import math
from collections.abc import Mapping

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components.shared import stores, words
from app.components.shared.guide_links import help_link
from bandgap.datasets.units import states_unit
from bandgap.descriptors.block_settings import INSTALL_LEVELS, ElectronLevels
from bandgap.descriptors.electron_levels import BOTH, HUECKEL, METHOD, MOLECULES, SUPERCELL
from bandgap.evaluation.result_verdict import FEWEST_JUDGED
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.rows import Dataset
from bandgap.predictions.conformal import smallest_calibration_set
from bandgap.runs.requests import TransferRequest

MOST_BY_DEFAULT = 2_000  # the time of exact Gaussian processes grows with the cube of it
MOST_OF_DEMO = 200  # a Bayesian transfer takes about a minute
SPLITS = ("single structures", "whole formulas")
LEVELS: Mapping[ElectronLevels, str] = {
    "none": "none",
    METHOD: f"tight binding ({METHOD})",
    SUPERCELL: "tight binding at more k points where a cell is small",
    MOLECULES: "tight binding of each molecule alone",
    HUECKEL: "Hückel's method, from bonds",
    BOTH: "tight binding and Hückel's method",
}


def usual_n(available: int, dataset: Dataset, *, total: int, test_percent: int = 0) -> int:
    """Return the initial number of structures to learn from: all that are not held out.

    Of a demo these are few, so that the first result comes soon.

    Parameters
    ----------
    available
        Number of labelled structures that every selected method takes.
    dataset
        The data set, which may be that of a demo.
    total
        Number of labelled structures, of which `test_percent` are held out; 0 for the usual share.
    """
    most = MOST_OF_DEMO if dataset.origin in DEMOS else MOST_BY_DEFAULT
    n_test = n_held_out(total, test_percent or usual_test_percent(total))
    return max(1, min(most, available - n_test))


def usual_test_percent(total: int) -> int:
    """Return the initial share of the structures that is held out, in per cent.

    It is enough to judge a run by, where half of the structures are.
    """
    usual = 30 if total < 1000 else 20
    enough = 5 * math.ceil(20 * FEWEST_JUDGED / total)
    return max(usual, enough) if enough <= 50 else usual


def n_held_out(total: int, percent: int) -> int:
    """Return the number of structures that are held out."""
    return max(1, round(percent / 100 * total))


def choose_split(dataset: Dataset, *, total: int, available: int) -> tuple[int, int, bool]:
    """Draw the line of the split.

    Returns the number to learn from, the number held out, and whether the split keeps formulas
    together. `available` is the number of labelled structures that every picked method takes.
    """
    count_place, share_place, unit_place = st.columns(3, vertical_alignment="bottom")
    percent = share_place.slider(
        "Held out for the test",
        5,
        50,
        usual_test_percent(total),
        5,
        format="%d %%",
        help=_TEST_HELP + help_link("explanation/calibration", "What is measured"),
    )
    unit = unit_place.selectbox(
        "Split by",
        SPLITS,
        key="train-split-by",
        help=TransferRequest.field("by_formula").setting.help
        + help_link("explanation/calibration", "Near-copies across a split"),
    )
    default_n = usual_n(available, dataset, total=total, test_percent=percent)
    entered_n = count_place.number_input(
        "Labelled structures",
        10,
        max(total - 1, 10),
        None,
        placeholder=f"{default_n:,}",
        key="train-n",  # a change of the share held out keeps an entered number
        help=_N_HELP,
    )
    n = default_n if entered_n is None else entered_n
    n_test = n_held_out(total, percent)
    n_unused = max(total - n - n_test, 0)
    st.caption(
        f"Of {words.count(total, 'labelled structure')} {n:,} are learned from, {n_test:,} held "
        f"out for the test, {f'{n_unused:,}' if n_unused else 'none'} unused."
    )
    return n, n_test, unit == SPLITS[1]


def more_settings(
    base: TransferRequest,
    *,
    levels: ElectronLevels,
    numbers: Mapping[str, int],
    place: DeltaGenerator,
) -> tuple[TransferRequest, dict[str, int]]:
    """Draw the expander with all other settings.

    Returns the request with them, still without a method, and the entered lengths of the chains by
    their names in a sampler.

    Parameters
    ----------
    base
        A request with the split.
    levels
        The proposed electron levels.
    numbers
        Number of structures by the name of a stored number, which may be a baseline.
    place
        Place of the expander.
    """
    offered = offered_levels()
    with place.expander("More settings"):
        left_column, right_column = st.columns(2)
        levels_name = left_column.selectbox(
            "Electron levels",
            offered,
            offered.index(levels) if levels in offered else 0,
            format_func=LEVELS.__getitem__,
            help=_LEVELS_HELP
            + ("" if METHOD in offered else _LEVELS_MISSING)
            + help_link("how-to/electron-levels", "Which one"),
            key=f"levels-{levels}",
        )
        seed = right_column.number_input("Seed", 0, 2**31 - 1, 0, help=_SEED_HELP)
        share = left_column.slider(
            "Hold back for conformal intervals",
            0,
            50,
            0,
            5,
            format="%d %%",
            help=_CONFORMAL_HELP + help_link("explanation/intervals", "Conformal intervals"),
        )
        baseline = ""
        if names := [name for name in numbers if states_unit(name)]:
            baseline = right_column.selectbox(
                "Learn the difference to",
                ["", *names],
                format_func=lambda name: (
                    f"{name} (of {words.count(numbers[name], 'structure')})"
                    if name
                    else "nothing: the gap itself"
                ),
                help=_BASELINE_HELP
                + help_link(
                    "how-to/theory-levels-and-baselines", "Learn the difference to a cheaper gap"
                ),
            )
        lengths = _chain_lengths()
        upload = st.file_uploader(
            "Your own features",
            type=["csv", "tsv", "txt", "parquet", "npz"],
            key="train-features",
            help=_FEATURES_HELP + help_link("how-to/own-features", "Own features"),
        )
        is_alone = upload is not None and st.checkbox(
            "Learn from your own features alone", key="train-alone"
        )
    request = base.changed(
        seed=int(seed),
        conformal_share=share / 100,
        levels=levels_name,
        baseline=baseline,
        features="" if upload is None else stores.stored_table(upload),
        preset="none" if is_alone else None,
    )
    return request, lengths


def _chain_lengths() -> dict[str, int]:
    """Draw the fields of the chains' lengths and return those that are filled in."""
    lengths = {}
    fields = (("warmup", "Warm-up iterations"), ("draws", "Draws of each chain"))
    for column, (name, label) in zip(st.columns(2), fields, strict=True):
        lengths[name] = column.number_input(
            label,
            20,
            100_000,
            None,
            placeholder="the method's own",
            help=_LENGTH_HELP
            + help_link("tutorials/reading-a-posterior", "First: have the chains settled?"),
        )
    return {name: int(value) for name, value in lengths.items() if value is not None}


def offered_levels() -> list[ElectronLevels]:
    """Return the electron levels that the server can compute."""
    system = stores.system()
    tight_binding = (METHOD, SUPERCELL, MOLECULES, BOTH)
    return [name for name in LEVELS if system.levels or name not in tight_binding]


_N_HELP = (
    "How many the transfer learns from, drawn at random among those not held out. Empty: all of "
    f"them, at most {MOST_BY_DEFAULT:,}, and {MOST_OF_DEMO} of a demo. More is better and slower."
)
_SEED_HELP = "Fixes the split and the random numbers: the same seed repeats the run."
_LENGTH_HELP = (
    "Of methods that sample. In warm-up each chain adapts, and its iterations are discarded. Raise "
    "the draws when the chains have not agreed yet."
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
    "Gap, HOMO and LUMO of every structure, for all methods of a start: often much smaller errors. "
    "By tight binding they take seconds a crystal, here and for every prediction; from bonds they "
    "take milliseconds, and structures without a molecule are left out."
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
_LEVELS_MISSING = f" tblite is not installed on this server: {INSTALL_LEVELS}."
