"""Tables of the user's own features: what is read and what is refused."""

import io
import zipfile
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from bandgap.datasets.own_features import own_features, read_features, uploaded
from bandgap.foundation.errors import InputError

FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]}, index=["00011", "x"])


def npz(**arrays: object) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def parquet() -> bytes:
    return FRAME.to_parquet()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("f.csv", lambda: FRAME.rename_axis("id").to_csv().encode()),
        ("f.csv", lambda: FRAME.to_csv(sep=";").encode("utf-8-sig")),
        ("f.tsv", lambda: b"b\ta\tid\n3\t1\t00011\n4\t2\tx\n"),
        ("f.parquet", parquet),
        ("f.npz", lambda: npz(ids=["00011", "x"], features=FRAME.to_numpy(), columns=["a", "b"])),
    ],
)
def test_formats_give_the_same_values_by_id_and_column(
    name: str, content: Callable[[], bytes]
) -> None:
    read = read_features(content(), name)
    assert read.ids == ("00011", "x")
    values = pd.DataFrame(read.values, index=read.ids, columns=read.table.columns)[["a", "b"]]
    pd.testing.assert_frame_equal(values, FRAME.astype(float))


def test_vectors_by_id_and_frames_are_read() -> None:
    read = read_features(npz(x=np.array([1.0, 2.0]), y=np.array([3.0, 4.0])), "f.npz")
    assert read.ids == ("x", "y") and read.table.columns == ("0", "1")
    assert own_features({"x": [1, 2]}).values.tolist() == [[1.0, 2.0]]
    assert own_features(FRAME).table.sha256 != own_features(FRAME + 1).table.sha256


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.csv", b"id,a\nx,1\ny,\n", "'a'.*y|y.*'a'"),
        ("f.csv", b"id,a\nx,inf\n", "finite"),
        ("f.csv", b"id,a\nx,1e300\n", "finite"),
        ("f.csv", b"id,a\nx,1\nx,2\n", "repeated ids: x"),
        ("f.csv", b"id,a,a\nx,1,2\n", "repeated columns: a"),
        ("f.csv", b"id,formula\nx,SiO2\n", "'formula' is not numeric.*'SiO2'"),
        ("f.csv", b"id,a\n", "empty"),
        ("f.csv", b"", "one column"),
        ("f.xlsx", b"", "unknown format"),
        ("f.npz", b"x", "not an npz"),
        ("f.npz", npz(x=np.ones(2), y=np.ones(3), z=np.ones(3)), r"x has an array \(2,\)"),
        ("f.npz", npz(ids=np.array(["x"], dtype=object), features=np.ones((1, 1))), "readable"),
        ("f.npz", npz(ids=["x"], features=np.ones((2, 1))), "readable"),
    ],
)
def test_tables_that_are_not_accepted_say_why(name: str, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_features(content, name)


def test_upload_is_read_as_a_file_and_an_array_that_claims_terabytes_is_refused() -> None:
    plain = io.BytesIO()
    np.savez(plain, ids=["a", "b"], features=[[0.5, 1.0], [2.0, 3.0]])
    features = uploaded(plain.getvalue(), "t.npz")
    direct = read_features(plain.getvalue(), "t.npz")
    assert (features.ids, features.table) == (direct.ids, direct.table)
    assert (features.values == direct.values).all()
    huge = io.BytesIO()
    with zipfile.ZipFile(huge, "w") as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f8", "fortran_order": False, "shape": (2**19, 2**19)}
        )
        archive.writestr("a.npy", header.getvalue() + bytes(64))
    with pytest.raises(InputError):
        uploaded(huge.getvalue(), "t.npz")
