"""Files of the journey with perovskites."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from benchmarks.day import perovskite_files


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with a set of three crystals in the layout of the perovskites."""
    folder = tmp_path / "data" / "dj_perovskite_hse"
    folder.mkdir(parents=True)
    rows = [f"dj_{k},{k}.5" for k in range(3)]
    (folder / "dj_perovskite_hse.csv").write_text("\n".join(["id,gap_eV", *rows]) + "\n")
    with ZipFile(folder / "cifs.zip", "w") as archive:
        for k in range(3):
            archive.writestr(f"cifs/dj_{k}.cif", f"data_dj_{k}\n")
    return folder.parent


def test_labelled_and_new_structures_are_different_ones(data: Path, tmp_path: Path) -> None:
    structures, gaps, new = perovskite_files(data, tmp_path, n=2, n_new=1)
    assert ZipFile(structures).namelist() == ["dj_0.cif", "dj_1.cif"]
    assert ZipFile(new).namelist() == ["dj_2.cif"]
    assert gaps.read_text() == "id,gap_eV\ndj_0,0.5\ndj_1,1.5\n"
