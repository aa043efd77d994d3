"""A source model in text: its data, level of theory, licence and error, and structures left out.

Imports no torch.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bandgap.descriptors.growing import elements_beyond
from bandgap.foundation.errors import listed

# Instead of the name of a source, if there is none.
NO_SOURCE: Final = "none"
_N_LISTED = 4


def card_rows(
    card: Mapping[str, Any], overlap: Mapping[str, int | None] | None = None
) -> dict[str, str]:
    """Return the entries of a source's card as text, by name.

    Parameters
    ----------
    card
        The card's plain values.
    overlap
        Overlap with a run's structures.

    Examples
    --------

    >>> card = {"data": ["a.xyz"], "n_structures": 1200, "elements": ["C", "H"]}
    >>> card_rows(card)["data"]
    'a.xyz (1,200 structures; C H)'
    """
    if card.get("n_structures") == 0:  # of `sources.no_source`
        return {"data": "none; the run learned from its labelled structures alone"}
    data = listed(card.get("data", ()), _N_LISTED) or "not recorded"
    elements = " ".join(card.get("elements", ()))
    rows = {
        "data": f"{data} ({card.get('n_structures', 0):,} structures; {elements})",
        "level of theory": card.get("level_of_theory") or "not recorded",
        "licence of the data": card.get("licence") or "not recorded",
        "error on held-out structures": _held_out_error(card),
    }
    if (test_error := card.get("test_rmse_eV")) is not None:
        n_test = card.get("n_test", 0)
        rows["error on test structures"] = f"{test_error:.2f} eV (RMSE of {n_test:,})"
    if potential := card.get("potential"):
        rows["pretrained potential"] = potential
    if graph := card.get("graph"):
        rows["graph network"] = (
            f"{graph}; a transfer leaves its blocks as they are and moves the layers above them"
        )
    if displacement := card.get("displacement_angstrom"):
        rows["displaced copies"] = (
            f"of every structure one for each network, coordinates changed by {displacement:g} "
            "angstrom (sd)"
        )
    if overlap is not None:
        rows["overlap with your structures"] = overlap_sentence(overlap)
    return rows


def _held_out_error(card: Mapping[str, Any]) -> str:
    if (error := card.get("held_out_rmse_eV")) is not None:
        return f"{error:.2f} eV (RMSE of {card.get('n_held_out', 0):,})"
    if (error := card.get("validation_rmse_eV")) is None:
        return "not recorded"
    return f"{error:.2f} eV (RMSE; they also chose the epoch, which makes it too small)"


def joined_card(cards: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the joined card of several sets of a source; its error is the mean of theirs.

    Examples
    --------

    >>> one = {"data": ["a.xyz"], "n_structures": 100, "elements": ["H"], "level_of_theory": "PBE"}
    >>> joined_card([one, {**one, "elements": ["C"], "level_of_theory": "GW"}])["level_of_theory"]
    'PBE, GW'
    """
    cards = list(cards)

    def mean_of(name: str) -> float | None:
        errors = [card[name] for card in cards if card.get(name) is not None]
        return sum(errors) / len(errors) if errors else None

    def all_of(name: str) -> list[str]:
        return list(dict.fromkeys(text for card in cards for text in card.get(name, ())))

    def joined(name: str) -> str:
        return ", ".join(dict.fromkeys(text for card in cards if (text := card.get(name))))

    return {
        **cards[0],
        **{name: all_of(name) for name in ("data", "elements")},
        **{name: joined(name) for name in ("level_of_theory", "licence")},
        "n_structures": sum(card["n_structures"] for card in cards),
        "validation_rmse_eV": mean_of("validation_rmse_eV"),
        "held_out_rmse_eV": mean_of("held_out_rmse_eV"),
        "n_held_out": sum(card.get("n_held_out", 0) for card in cards),
    }


def overlap_sentence(overlap: Mapping[str, int | None]) -> str:
    """Return how many target structures are in the source data, by three definitions.

    Examples
    --------

    >>> overlap_sentence({"n": 300, "structures": 0, "molecules": 12})
    'of 300 structures, 0 are in the source data and 12 contain a bonded unit of the source data'
    >>> overlap_sentence({"n": 300, "structures": 0, "molecules": 12, "near_copies": 7})[28:]
    'the source data, 7 have a near-copy in them and 12 contain a bonded unit of the source data'
    """
    near_copies = overlap.get("near_copies")
    if overlap["structures"] is None:
        return (
            f"of {overlap['n']:,} structures, {near_copies:,} have a near-copy in the source data"
        )
    near = "" if near_copies is None else f", {near_copies:,} have a near-copy in them"
    return (
        f"of {overlap['n']:,} structures, {overlap['structures']:,} are in the source data{near}"
        f" and {overlap['molecules']:,} contain a bonded unit of the source data"
    )


def copies_of_run_sentence(manifest: Mapping[str, Any]) -> str:
    """Say how many labelled structures of a run repeat another one under a different id, or "".

    >>> copies_of_run_sentence({"data": {"n_copies": 2, "n_labelled": 9}}).partition(";")[0]
    '2 of 9 labelled structures are copies of others under different ids'
    """
    data = manifest.get("data", {})
    n = int(data.get("n_copies", 0))
    if not n:
        return ""
    verb = "is a copy of another one" if n == 1 else "are copies of others"
    return (
        f"{n:,} of {int(data['n_labelled']):,} labelled structures {verb} under different ids;"
        " copies are on one side of the split. `bandgap check` names them."
    )


def left_out_sentence(manifest: Mapping[str, Any]) -> str:
    """Return which labelled structures a run left out and why, from its manifest, or "".

    Examples
    --------

    >>> left_out = [{"id": "a", "elements": ["I"]}, {"id": "b", "elements": ["I"]}]
    >>> manifest = {"left_out": left_out, "data": {"n_labelled": 98}}
    >>> left_out_sentence(manifest).partition(" To learn")[0]
    '2 of 100 labelled structures were left out: a, b. The source model has no I (in 2).'
    """
    left_out: Sequence[Mapping[str, Any]] = manifest.get("left_out") or ()
    if not left_out:
        return ""
    data = manifest["data"]
    n_all = len(left_out) + int(data["n_labelled"])
    was = "was" if len(left_out) == 1 else "were"
    ids = listed([str(entry["id"]) for entry in left_out], _N_LISTED)
    text = f"{len(left_out):,} of {n_all:,} labelled structures {was} left out: {ids}."
    lacking = Counter(symbol for entry in left_out for symbol in entry.get("elements") or ())
    if lacking:
        counts = ", ".join(f"no {symbol} (in {count:,})" for symbol, count in lacking.most_common())
        if data.get("of_source", True):
            advice = _advice_on_new_elements(manifest.get("descriptor"), lacking)
            text += f" The source model has {counts}. {advice}"
        else:
            text += (
                f" The descriptor has {counts}. Without given species it is made for all elements."
            )
    problems = [str(entry["problem"]) for entry in left_out if entry.get("problem")]
    if problems:
        text += f" The first {'other ' if lacking else ''}one {problems[0]}"
    return text


def _advice_on_new_elements(descriptor: Mapping[str, Any] | None, lacking: Iterable[str]) -> str:
    """Return how to learn from structures with elements that a source lacks.

    `descriptor` is the manifest's entry.
    """
    fixed = elements_beyond(descriptor, set(lacking))[1] if descriptor else ()
    if not fixed:
        return (
            "To learn from them too, choose a method that learns new elements, such as "
            "btl_pcp_pe or feature_gp, or start from a source that was trained for their elements: "
            "`bandgap train-source --species` (on the page Source models)."
        )
    return (
        f"Its descriptor cannot be grown by {', '.join(sorted(fixed))}, so that no method that "
        "transfers learns them. To learn from them too, choose a method without transfer, such as "
        "gaussian_process, which takes a descriptor for all elements, or train a source on "
        "structures with these elements: `bandgap train-source --species` (on the page Source "
        "models)."
    )


def extras_sentence(manifest: Mapping[str, Any]) -> str:
    """Return the extras of a stored source in words, from its manifest.

    Examples
    --------

    >>> extras_sentence({"features": {"n": 9}, "extras": {"fisher": {}, "snapshots": {"rank": 8}}})
    'feature statistics, Fisher information, 8 snapshots'
    """
    extras = manifest.get("extras", {})
    has_extra = {
        "feature statistics": manifest.get("features"),
        "Fisher information": "fisher" in extras,
        "variational posterior": "variational" in extras,
        f"{extras.get('snapshots', {}).get('rank')} snapshots": "snapshots" in extras,
    }
    return ", ".join(name for name, is_present in has_extra.items() if is_present) or "nothing"
