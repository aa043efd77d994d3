"""Molecules with sulfur, which the source lacks, and quick runs with them."""

import numpy as np

from tests.transfers import transfer_labelled
from tests.unit.conftest import make_records

SULFUR = ("SH2", "CH3SH")
QUICK = {
    "btl_pcp_pe": {"sampler": {"chains": 2, "warmup": 60, "draws": 60, "keep": 60}},
    "btl_pcp_sg": {"sampler": {"warmup": 500, "draws": 1500}},
    "btl_bnn": {"sampler": {"chains": 2, "warmup": 60, "draws": 60, "keep": 60}},
    "bnn": {"sampler": {"chains": 2, "warmup": 60, "draws": 60, "keep": 60}},
    "sghmc": {},
    "nptl": {"samples": 10},
    "nptl_soup": {"samples": 10},
}


def with_sulfur(world):
    """Return the target's molecules and six with sulfur, and their gaps in eV.

    The gaps of molecules with sulfur are 2 eV below those of the same hydrogen counts.
    """
    sulfur = make_records(6, seed=11, prefix="sulfur", names=SULFUR)
    gaps = [4.0 + 0.7 * int((r.atoms.numbers == 1).sum()) - 2.0 for r in sulfur]
    return [*world.records, *sulfur], np.concatenate([world.gaps_eV, gaps])


def transfer(source_folder, mixed, out, method, **more):
    records, gaps = mixed
    settings = {"n_test": 0, "seed": 3, "device": "cpu", "settings": QUICK.get(method, {})} | more
    return transfer_labelled(source_folder, records, gaps, method=method, out=out, **settings)
