"""The benchmark of every kind of crystals: settings of each set, and what is refused."""

from pathlib import Path

import pytest

from benchmarks.__main__ import app
from benchmarks.commands.kinds import KINDS
from tests.commands import run_in_process, use_own_home


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("organic", "omdb_crystal_gap/omdb_crystal_gap_etkdg.extxyz.gz"),
        ("perovskites", "dj_perovskite_hse/cifs.zip"),
        ("inorganic", "mp_crystals_pbe/cifs.zip"),
        ("metals", "perov5_gllb/cifs.zip"),
        ("metals-potentials", "perov5_gllb/cifs.zip"),
    ],
)
def test_missing_data_of_each_set_are_named_before_any_fit(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings of methods, sizes and potentials are checked before the files are."""
    assert len(KINDS) == 5
    use_own_home(tmp_path, monkeypatch)
    words = f"kinds --data {tmp_path} --out {tmp_path / 'out'} --set {name}"
    result = run_in_process(app)(*words.split())
    assert result.exit_code == 1
    assert f"has no {file}" in " ".join(result.output.split())
