"""Generate the molecules and crystals of the demo, in parallel and resumable.

An item depends only on (seed, SMILES), not on the order or the number of processes. So any single
item can be regenerated and compared with the shipped one. Needs the extra `datagen` (spglib,
tblite).
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from bandgap.foundation.engines import mapped
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from data.making.contacts import Floats, density_g_cm3
from data.making.enumeration import Candidate, Purpose, candidates, item_seed
from data.making.lattice_energy import SPACE_GROUPS
from data.making.packing import MIN_CONTACT, Packed, pack
from data.making.sample_cifs import N_SAMPLES, write_sample_cifs
from data.making.shipping import Item, write_manifest, write_set
from data.making.xtb import (
    SMALLEST_GAP_EV,
    Conformer,
    GenerationFailed,
    checked_gap,
    conformer,
    electrons,
)

# Shares of the space groups: P21/c and P-1 are the most frequent groups of organic crystals.
GROUP_SHARES: Final = {"P21/c": 0.40, "P-1": 0.30, "P212121": 0.13, "P21": 0.12, "P1": 0.05}
MAX_CELL_ATOMS: Final = 92
DENSITY_G_CM3: Final = (1.0, 1.8)
PACKING_STARTS: Final = 4  # Random starts; the packing of lowest energy is used.
# Charges are rounded: the last digits of a self-consistent field must not change the packing.
_CHARGE_DECIMALS: Final = 3
_BATCH_PER_JOB: Final = 16
_SETTINGS: Final = {
    "space_group_shares": GROUP_SHARES,
    "max_cell_atoms": MAX_CELL_ATOMS,
    "density_g_cm3": DENSITY_G_CM3,
    "packing_starts": PACKING_STARTS,
    "min_contact": MIN_CONTACT,
    "smallest_gap_eV": SMALLEST_GAP_EV,
}
# Of the shipped data.
DEMO_SEED: Final = 2026
N_MOLECULES: Final = 11_000
N_CRYSTALS: Final = 1_600


def make_demo_data(
    folder: Path | str,
    *,
    seed: int = DEMO_SEED,
    n_molecules: int = N_MOLECULES,
    n_crystals: int = N_CRYSTALS,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Generate molecules, crystals and sample CIF files, and return the path of their manifest.

    Molecules take about 20 minutes and crystals 50 on one core. An interrupted call resumes when it
    is repeated for the same folder and seed.

    Raises
    ------
    ConfigError
        If `n_molecules` or `n_crystals` is below 1.
    """
    if min(n_molecules, n_crystals) < 1:
        raise ConfigError(f"{n_molecules=} and {n_crystals=}. Accepted: at least 1 of each.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[Purpose, tuple[Callable[[Candidate, int], Item], int]] = {
        "molecules": (make_molecule, n_molecules),
        "crystals": (make_crystal, n_crystals + N_SAMPLES),
    }
    partial = {name: folder / f"{name}.seed-{seed}.partial.jsonl" for name in makers}
    results = {
        name: make_items(
            name, make, seed=seed, n=n, n_jobs=n_jobs, partial=partial[name], progress=progress
        )
        for name, (make, n) in makers.items()
    }
    crystals = results["crystals"][0]
    tables = {
        "molecules": write_set(folder, "molecules", results["molecules"][0]),
        "crystals": write_set(folder, "crystals", crystals[:n_crystals]),
    }
    write_sample_cifs(folder / "new_crystals", crystals[n_crystals:])
    failures: dict[str, Counter[str]] = {name: failed for name, (_, failed) in results.items()}
    manifest = write_manifest(
        folder, seed=seed, tables=tables, failures=failures, settings=_SETTINGS
    )
    for path in partial.values():
        path.unlink()
    return manifest


def make_molecule(candidate: Candidate, seed: int) -> Item:
    """Return the molecule with its GFN2-xTB gap; raise GenerationFailed if a step fails."""
    shape = conformer(candidate.smiles, item_seed(seed, candidate.smiles))
    gap_eV = checked_gap(electrons(shape.numbers, shape.positions, method="GFN2-xTB"))
    row = {**_identity(candidate), "gap_eV": round(gap_eV, 4)}
    return Item(row, shape.numbers, shape.positions, None)


def make_crystal(candidate: Candidate, seed: int) -> Item:
    """Return a crystal of the molecule with its GFN1-xTB gap at Gamma.

    The row also has the GFN2-xTB and GFN1-xTB gaps of the isolated molecule. Raises
    GenerationFailed if a step fails.
    """
    shape = conformer(candidate.smiles, item_seed(seed, candidate.smiles))
    isolated = electrons(shape.numbers, shape.positions, method="GFN2-xTB")
    molecule_gap_eV = checked_gap(isolated)
    molecule_gap_gfn1_eV = electrons(shape.numbers, shape.positions, method="GFN1-xTB").gap_eV
    crystal = _best_packing(candidate, seed, shape, np.round(isolated.charges, _CHARGE_DECIMALS))
    z = len(SPACE_GROUPS[crystal.space_group])
    numbers = np.tile(shape.numbers, z)
    density = density_g_cm3(numbers, crystal.cell)
    if not DENSITY_G_CM3[0] <= density <= DENSITY_G_CM3[1]:
        raise GenerationFailed("density out of range")
    gap_eV = checked_gap(
        electrons(numbers, crystal.positions, method="GFN1-xTB", cell=crystal.cell)
    )
    row = {
        **_identity(candidate),
        "n_atoms": len(numbers),
        "space_group": crystal.space_group,
        "Z": z,
        "density_g_cm3": round(density, 4),
        "closest_contact": round(crystal.contact, 3),
        "lattice_energy_kcal_mol": round(crystal.energy, 2),
        "molecule_gap_eV": round(molecule_gap_eV, 4),
        "molecule_gap_gfn1_eV": round(molecule_gap_gfn1_eV, 4),
        "gap_eV": round(gap_eV, 4),
    }
    return Item(row, numbers, crystal.positions, crystal.cell)


def make_items(
    purpose: Purpose,
    make: Callable[[Candidate, int], Item],
    *,
    seed: int,
    n: int,
    n_jobs: int,
    partial: Path,
    progress: Progress = no_progress,
) -> tuple[list[Item], Counter[str]]:
    """Return the first `n` items of the stream of a seed, and counts of failures by reason.

    Finished items are appended to the file `partial` as JSON lines. A later call reuses them.
    """
    done = _read_partial(partial)
    partial.write_text("".join(json.dumps(line) + "\n" for line in done.values()), encoding="utf-8")
    items: list[Item] = []
    failures: Counter[str] = Counter()
    stream = candidates(seed, purpose)
    with partial.open("a", encoding="utf-8") as sink:
        while len(items) < n:
            batch = list(itertools.islice(stream, _BATCH_PER_JOB * max(1, n_jobs)))
            new = [c for c in batch if c.index not in done]
            for line in mapped(_attempt, ((make, c, seed) for c in new), n_jobs=n_jobs):
                done[line["index"]] = line
                sink.write(json.dumps(line, separators=(",", ":")) + "\n")
            sink.flush()
            for candidate in batch:
                line = done[candidate.index]
                if len(items) == n:
                    break
                if "failed" in line:
                    failures[line["failed"]] += 1
                else:
                    items.append(_item(line))
            progress(
                Update(
                    f"Generating {purpose}",
                    len(items),
                    n,
                    values={"failed": float(sum(failures.values()))},
                )
            )
    return items, failures


def _best_packing(candidate: Candidate, seed: int, shape: Conformer, charges: Floats) -> Packed:
    """Return the packing of lowest energy from `PACKING_STARTS` starts in a random space group."""
    rng = np.random.default_rng([item_seed(seed, candidate.smiles), 1])
    fitting = [
        g for g in GROUP_SHARES if len(SPACE_GROUPS[g]) * candidate.n_atoms <= MAX_CELL_ATOMS
    ]
    shares = np.array([GROUP_SHARES[g] for g in fitting])
    space_group = fitting[int(rng.choice(len(fitting), p=shares / shares.sum()))]
    starts = [
        np.random.default_rng([item_seed(seed, candidate.smiles), 2, k])
        for k in range(PACKING_STARTS)
    ]
    crystal = pack(
        shape.numbers, shape.positions, charges=charges, space_group=space_group, starts=starts
    )
    if crystal is None:
        raise GenerationFailed("no packing without touching molecules")
    return crystal


def _identity(candidate: Candidate) -> dict[str, str | int | float]:
    return {
        "smiles": candidate.smiles,
        "inchikey": candidate.inchikey,
        "formula": candidate.formula,
        "n_atoms": candidate.n_atoms,
    }


def _attempt(
    make: Callable[[Candidate, int], Item], candidate: Candidate, seed: int
) -> dict[str, Any]:
    try:
        item = make(candidate, seed)
    except GenerationFailed as failure:
        return {"index": candidate.index, "failed": failure.reason}
    return {
        "index": candidate.index,
        "row": dict(item.row),
        "numbers": item.numbers.tolist(),
        "positions": item.positions.tolist(),
        "cell": None if item.cell is None else item.cell.tolist(),
    }


def _item(line: Mapping[str, Any]) -> Item:
    cell = None if line["cell"] is None else np.array(line["cell"], dtype=np.float64)
    return Item(
        line["row"], np.array(line["numbers"], dtype=np.int64), np.array(line["positions"]), cell
    )


def _read_partial(path: Path) -> dict[int, dict[str, Any]]:
    return {line["index"]: line for line in _json_lines(path)} if path.exists() else {}


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            continue  # A crash truncated this line.
