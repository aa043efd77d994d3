"""`bandgap demo --name inorganic`: figures, attribution, and the source by its name."""

import json
from pathlib import Path

import numpy as np
import pytest

from bandgap.cli.training import source_path
from bandgap.datasets.demo import HELD_OUT, inorganic_source_folder, load_inorganic
from bandgap.evaluation.metrics import coverage, rmse
from bandgap.predictions.table import read_predictions_csv
from tests.unit.cli.conftest import Shell

TRANSFERS = ("feature_gp", "last_layer_horseshoe", "fine_tune")
ALONE = ("gaussian_process", "gradient_boosting", "target_only")


@pytest.mark.slow
def test_demo_measures_methods_with_and_without_the_source_on_the_held_out_part(
    shell: Shell, tmp_path: Path
) -> None:
    result = shell(
        *(
            f"demo --name inorganic --out {tmp_path / 'demo'} --json {tmp_path / 'figures.json'}"
        ).split()
    )
    assert result.returncode == 0, result.stderr
    written = json.loads((tmp_path / "figures.json").read_text())
    assert list(written["methods"]) == [*TRANSFERS, *ALONE]
    assert (written["n_train"], written["n_test"]) == (140, 69)
    table = load_inorganic("target").table
    held_out = table[table["part"] == HELD_OUT].set_index("id")["gap_eV"]
    for method in written["methods"]:
        predictions = read_predictions_csv(
            tmp_path / "demo" / "inorganic-seed-0" / method / "predictions.csv"
        )
        assert sorted(predictions["id"]) == sorted(held_out.index)
        gaps = held_out.loc[list(predictions["id"])].to_numpy()
        mean, lower, upper = (
            predictions[name].to_numpy() for name in ("mean_eV", "lower_eV", "upper_eV")
        )
        assert written["methods"][method]["rmse_eV"] == pytest.approx(rmse(gaps, mean), abs=1e-3)
        assert written["methods"][method]["coverage_95"] == pytest.approx(
            coverage(gaps, lower, upper=upper), abs=0.02
        )
        assert rmse(gaps, mean) < np.std(gaps)
    assert written["difference"]["n"] == 69 and written["difference"]["words"] in " ".join(
        result.stdout.split()
    )
    for words in (
        "APL Materials 1, 011002 (2013)",
        "CC BY 4.0",
        "https://materialsproject.org",
        "140 labelled and 69",
    ):
        assert words in result.stdout
    assert "molecul" not in result.stdout.lower().replace("molecular", "")


def test_source_of_the_second_demo_goes_by_a_word_unless_a_folder_is_called_so(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_path(Path("inorganic")) == inorganic_source_folder()
    (tmp_path / "inorganic").mkdir()
    assert source_path(Path("inorganic")) == Path("inorganic")
