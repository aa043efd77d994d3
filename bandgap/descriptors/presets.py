"""The presets, chosen by measurement, and the same settings for the user's own species.

Measured with kernel ridge (Laplacian kernel) on standardised features, error in eV over three splits: A, 250 molecules
with the gap of their crystal (OMDB, 16 elements); B, 100 hybrid perovskite crystals. "Shift" is how far molecular
crystals lie from the molecules of the demo, in standard deviations (root mean square; new molecules: 0.3 to 0.6).

| k2 range, sigma (1/angstrom) | cutoff (angstrom) | divided by   | A     | B     | shift | ms for 60 atoms, periodic |
|------------------------------|-------------------|--------------|-------|-------|-------|---------------------------|
| 0.30 to 1.05, 0.02           | 3                 | heavy atoms  | 0.617 | 0.259 | 0.39  | 4                         |
| **0.20 to 1.10, 0.02**       | **4**             | heavy atoms  | 0.615 | 0.246 | 0.60  | 7                         |
|                              |                   | atoms        | 0.626 | 0.244 | 0.84  |                           |
|                              |                   | length (l2)  | 0.638 | 0.247 | 1.12  |                           |
|                              |                   | nothing      | 0.643 | 0.241 | 1.18  |                           |
| 0.20 to 1.10, 0.03           | 4                 | heavy atoms  | 0.624 | 0.247 |       |                           |
| 0.15 to 1.10, 0.02           | 5                 | heavy atoms  | 0.613 | 0.246 | 1.16  | 12                        |
| 0.15 to 1.10, 0.02           | 6                 | heavy atoms  | 0.618 | 0.238 | 1.76  | 20                        |

Beyond 4 angstroms nothing is gained on molecules and little on perovskites, while the contacts between molecules, which
no isolated molecule has, push crystals out of what the source network has seen. The width of k1 does not matter (0.615
to 0.617): an element's grid only carries its count.
"""

from collections.abc import Sequence

from bandgap.descriptors.config import MBTRConfig, Term
from bandgap.errors import ConfigError

K1 = Term(function="atomic_number", minimum=0.0, maximum=120.0, n=36, sigma=4.0)
K2 = Term(
    function="inverse_distance",
    minimum=0.2,
    maximum=1.1,
    n=36,
    sigma=0.02,
    weighting="exp",
    cutoff_angstrom=4.0,
    threshold=0.01,
)

PRESETS: dict[str, MBTRConfig] = {
    "thesis-1260": MBTRConfig(species=("H", "C", "N", "O", "F", "S", "Cl"), k1=K1, k2=K2),
    "oe62-16": MBTRConfig(
        species=("H", "Li", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "As", "Se", "Br", "Te", "I"), k1=K1, k2=K2
    ),
}


def config_for(*, preset: str | None = None, species: Sequence[str] | None = None) -> MBTRConfig:
    """Return the settings of a named preset, or the presets' settings for the user's own species.

    Raises ConfigError for an unknown preset or element, for an element given twice, and unless exactly one is given.
    """
    names = ", ".join(PRESETS)
    if (preset is None) == (species is None):
        found = "neither preset nor species" if preset is None else "both preset and species"
        raise ConfigError(f"{found} given. Give one: a preset ({names}) or chemical symbols, such as H C N O.")
    if species is not None:
        return MBTRConfig(species=tuple(species), k1=K1, k2=K2)
    if preset not in PRESETS:
        raise ConfigError(f"preset is {preset!r}. Accepted: {names}; or give the species themselves.")
    return PRESETS[preset]
