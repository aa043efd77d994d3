"""A source model in words: data, level of theory, licence, error, what it shares with a target and what it cannot take.

Loads no torch.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bandgap.descriptors.growing import elements_beyond

NO_SOURCE: Final = "none"  # instead of the name of a source, where there is none
_FILES_SHOWN = _IDS_SHOWN = 4


def card_rows(card: Mapping[str, Any], overlap: Mapping[str, int] | None = None) -> dict[str, str]:
    """Return what a source's card says, by name, from its plain values; `overlap` is that with a run's structures.

    >>> card_rows({"data": ["a.xyz"], "n_structures": 1200, "elements": ["C", "H"], "level_of_theory": "PBE"})["data"]
    'a.xyz (1,200 structures; C H)'
    """
    if card.get("n_structures") == 0:  # `sources.no_source`
        return {"data": "none; the run learned from its labelled structures alone"}
    files = list(card.get("data", ()))
    names = ", ".join(files[:_FILES_SHOWN]) + (
        f" and {len(files) - _FILES_SHOWN} more" if len(files) > 4 else ""
    )
    elements = " ".join(card.get("elements", ()))
    error = card.get("validation_rmse_eV")
    rows = {
        "data": f"{names or 'not recorded'} ({card.get('n_structures', 0):,} structures; {elements})",
        "level of theory": card.get("level_of_theory") or "not recorded",
        "licence of the data": card.get("licence") or "not recorded",
        "error on held-out structures": "not recorded"
        if error is None
        else f"{error:.2f} eV (RMSE)",
    }
    if (tested := card.get("test_rmse_eV")) is not None:
        rows["error on test structures"] = f"{tested:.2f} eV (RMSE of {card.get('n_test', 0):,})"
    if potential := card.get("potential"):
        rows["pretrained potential"] = potential
    if graph := card.get("graph"):
        rows["graph network"] = (
            f"{graph}; a transfer leaves its blocks as they are and moves the layers above them"
        )
    if displacement := card.get("displacement_angstrom"):
        rows["displaced copies"] = (
            f"of every structure one for each network, coordinates changed by {displacement:g} angstrom (sd)"
        )
    if overlap is not None:
        rows["overlap with your structures"] = overlap_sentence(overlap)
    return rows


def joined_card(cards: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one card of several sets that a source learned from together; its error is the mean of theirs.

    >>> one = {"data": ["a.xyz"], "n_structures": 100, "elements": ["H"], "level_of_theory": "PBE"}
    >>> joined_card([one, {**one, "elements": ["C"], "level_of_theory": "GW"}])["level_of_theory"]
    'PBE, GW'
    """
    cards = list(cards)
    errors = [
        card["validation_rmse_eV"] for card in cards if card.get("validation_rmse_eV") is not None
    ]

    def every(name: str) -> list[str]:
        return list(dict.fromkeys(text for card in cards for text in card.get(name, ())))

    def words(name: str) -> str:
        return ", ".join(dict.fromkeys(text for card in cards if (text := card.get(name))))

    return {
        **cards[0],
        **{name: every(name) for name in ("data", "elements")},
        **{name: words(name) for name in ("level_of_theory", "licence")},
        "n_structures": sum(card["n_structures"] for card in cards),
        "validation_rmse_eV": sum(errors) / len(errors) if errors else None,
    }


def overlap_sentence(overlap: Mapping[str, int]) -> str:
    """Say how many target structures the source was trained on, and how many hold a molecule or network that it knows.

    >>> overlap_sentence({"n": 300, "structures": 0, "molecules": 12})
    'of 300 structures, 0 are in the source data and 12 hold a bonded unit that is'
    """
    n, same, units = overlap["n"], overlap["structures"], overlap["molecules"]
    return f"of {n:,} structures, {same:,} are in the source data and {units:,} hold a bonded unit that is"


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
    """Say how many labelled structures a run left out, which, and why, from its manifest; nothing where there are none.

    >>> found = [{"id": "a", "elements": ["Br", "I"]}, {"id": "b", "elements": ["I"]}]
    >>> left_out_sentence({"left_out": found, "data": {"n_labelled": 98}}).partition(" To learn")[0]
    '2 of 100 labelled structures were left out: a, b. The source model has no I (in 2), no Br (in 1).'
    """
    left_out: Sequence[Mapping[str, Any]] = (
        manifest.get("left_out") or ()
    )  # runs of earlier versions do not say
    if not left_out:
        return ""
    n_learnable = int(manifest["data"]["n_labelled"])
    ids = [str(found["id"]) for found in left_out]
    named = ", ".join(ids[:_IDS_SHOWN]) + (
        f" and {len(ids) - _IDS_SHOWN:,} more" if len(ids) > _IDS_SHOWN else ""
    )
    were = "was" if len(ids) == 1 else "were"
    text = (
        f"{len(ids):,} of {len(ids) + n_learnable:,} labelled structures {were} left out: {named}."
    )
    of_source = manifest["data"].get("of_source", True)
    lacking = Counter(symbol for found in left_out for symbol in found.get("elements") or ())
    if lacking:
        elements = ", ".join(
            f"no {symbol} (in {count:,})" for symbol, count in lacking.most_common()
        )
        text += (
            f" The source model has {elements}. {_of_new_elements(manifest.get('descriptor'), lacking)}"
            if of_source
            else f" The descriptor has {elements}. Without --preset and --species it is made for all elements."
        )
    others = list(
        dict.fromkeys(str(found["problem"]) for found in left_out if found.get("problem"))
    )
    return text + (f" The first {'other ' if lacking else ''}one {others[0]}" if others else "")


def _of_new_elements(descriptor: Mapping[str, Any] | None, lacking: Iterable[str]) -> str:
    """Say how structures with elements that a source lacks are learned from; `descriptor` is the manifest's entry."""
    fixed = elements_beyond(descriptor, set(lacking))[1] if descriptor else ()
    if not fixed:
        return (
            "To learn from them too, take a method that learns of new elements, such as btl_pcp_pe or feature_gp, or "
            "start from a source that was trained for their elements: bandgap train-source --species, or the page "
            "Source models."
        )
    return (
        f"Its descriptor cannot be grown by {', '.join(sorted(fixed))}, so that no method that transfers learns of "
        "them. To learn from them too, take a method without transfer, such as gaussian_process, which takes a "
        "descriptor for all elements, or start from a source that was trained on structures with these elements: "
        "bandgap train-source --species or --network megnet, or the page Source models."
    )


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
