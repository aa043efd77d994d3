"""A methods paragraph on a run in words that a paper can use, from its manifest."""

from collections.abc import Iterator, Mapping
from typing import Any

from bandgap.descriptors.potentials import POTENTIALS
from bandgap.evaluation.calibration import chance_range
from bandgap.evaluation.calibrators import Calibrator
from bandgap.evaluation.error_context import tiny_error_warning
from bandgap.evaluation.heldout import tested_ids
from bandgap.foundation import citations
from bandgap.storage.manifests import posterior_kinds
from bandgap.transfer import METHODS

_BLOCKS = {
    "composition": "statistics of the elements' properties",
    "neighbours": "distances to neighbours",
    "soap": "averaged SOAP vectors",
    "potential": "features of a pretrained potential",
    "second_potential": "features of a second pretrained potential",
    "graph": "features of a graph network",
    "user_features": "columns of a table of our own",
    "fractions": "the elements' fractions",
    "size": "the number of atoms",
    "levels": "HOMO, LUMO and gap by tight binding",
}


def methods_text(manifest: Mapping[str, Any], *, calibrator: Calibrator | None = None) -> str:
    """Return the paragraph: data, descriptor, method, split, error and intervals."""
    sentences = [
        _data_sentence(manifest),
        descriptor_sentence(manifest["descriptor"]),
        _method_sentence(manifest),
        *_learned_sentences(manifest),
        *_sampling_sentences(manifest),
        _split_sentence(manifest),
        *_error_sentences(manifest),
    ]
    if calibrator is not None:
        kind = "a conformal calibrator" if calibrator.kind == "conformal" else "variance scaling"
        sentences.append(
            f"Intervals were calibrated by {kind} on {len(calibrator):,} of the held-out "
            "structures."
        )
    if "refit" in manifest:
        sentences.append(
            f"For predictions the model was then refitted on all {manifest['n']:,} labels with the "
            "same settings; the errors above are those of the model before the refit."
        )
    return " ".join(sentence for sentence in sentences if sentence)


def cited_works(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a run rests on: its method, the blocks of its descriptor, and its data."""
    if "citations" in manifest:
        yield from manifest["citations"]
    elif method := METHODS.get(str(manifest["method"])):
        yield from method.references
    descriptor = manifest["descriptor"]
    if any(descriptor.get(name) for name in ("k1", "k2", "k3")):
        yield from (citations.MBTR, citations.DSCRIBE)
    yield from (text for name, text in citations.OF_BLOCK.items() if descriptor.get(name))
    if "xTB" in str(descriptor.get("levels")):
        yield citations.GFN1_XTB
    for name in ("potential", "second_potential"):
        if potential := POTENTIALS.get(str(descriptor.get(name))):
            yield potential.card_text
    card = manifest["source"]["card"]
    if card.get("n_structures"):
        names = ", ".join(map(str, card.get("data", ()))) or "not recorded"
        yield f"Data of the source model: {names}. {card.get('licence') or 'No licence recorded.'}"
    yield f"The labelled structures of this run. {licence_of(manifest) or 'No licence recorded.'}"


def licence_of(manifest: Mapping[str, Any]) -> str:
    """Return the licence of the labelled structures of a run, "" if it is not recorded."""
    return str(manifest["data"].get("licence") or manifest.get("about", {}).get("licence", ""))


def descriptor_sentence(descriptor: Mapping[str, Any]) -> str:
    """Return the parts of the feature vector.

    >>> descriptor_sentence({"k1": {}, "k2": {}, "k3": None, "species": ["C", "H"], "size": True})
    'Structures were described by the many-body tensor representation (terms k1 and k2, 2 elements)\
 and the number of atoms.'
    """
    terms = [name for name in ("k1", "k2", "k3") if descriptor.get(name) is not None]
    parts = []
    if terms:
        n_elements = len(descriptor.get("species", ()))
        parts.append(
            f"the many-body tensor representation (terms {_joined(terms)}, {n_elements} elements)"
        )
    parts += [
        text
        for name, text in _BLOCKS.items()
        if descriptor.get(name) not in (None, False, "none", "")
    ]
    return f"Structures were described by {_joined(parts)}." if parts else ""


def _joined(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _data_sentence(manifest: Mapping[str, Any]) -> str:
    data = manifest["data"]
    level = manifest["level_of_theory"]
    origin = f" computed at the level {level}" if level else ""
    n_out = len(manifest["left_out"])
    left_out = f" ({n_out:,} more were left out)" if n_out else ""
    return (
        f"The data set has {data['n_labelled']:,} structures with band gaps{origin}{left_out} "
        f"(content {data['fingerprint']})."
    )


def _method_sentence(manifest: Mapping[str, Any]) -> str:
    version = manifest["versions"]["bandgap"]
    card = manifest["source"]["card"]
    text = f"Band gaps were predicted with bandgap {version} by the method {manifest['title']}"
    if not card.get("n_structures"):
        return f"{text}, which learned from these structures alone."
    level = f" at the level {card['level_of_theory']}" if card.get("level_of_theory") else ""
    names = ", ".join(str(name) for name in card.get("data", ())) or "another data set"
    return (
        f"{text}, starting from a network trained on {card['n_structures']:,} structures of "
        f"{names}{level}."
    )


def _learned_sentences(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the method was fitted to where it is not the gaps of all structures."""
    sentences = []
    if "metals" in posterior_kinds(manifest):
        n_metals = int(manifest["diagnostics"].get("metals", 0))
        sentences.append(
            f"Of the labels learned from, {n_metals:,} are zero: a classifier on the same features"
            " gives the probability of a metal, and the method was fitted to the semiconductors."
        )
        if "metal_score_slope_eV" in manifest["diagnostics"]:
            sentences.append(
                "A truncated regression of left-out errors on the classifier's score then moved the"
                " gaps of the semiconductors."
            )
    if baseline := manifest["request"]["baseline"]:
        sentences.append(
            f"It learned the difference of the gaps to a straight line in {baseline}, which every "
            "prediction needs too."
        )
    return sentences


def _sampling_sentences(manifest: Mapping[str, Any]) -> list[str]:
    diagnostics = manifest["diagnostics"]
    sampler = manifest["config"].get("sampler")
    rhat = [value for value in diagnostics.get("rhat", {}).values() if value is not None]
    ess = [value for value in diagnostics.get("ess", {}).values() if value is not None]
    if not rhat or not ess:
        return []
    chains = f"{sampler['chains']} chains" if sampler and "chains" in sampler else "Several chains"
    lengths = ""
    if sampler and sampler.get("warmup") and sampler.get("draws"):
        lengths = (
            f" of {sampler['draws']:,} draws after {sampler['warmup']:,} iterations of warm-up"
        )
    return [
        f"The posterior was sampled by {chains}{lengths} (largest R-hat {max(rhat):.3f}, at least "
        f"{min(ess):,.0f} effective draws)."
    ]


def _split_sentence(manifest: Mapping[str, Any]) -> str:
    request = {**manifest["request"], **(manifest.get("refit") or {}).get("request", {})}
    n_test = len(tested_ids(manifest))
    n = (manifest.get("refit") or manifest)["n"]
    if not n_test:
        return f"The model learned from {n:,} structures; none was held out."
    how = "by formula" if request["by_formula"] else "at random"
    if request["test_ids"]:
        how = "by a given list"
    conformal = (manifest["conformal"] or {}).get("ids", ())
    back = f" {len(conformal):,} were held back for conformal intervals." if conformal else ""
    return (
        f"{n_test:,} structures were held out {how} (seed {request['seed']}), and the model "
        f"learned from {n:,} others.{back}"
    )


def _error_sentences(manifest: Mapping[str, Any]) -> list[str]:
    metrics = manifest["metrics"]
    n = len(tested_ids(manifest))
    if not n or "rmse_eV" not in metrics:
        return []
    low, high = (100 * float(end[0]) for end in chance_range(n, 0.95))
    return [
        f"On the held-out structures the root mean square error is {metrics['rmse_eV']:.3f} eV and "
        f"the mean absolute error {metrics['mae_eV']:.3f} eV; 95 % prediction intervals contain "
        f"{100 * metrics['coverage_95']:.1f} % of the gaps (calibrated intervals: {low:.1f} to "
        f"{high:.1f} %) and are {metrics['width_95_eV']:.2f} eV wide on average.",
        *filter(None, [tiny_error_warning({**metrics, **manifest["tested"]})]),
    ]
