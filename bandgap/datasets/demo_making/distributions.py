"""Summaries of the demo data's label tables, as they stand in its manifest and in its README."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

STATISTICS: Final = ("mean", "sd", "min", "p05", "median", "p95", "max")

# Name in the manifest: words for the README.
QUANTITIES: Final[Mapping[str, str]] = {
    "n_atoms": "atoms",
    "gap_eV": "gap (eV)",
    "density_g_cm3": "density (g/cm3)",
    "closest_contact": "closest contact (of the van-der-Waals sum)",
    "lattice_energy_kcal_mol": "lattice energy (kcal/mol per molecule)",
    "molecule_gap_eV": "GFN2-xTB gap of the molecule (eV)",
    "molecule_gap_gfn1_eV": "GFN1-xTB gap of the molecule (eV)",
    "crystal_minus_molecule_eV": "crystal minus molecule, as labelled (GFN1 - GFN2, eV)",
    "crystal_minus_molecule_gfn1_eV": "crystal minus molecule, both GFN1-xTB (eV)",
}


def distributions(table: pd.DataFrame) -> dict[str, Any]:
    """Return the statistics of every quantity that the table has, and the counts of space groups and of Z."""
    table = table.copy()
    if "molecule_gap_eV" in table:
        table["crystal_minus_molecule_eV"] = table["gap_eV"] - table["molecule_gap_eV"]
        table["crystal_minus_molecule_gfn1_eV"] = table["gap_eV"] - table["molecule_gap_gfn1_eV"]
    result: dict[str, Any] = {name: _statistics(table[name].to_numpy()) for name in QUANTITIES if name in table}
    for column in ("space_group", "Z"):
        if column in table:
            counts = table[column].astype(str).value_counts()
            result[column] = {str(k): int(counts[k]) for k in sorted(counts.index)}
    return result


def markdown_table(summary: Mapping[str, Any]) -> str:
    """Return the statistics of one set as a Markdown table."""
    lines = ["| | " + " | ".join(STATISTICS) + " |", "|---" * (len(STATISTICS) + 1) + "|"]
    for name, words in QUANTITIES.items():
        if name in summary:
            lines.append(f"| {words} | " + " | ".join(f"{summary[name][s]:.2f}" for s in STATISTICS) + " |")
    return "\n".join(lines) + "\n"


def _statistics(values: Any) -> dict[str, float]:
    x = np.asarray(values, dtype=np.float64)
    p05, median, p95 = np.quantile(x, [0.05, 0.5, 0.95])
    figures = (x.mean(), x.std(ddof=1), x.min(), p05, median, p95, x.max())
    return {name: round(float(value), 4) for name, value in zip(STATISTICS, figures, strict=True)}
