"""A source model in words: data, level of theory, licence, error, and what it shares with a target. Loads no torch."""

from collections.abc import Mapping
from typing import Any

_FILES_SHOWN = 4


def card_rows(card: Mapping[str, Any], overlap: Mapping[str, int] | None = None) -> dict[str, str]:
    """Return what a source's card says, by name, from its plain values; `overlap` is that with a run's structures.

    >>> card_rows({"data": ["a.xyz"], "n_structures": 1200, "elements": ["C", "H"], "level_of_theory": "PBE"})["data"]
    'a.xyz (1,200 structures; C H)'
    """
    files = list(card.get("data", ()))
    names = ", ".join(files[:_FILES_SHOWN]) + (f" and {len(files) - _FILES_SHOWN} more" if len(files) > 4 else "")
    elements = " ".join(card.get("elements", ()))
    error = card.get("validation_rmse_eV")
    rows = {
        "data": f"{names or 'not recorded'} ({card.get('n_structures', 0):,} structures; {elements})",
        "level of theory": card.get("level_of_theory") or "not recorded",
        "licence of the data": card.get("licence") or "not recorded",
        "error on held-out structures": "not recorded" if error is None else f"{error:.2f} eV (RMSE)",
    }
    if displacement := card.get("displacement_angstrom"):
        rows["displaced copies"] = (
            f"of every structure one for each network, coordinates changed by {displacement:g} angstrom (sd)"
        )
    if overlap is not None:
        rows["overlap with your structures"] = overlap_sentence(overlap)
    return rows


def overlap_sentence(overlap: Mapping[str, int]) -> str:
    """Say how many target structures the source was trained on, and how many hold a molecule or network that it knows.

    >>> overlap_sentence({"n": 300, "structures": 0, "molecules": 12})
    'of 300 structures, 0 are in the source data and 12 hold a bonded unit that is'
    """
    n, same, units = overlap["n"], overlap["structures"], overlap["molecules"]
    return f"of {n:,} structures, {same:,} are in the source data and {units:,} hold a bonded unit that is"


def extras_sentence(manifest: Mapping[str, Any]) -> str:
    """Say what a stored source carries beyond its point estimate, from its manifest.

    >>> extras_sentence({"features": {"n": 9}, "extras": {"fisher": {}, "snapshots": {"rank": 8}}})
    'feature statistics, Fisher information, 8 snapshots'
    """
    extras = manifest.get("extras", {})
    words = {
        "feature statistics": manifest.get("features"),
        "Fisher information": "fisher" in extras,
        "variational posterior": "variational" in extras,
        f"{extras.get('snapshots', {}).get('rank')} snapshots": "snapshots" in extras,
    }
    return ", ".join(word for word, there in words.items() if there) or "nothing"
