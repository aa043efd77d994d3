"""Damaged bodies get rows or a message, in bounded time and memory."""

import contextlib
import gzip
import io
import json
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from ase.io import write
from ase.io.jsonio import encode

from bandgap.foundation.machine import peak_memory_bytes
from bandgap.structures.reading import read_structures
from tests.mutations import Random, assert_sentence, damaged, run_mutations, wrapped
from tests.unit.conftest import make_records
from tests.unit.jobs.service.conftest import LIMITS
from tests.unit.jobs.service.test_predict import WATER, as_cif, crystal
from tests.unit.structures.samples import optimade

JSON = "application/json"
FILE = "text/plain"
UPLOAD = "multipart/form-data; boundary=limit"
PEAK_BYTES = (
    160_000_000  # above what is there before: bodies of 200 kB, of which archives unpack to 2 MB
)
DEEP = ("[", '{"a":', '{"structures":[', '{"data":[', '[{"cell":', '[{"positions":[')
CHARSETS = ("utf-8", "utf-16", "latin-1", "shift_jis", "utf-7", "undefined")
Asked = tuple[str, str, bytes]  # content type, name in the address, body


def as_pymatgen(seed: int) -> dict[str, Any]:
    """A crystal with all that pymatgen's `Structure.as_dict` writes."""
    atoms = crystal(seed)
    lengths = dict(
        zip(
            ("a", "b", "c", "alpha", "beta", "gamma"), map(float, atoms.cell.cellpar()), strict=True
        )
    )
    sites = [
        {
            "species": [{"element": atom.symbol, "occu": 1}],
            "abc": fractions.tolist(),
            "properties": {},
            "label": atom.symbol,
            "xyz": atom.position.tolist(),
        }
        for atom, fractions in zip(atoms, atoms.get_scaled_positions(), strict=True)
    ]
    lattice = {
        "matrix": atoms.cell.array.tolist(),
        "pbc": [True] * 3,
        **lengths,
        "volume": float(atoms.cell.volume),
    }
    about = {
        "@module": "pymatgen.core.structure",
        "@class": "Structure",
        "charge": 0,
        "properties": {},
    }
    return about | {"lattice": lattice, "sites": sites}


def as_text(form: str, count: int = 1) -> bytes:
    text = io.StringIO()
    frames = [crystal(seed) for seed in range(count)] if form == "vasp" else frames_of(count)
    write(text, frames, format=form)
    return text.getvalue().encode()


def frames_of(count: int) -> list[Any]:
    return [crystal(), *(record.atoms for record in make_records(count - 1, seed=3, prefix="new"))]


def uploaded(*files: tuple[str, bytes]) -> bytes:
    parts = [
        b"--limit\r\n"
        + f'Content-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
        + data
        + b"\r\n"
        for name, data in files
    ]
    return b"".join([*parts, b"--limit--\r\n"])


@cache
def sound() -> list[Asked]:
    """One body of every form, as programs send it."""
    cif = as_cif(crystal())
    poscar = as_text("vasp")
    frames = as_text("extxyz", 4)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in (("a.cif", cif), ("b/POSCAR", poscar), ("c.extxyz", frames)):
            packed.writestr(name, data)
    ase = [json.loads(encode(crystal(seed))) for seed in range(2)]
    entries = [{"content": cif.decode(), "name": "a.cif"}, WATER]
    cheap = [{**WATER, "info": {"gap_pbe_eV": 2.5}}, {**WATER, "baseline_eV": 3.0}]
    return [
        ("chemical/x-cif", "", cif),
        (FILE, "POSCAR", poscar),
        (FILE, "a.extxyz", frames),
        (
            JSON,
            "",
            json.dumps(
                {"structures": ase, "level": 0.9, "interval": "credible"}, indent=1
            ).encode(),
        ),
        (JSON, "", json.dumps([as_pymatgen(seed) for seed in range(2)], indent=1).encode()),
        (JSON, "", json.dumps({"structures": entries}).encode()),
        (JSON, "", json.dumps({"structures": cheap, "model": "cheap"}).encode()),
        (FILE, "a.json", optimade().encode()),
        (JSON, "", optimade().encode()),
        (FILE, "", optimade().encode()),
        ("application/zip", "a.zip", archive.getvalue()),
        ("application/gzip", "a.extxyz.gz", gzip.compress(frames, mtime=0)),
        (UPLOAD, "", uploaded(("a.cif", cif), ("POSCAR", poscar), ("b.extxyz", frames))),
    ]


@cache
def bombs() -> list[Asked]:
    """Bodies below the limit that unpack to a hundred times what may be unpacked."""
    archive = io.BytesIO()
    alone = io.BytesIO()
    zeros = bytes(1_000_000)
    with (
        zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open("a.cif", "w") as member,
    ):
        for _ in range(150):
            member.write(zeros)
    with gzip.GzipFile(fileobj=alone, mode="w") as stream:
        for _ in range(150):
            stream.write(zeros)
    return [("application/zip", "a.zip", archive.getvalue()), (FILE, "a.cif", alone.getvalue())]


def hostile(rng: Random) -> Asked:
    """A hostile body: counts, depth, archive bombs, another charset, or empty."""
    kind, name, body = rng.choice(sound())
    way = rng.choice(("count", "count", "depth", "depth", "bomb", "charset", "charset", "empty"))
    if way == "count":
        kind, name, body = rng.choice(sound()[1:3])
        lines = body.split(b"\n")
        place = 0 if name.endswith("xyz") else 6
        lines[place] = rng.choice(
            (b"999999999", b"9999999999", b"-5", b"9" * 5_000, b"1 " * 20_000, b"1e9")
        )
        return kind, name, b"\n".join(lines)
    if way == "depth":
        opened = rng.choice(DEEP) * rng.choice((10, 500, 990, 1_100, 13_000))
        closed = "".join({"[": "]", "{": "}"}[c] for c in reversed(opened) if c in "[{")
        value = opened + "1" + (closed if rng.random() < 0.7 else "")
        if rng.random() < 0.5:
            value = json.dumps([WATER]).replace("0.76", value, 1)
        return rng.choice((JSON, FILE)), "", value.encode()
    if way == "bomb":
        return rng.choice(bombs())
    if way == "charset":
        charset = rng.choice(CHARSETS)
        text = body.decode("utf-8", "replace")
        body = text.encode(
            rng.choice(("utf-8", "utf-16", "utf-32", "utf-7", "cp037", "utf-8-sig")), "replace"
        )
        return f"{kind}; charset={charset}", name, body
    return (
        kind,
        name,
        rng.choice(
            (b"", b" ", b"\n\n", b"\x00", b"\xef\xbb\xbf", b"{}", b"[]", b"null", b"--limit--")
        ),
    )


def bad_body(rng: Random) -> Asked:
    if rng.random() < 0.2:
        kind, name, body = hostile(rng)
    else:
        kind, name, body = rng.choice(sound())
        body = damaged(rng, body, [other for _, _, other in sound()])
        if rng.random() < 0.1 and kind not in (JSON, UPLOAD):
            body, name = wrapped(rng, body, name)
    return rng.choice((kind,) * 9 + (JSON, FILE)), name, body


def forget_peak() -> int | None:
    """Reset the peak memory of this process where that is possible, and return it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory_bytes()["process"]


def assert_answered(answer: httpx.Response, request: Asked) -> None:
    """Fail unless a response is one row for every structure, or a message about the request."""
    kind, name, body = request
    assert answer.status_code == 200 or 400 <= answer.status_code < 500, (answer.text, request)
    content = answer.json()
    if answer.status_code != 200:
        assert_sentence(content["detail"])
    for row in content.get("rows") or []:
        refused = row["status"] == "refused"
        assert all(
            (row[name] is None) == refused for name in ("mean_eV", "sd_eV", "lower_eV", "upper_eV")
        ), row
        assert not refused or row["problem"]
        if row["problem"]:
            assert_sentence(row["problem"])
    if answer.status_code == 200 and not (kind.startswith((JSON, UPLOAD))):
        records = read_structures(body, name or "structure.cif", limits=LIMITS.reading_limits)
        assert len(content["rows"]) == len(records)


def test_sound_bodies_of_every_form_are_predicted(client: httpx.Client) -> None:
    for kind, name, body in sound():
        answer = client.post(
            "/predict", params={"name": name}, content=body, headers={"content-type": kind}
        )
        assert answer.status_code == 200, answer.text
        assert {row["status"] for row in answer.json()["rows"]} & {"ok", "warning"}


@pytest.mark.parametrize(
    ("count", "fresh"),
    [(300, False), pytest.param(50_000, True, marks=[pytest.mark.fuzz, pytest.mark.soak])],
)
def test_damaged_bodies_are_predicted_or_refused_with_a_message(
    client: httpx.Client, count: int, fresh: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"params": {"name": "a.extxyz"}, "content": sound()[2][2]}
    before = client.post("/predict", **good).content
    start = forget_peak()
    codes: Counter[int] = Counter()

    def check(rng: Random) -> None:
        kind, name, body = request = bad_body(rng)
        answer = client.post(
            "/predict", params={"name": name}, content=body, headers={"content-type": kind}
        )
        assert_answered(answer, request)
        codes[answer.status_code] += 1
        if rng.random() < 0.05:
            assert client.post("/predict", **good).content == before

    run_mutations(check, count=count, fresh=fresh, capsys=capsys)
    assert client.post("/predict", **good).content == before
    if codes.total() == count:  # and not one alone
        assert {200, 400, 413, 422} <= set(codes), codes
    peak = peak_memory_bytes()["process"]
    if start is not None and peak is not None:
        assert peak < start + PEAK_BYTES
