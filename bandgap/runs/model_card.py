"""The card of a run: what it learned from, how far it errs, and what it is not for, as Markdown."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from bandgap.evaluation.calibrators import load_calibrator, variance_calibrated
from bandgap.evaluation.heldout import load_heldout, tested_ids
from bandgap.evaluation.result_verdict import result_verdict
from bandgap.predictions.domain import Domain
from bandgap.runs.methods_text import cited_works, licence_of, methods_text

_TEMPLATE = jinja2.Environment(
    loader=jinja2.PackageLoader("bandgap.runs"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
).get_template("card.md")
_LICENCE = re.compile(r"[a-z]+[a-z0-9.-]*")  # as the hub names licences: cc-by-4.0


def model_card(
    folder: Path, manifest: Mapping[str, Any], domain: Domain, *, repository: str = ""
) -> str:
    """Return the card of a run, for its repository on the hub with how to predict from there."""
    about = manifest.get("about") or {}
    calibrator = load_calibrator(folder)
    verdict = "No structures were held out, so its error on new ones was not measured."
    if "rmse_eV" in about:
        verdict = f"RMSE {about['rmse_eV']:.2f} eV on structures of formulas that it did not learn."
    elif tested_ids(manifest):
        heldout = load_heldout(folder, manifest)
        calibrated = variance_calibrated(heldout, calibrator)
        verdict = result_verdict(heldout, manifest, calibrated=calibrated).sentence
    licence = licence_of(manifest).partition(",")[0].lower().replace(" ", "-")
    return _TEMPLATE.render(
        repository=repository,
        licence=licence if _LICENCE.fullmatch(licence) else "",
        title=about.get("title", manifest["title"]),
        verdict=verdict,
        methods=methods_text(manifest, calibrator=calibrator),
        level=manifest.get("level_of_theory"),
        elements=sorted(domain.target_counts),
        notes=[*about.get("sentences", ()), *manifest.get("warnings", ())],
        not_for=about.get("not_for", ""),
        works=cited_works(manifest),
    )
