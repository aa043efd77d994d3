"""The report of a run: one file with the run's own numbers, without the network."""

import html
import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from bandgap.evaluation.calibrators import fit_calibrator
from bandgap.evaluation.heldout import load_heldout
from bandgap.evaluation.learning_curve import learning_curve_of, save_curve
from bandgap.evaluation.result_verdict import result_verdict
from bandgap.runs.html_report import ReportContext, report_html, write_report
from bandgap.runs.methods_text import methods_text
from bandgap.runs.refit import refit_run
from bandgap.storage.manifests import LEARNING_CURVE, MANIFEST
from bandgap.storage.run_archives import opened_run, run_archive
from bandgap.transfer import METHODS
from tests.unit.runs.brief_transfer import transfer
from tests.unit.runs.test_refit import labelled, manifest_of

MARKUP = "\"'></td></script><stranger onload=alert(1)>"


@pytest.fixture(scope="module")
def strange_world(world):
    """The molecules with markup in their ids."""
    records = [replace(record, id=record.id + MARKUP) for record in world.records]
    return replace(world, records=records)


@pytest.fixture(scope="module")
def run(source_folder, strange_world, tmp_path_factory):
    """A run that learned from 18 molecules and held out 6."""
    return transfer(
        source_folder, strange_world, tmp_path_factory.mktemp("report") / "run", n_test=6
    )


def text_of(page: str) -> str:
    """Return the text of a page without scripts and markup."""
    bare = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", bare)))


def test_report_has_the_numbers_of_the_run(run, tmp_path):
    file = write_report(run, tmp_path / "new" / "report.html")
    text = text_of(file.read_text(encoding="utf-8"))
    manifest = manifest_of(run)
    assert result_verdict(load_heldout(run, manifest), manifest).sentence in text
    assert f"Fine-tuning {manifest['metrics']['rmse_eV']:.2f}" in text
    mean_gap_eV = manifest["tested"]["mean_gap_rmse_eV"]
    assert f"the mean gap for every structure {mean_gap_eV:.2f}" in text
    assert manifest["data"]["fingerprint"] in text
    assert manifest["source"]["fingerprint"] in text
    assert methods_text(manifest) in text
    assert f"torch {manifest['versions']['torch']}" in text
    assert "from 18 of 24 known gaps (made up)? Tested on 6 others." in text
    for id_ in manifest["split"]["test"]:
        assert id_ in text


def test_report_compares_the_runs_that_held_out_the_same_structures(
    run, source_folder, strange_world, tmp_path
):
    same = transfer(source_folder, strange_world, tmp_path / "same", method="freeze", n_test=6)
    other = transfer(source_folder, strange_world, tmp_path / "other", n_test=6, seed=6)
    runs = {"frozen": same, "another split": other, "deleted": tmp_path / "deleted"}
    text = text_of(report_html(run, ReportContext(other_runs=runs)))
    assert f"frozen {manifest_of(same)['metrics']['rmse_eV']:.2f}" in text
    assert "another split" not in text and "deleted" not in text


def test_every_method_of_the_package_has_something_to_cite():
    assert [name for name, method in METHODS.items() if not method.references] == []


def test_report_cites_what_the_run_rests_on(run):
    text = text_of(report_html(run, ReportContext()))
    for work in METHODS["fine_tune"].references:
        assert work in text
    assert "Data of the source model:" in text


def test_report_has_the_learning_curve_where_it_was_measured(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    scales = np.array([0.4, 0.3, 0.2, 0.1])
    errors = np.random.default_rng(0).normal(size=(3, 4, 6)) * scales[:, None]
    curve = learning_curve_of((5, 9, 14, 18), errors)
    save_curve(folder / LEARNING_CURVE, curve)
    page = report_html(folder, ReportContext())
    assert curve.sentence() in text_of(page)
    assert page.count("data-figure=") == 4
    (tmp_path / "run.zip").write_bytes(run_archive(folder))
    with opened_run(tmp_path / "run.zip") as unpacked:
        assert curve.sentence() in text_of(report_html(unpacked, ReportContext()))


def test_report_needs_no_network(run):
    page = report_html(run, ReportContext())
    assert re.findall(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=", page) == []
    assert page.count("data-figure=") == 3
    assert "function newPlot" in page or "newPlot:" in page or "newPlot=" in page


def marked(value):
    """Return what a manifest contains with MARKUP in every text, and every key with and without."""
    if isinstance(value, dict):
        return {
            key: marked(entry) for name, entry in value.items() for key in (name, name + MARKUP)
        }
    if isinstance(value, list):
        return [marked(entry) for entry in value]
    return value + MARKUP if isinstance(value, str) else value


class Elements(HTMLParser):
    """The names of the elements and attributes of a page, and its scripts' nonces."""

    def __init__(self, page):
        super().__init__()
        self.names = Counter()
        self.nonces = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.update([tag, *(f"{tag} {name}" for name, _ in attrs)])
        self.nonces += [dict(attrs).get("nonce")] if tag in ("script", "style") else []


def test_texts_and_keys_of_a_manifest_are_text_and_not_markup(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    manifest = manifest_of(run)
    strange = marked(manifest) | {"kind": "run", "split": manifest["split"]}
    (folder / MANIFEST).write_text(json.dumps(strange))
    first, second = (report_html(folder, ReportContext(*[text] * 4)) for text in ("", MARKUP))
    texts = (
        manifest["versions"]["bandgap"] + MARKUP,
        "torch" + MARKUP,
        manifest["split"]["test"][0],
    )
    nonces = set()
    for page in (first, second):
        assert all(text in text_of(page) for text in texts)
        elements = Elements(page)
        assert elements.names["script"] == 2
        assert not elements.names.keys() & {"stranger", "script src", "iframe", "img", "link"}
        assert not any(" on" in name for name in elements.names)
        (nonce,) = set(elements.nonces) - nonces
        nonces.add(nonce)
        assert "content=\"default-src 'none'; base-uri 'none'; form-action 'none'; " in page
        assert f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'\"" in page


def test_report_of_a_refit_says_whose_error_it_is(run, source_folder, strange_world, tmp_path):
    refit = refit_run(run, source_folder, labelled(strange_world), out=tmp_path / "refit")
    text = text_of(report_html(refit, ReportContext(parent="the first run")))
    assert "Error and coverage are those of the first run, which learned from 18" in text
    assert "from 24 of 24 known gaps" in text and "Tested on 6 others" in text
    assert "the model was then refitted on all 24 labels" in text


def test_report_of_a_run_without_a_test_has_no_error(source_folder, world, tmp_path):
    run = transfer(source_folder, world, tmp_path / "run", n=24, n_test=0)
    text = text_of(report_html(run, ReportContext()))
    assert "RMSE (eV)" not in text
    assert "The model learned from 24 structures; none was held out." in text


def test_methods_text_names_split_sampler_and_calibrator(run):
    manifest = json.loads(json.dumps(manifest_of(run)))
    manifest["diagnostics"] |= {"rhat": {"tau": 1.012, "c1": None}, "ess": {"tau": 433.2}}
    manifest["config"] = {"sampler": {"chains": 4, "warmup": 200, "draws": 400}}
    manifest["request"]["by_formula"] = True
    heldout = load_heldout(run, manifest_of(run))
    many = heldout.rows(np.arange(36) % 6)
    text = methods_text(manifest, calibrator=fit_calibrator(many, "variance", share=0.6))
    assert "6 structures were held out by formula (seed 5), and the model learned from 18" in text
    assert "sampled by 4 chains of 400 draws after 200 iterations of warm-up" in text
    assert "largest R-hat 1.012, at least 433 effective draws" in text
    assert "calibrated by variance scaling on 22 of the held-out structures" in text
