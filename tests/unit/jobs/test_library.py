"""Data sets, verdicts, runs and uploads of a workspace."""

import uuid
from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs import rows
from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.home import Home, open_home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset, Verdict

WS = str(uuid.uuid4())


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(Home(tmp_path))


def a_verdict(name: str, status: str = "ready", gap: float | None = None) -> Verdict:
    row = (name, f"{name}.cif", status, "", "C6H6", 12, True, gap, {"gap": 1.5})
    return Verdict(*row)  # type: ignore[arg-type]


def test_upload_is_stored_under_its_hash_and_its_name_is_only_text(
    library: Library, tmp_path: Path
) -> None:
    dataset = library.add_dataset(WS, "set", files=[("../../etc/passwd.cif", b"data_x")])
    (stored,) = library.files(dataset.id)
    assert stored.name == "../../etc/passwd.cif"
    assert [path.name for path in (tmp_path / "uploads").iterdir()] == [stored.content]
    assert library.home.read_upload(stored.content) == b"data_x"


def test_upload_that_was_removed_is_reported(library: Library) -> None:
    with pytest.raises(InputError, match=r"no longer in .*uploads\. Upload it again"):
        library.home.read_upload("0" * 64)


@pytest.mark.parametrize("text", ["../x", "..", "a/b", "", "x" * 9])
def test_run_folder_of_a_foreign_id_is_refused(library: Library, text: str) -> None:
    with pytest.raises(InputError, match="is not the id of a run"):
        library.home.run_folder(text)


@pytest.mark.parametrize(
    "stored_bytes", [b"", b"data_", b"\0" * 6], ids=["nothing", "the beginning", "zeros"]
)
def test_upload_damaged_by_a_power_cut_is_reported_and_repaired_by_a_new_upload(
    library: Library, stored_bytes: bytes
) -> None:
    digest = library.home.save_upload(b"data_x")
    (library.home.folder / "uploads" / digest).write_bytes(stored_bytes)
    with pytest.raises(
        InputError,
        match=rf"The uploaded file {digest[:12]} in .* is damaged: its {len(stored_bytes)} bytes",
    ):
        library.home.read_upload(digest)
    assert library.home.save_upload(b"data_x") == digest
    assert library.home.read_upload(digest) == b"data_x"


def test_data_set_is_never_stored_without_its_job(library: Library) -> None:
    def ends(dataset: Dataset) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.add_dataset(WS, "set", files=[("x.cif", b"data_x")], then=ends)
    assert library.datasets(WS) == []


def test_home_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path / "here"))
    assert open_home().folder == tmp_path / "here"
    assert (tmp_path / "here").is_dir()


def test_home_that_cannot_be_made_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="Set BANDGAP_HOME to a folder that can be written"):
        open_home(tmp_path / "file" / "below")


def test_upload_over_a_limit_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_FILE_BYTES", 1_000_000)
    monkeypatch.setattr(rows, "MAX_UPLOAD_BYTES", 1_500_000)
    with pytest.raises(InputError, match=r"big\.xyz has 2 MB; at most 1 MB a file"):
        rows.check_upload([("big.xyz", bytes(2_000_000))])
    with pytest.raises(InputError, match=r"2 MB in one upload; at most 2 MB"):
        rows.check_upload([("a", bytes(900_000)), ("b", bytes(900_000))])
    with pytest.raises(InputError, match=r"5,001 files in one upload; at most 5,000"):
        rows.check_upload([("a", b"")] * 5_001)


def test_verdicts_and_gaps_come_back_in_order(library: Library) -> None:
    dataset = library.add_dataset(WS, "set")
    library.save_verdicts(
        dataset.id, [a_verdict("b"), a_verdict("a", "refused"), a_verdict("c", "warning")]
    )
    library.save_gaps(
        dataset.id, np.array([2.5, 1.0, np.nan]), labels={"source": "x.csv"}, level_of_theory="PBE"
    )
    assert [(v.id, v.gap_eV) for v in library.verdicts(dataset.id)] == [
        ("b", 2.5),
        ("a", 1.0),
        ("c", None),
    ]
    counts = {
        "all": 3,
        "ready": 1,
        "warning": 1,
        "refused": 1,
        "labelled": 2,
        "usable": 1,
        "metals": 0,
    }
    assert library.counts(dataset.id) == counts
    again = library.dataset(WS, dataset.id)
    assert (again.level_of_theory, again.labels) == ("PBE", {"source": "x.csv"})


def test_data_sets_for_prediction_are_apart(library: Library) -> None:
    library.add_dataset(WS, "new", purpose="prediction")
    assert library.datasets(WS) == []
    assert [d.name for d in library.datasets(WS, purpose="prediction")] == ["new"]


def test_catalogue_keeps_its_order_and_is_replaced(library: Library) -> None:
    library.register_methods({"z": MethodEntry("Z"), "a": MethodEntry("A")})
    assert list(library.methods()) == ["z", "a"]
    library.register_methods({"b": MethodEntry("B")})
    assert library.methods() == {"b": MethodEntry("B")}
