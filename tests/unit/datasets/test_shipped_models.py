"""The shipped models: their names, folders, and the one for machines without the potential."""

import sys
import zlib
from pathlib import Path

import pytest

from bandgap.datasets.demo_files import data_folder
from bandgap.datasets.shipped_models import about_model, find_model, model_names
from bandgap.descriptors.potentials import POTENTIALS
from bandgap.foundation.errors import ArtifactError
from bandgap.storage.manifests import read_manifest

MODELS = data_folder() / "models"


def test_shipped_models_say_their_level_and_their_error() -> None:
    assert model_names() == ["pbe", "pbe-composition"]
    for name in model_names():
        manifest = read_manifest(MODELS / name, kind="run")
        assert manifest["level_of_theory"] == "PBE"
        assert about_model(manifest).keys() == {
            *("title", "rmse_eV", "sentences", "licence", "not_for"),
            *("n_doubtful_metals", "errors", "substitute"),
        }


def test_shipped_models_add_at_most_15_MB_to_the_wheel() -> None:
    files = [path.read_bytes() for path in MODELS.glob("*/*")]
    assert sum(len(zlib.compress(content)) for content in files) < 15_000_000


def test_documented_errors_are_those_of_the_models() -> None:
    document = (data_folder().parent / "docs/how-to/gap-without-labels.md").read_text("utf-8")
    errors = [about_model(read_manifest(MODELS / n, kind="run"))["errors"] for n in model_names()]
    for rows in zip(*errors, strict=True):
        cells = [
            f"{row['rmse_eV']:.2f} | {row['mae_eV']:.2f} | {100 * row['coverage_95']:.0f} % | "
            f"{row['auc_metal']:.3f}"
            for row in rows
        ]
        first = rows[0]
        assert f"| {first['chemistry']} | {first['n']:,} | {' | '.join(cells)} |" in document
        assert min(row["coverage_95"] for row in rows) >= 0.9


def test_pbe_without_its_potential_is_the_model_that_needs_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "chgnet", None)
    model_folder = find_model("pbe")
    assert model_folder.path == MODELS / "pbe-composition"
    assert "is not installed, so pbe-composition is used, with an RMSE of" in model_folder.note
    assert find_model("pbe-composition").note == ""


@pytest.mark.skipif(
    not POTENTIALS["chgnet-two-layers"].is_installed, reason="needs the extra chgnet"
)
def test_pbe_with_its_potential_is_the_model_that_uses_it() -> None:
    model_folder = find_model("pbe")
    assert (model_folder.path, model_folder.note) == (MODELS / "pbe", "")


def test_folder_of_the_same_name_has_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pbe").mkdir()
    assert find_model("pbe").path == Path("pbe")


def test_unknown_name_lists_the_shipped_models(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"pbx: there is no such folder.*: pbe, pbe-comp"):
        find_model(tmp_path / "pbx")
