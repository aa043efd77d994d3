"""The presets, chosen by measurement, and the same settings for the user's own species.

Root mean square errors in eV, over three splits, of A: kernel ridge (Laplacian kernel), 250 molecules with the gap of
their crystal (OMDB, 16 elements, 700 tested). B: the same kernel, 100 hybrid perovskite crystals (253 tested). C: a
network trained on 6,000 molecules of the demo and fine-tuned on 192 crystals of the demo (300 tested, 4 networks).
Shift: median distance of those crystals from the mean molecule, in standard deviations per feature (new molecules:
0.2 to 0.4). Features were standardised by the rule of `standardise.py`.

| k2 range, sigma (1/angstrom) | cutoff (angstrom), weight there | divided by  | A     | B     | C     | shift |
|------------------------------|---------------------------------|-------------|-------|-------|-------|-------|
| 0.30 to 1.10, 0.015          | 3, 0.001                        | heavy atoms | 0.613 | 0.266 | 0.414 | 0.24  |
| **0.25 to 1.10, 0.015**      | **3.5, 0.001**                  | heavy atoms | 0.612 | 0.259 | 0.418 | 0.28  |
|                              |                                 | atoms       | 0.620 | 0.255 | 0.421 | 0.29  |
| 0.25 to 1.10, 0.02           | 3.5, 0.001                      | heavy atoms | 0.614 | 0.261 | 0.429 | 0.31  |
|                              |                                 | atoms       | 0.619 | 0.260 | 0.432 | 0.32  |
|                              |                                 | length (l2) | 0.646 | 0.258 | 0.482 | 0.56  |
|                              |                                 | nothing     | 0.640 | 0.255 | 0.504 | 0.56  |
| 0.25 to 1.10, 0.03           | 3.5, 0.001                      | heavy atoms | 0.624 | 0.270 | 0.446 | 0.35  |
| 0.20 to 1.10, 0.02           | 5, 0.0001                       | heavy atoms | 0.612 | 0.255 | 0.461 | 0.36  |
| 0.20 to 1.10, 0.02           | 4, 0.01                         | heavy atoms | 0.615 | 0.246 | 0.516 | 0.72  |
| 0.15 to 1.10, 0.02           | 6, 0.01                         | heavy atoms | 0.618 | 0.238 | 0.529 | 1.77  |

What lies beyond the first contacts between molecules gains little for perovskites and nothing for molecules, and it
takes crystals out of what the source network has seen. A crystal of 56 atoms takes 5 ms of processor time, a molecule
of 32 atoms 0.8 ms. The width of k1 does not matter (A: 0.615 to 0.617): its grids only carry counts of elements.

`oe62-16-roots` has square roots of all values, and the size of the molecule as a last feature. On the same organic
crystals, a network trained on them and transferred to 100 and to 500 by a Gaussian process on its features has errors
of 0.55 and 0.47 eV, one trained on plain values 0.58 and 0.48 (six splits). It describes zwitterions, 1 % of these
crystals, in their neutral form: with four networks the error at n = 100 fell from 0.542 to 0.531 eV (twenty splits).

Without a source, the elements of the data set decide (`descriptor_for`). An exact Gaussian process on each descriptor:
RMSE and CRPS in eV, means over three splits, on 353 perovskites with HSE gaps (8 elements, 103 tested), 1,494 molecules
with the gap of their organic crystal (12 elements, 700 tested) and 2,400 inorganic crystals with PBE gaps (83 elements,
700 tested). Differences below 2 % say nothing.

| descriptor                 | perovskites 100 | and 250         | organic 100     | inorganic 200   | and 1,000       |
|----------------------------|-----------------|-----------------|-----------------|-----------------|-----------------|
| MBTR                       | 0.272 0.147     | 0.195 0.109     | 0.660 0.364     | 125,496 long    |                 |
| MBTR, roots                | 0.259 0.141     | 0.201 0.113     | 0.696 0.387     |                 |                 |
| composition                | 0.318 0.170     | 0.282 0.152     | 0.772 0.430     | 1.172 0.662     | 1.000 0.558     |
| neighbours                 | 0.301 0.161     | 0.239 0.129     | 0.743 0.409     | 1.202 0.672     |                 |
| **composition+neighbours** | 0.302 0.162     | 0.241 0.129     | 0.743 0.411     | **1.171 0.658** | **0.983 0.546** |
| SOAP, means alone          | 0.277 0.142     | 0.192 0.100     | 0.691 0.388     | 1.366 0.778     |                 |
| SOAP                       | 0.241 0.122     | 0.166 0.084     | 0.690 0.387     | 1.343 0.764     |                 |
| composition, SOAP          | 0.253 0.128     | 0.167 0.085     | 0.698 0.389     |                 |                 |
| all three                  | 0.258 0.130     | 0.165 0.085     | 0.703 0.389     | 1.189 0.673     |                 |
| MBTR, SOAP                 | 0.243 0.122     | 0.160 0.082     | 0.671 0.378     |                 |                 |
| **MBTR, roots, and SOAP**  | **0.237 0.120** | **0.150 0.079** | **0.647 0.363** |                 |                 |

On the inorganic crystals gradient boosting has 1.114 and 0.928 eV with composition and neighbours, 1.118 and 0.952 with
composition alone, 1.187 at n = 200 with all three. Of those crystals 681 hold only the 28 most frequent elements: with
200 to learn from, the Gaussian process has 1.191 with MBTR (15,624 numbers), 1.199 with MBTR and SOAP, 1.179 with
composition and neighbours. SOAP with a cutoff of 7 in place of 5 angstrom has 0.245 and 0.180 on the perovskites (with
roots, as 0.247 and 0.180 with 5), with a quarter of the numbers 0.293 and 0.194. A cell of 134 atoms
takes 23 ms for SOAP and 8 ms for neighbours.

With CHGNet installed, its features (`chgnet-two-layers`) stand behind these descriptors. RMSE and CRPS in eV of
`parts_gp`, which gives each part a length of its own and integrates the scales, on 8, 3, 8 and 8 splits that are not
those of `python -m benchmarks crystals`:

| descriptor                           | perovskites 100 | and 250         | organic 100     | inorganic 200   |
|--------------------------------------|-----------------|-----------------|-----------------|-----------------|
| MBTR, roots, and SOAP                | 0.211 0.110     | 0.158 0.081     | 0.631 0.350     |                 |
| composition+neighbours               |                 |                 |                 | 1.183 0.666     |
| potential                            | 0.216 0.113     | 0.167 0.087     | 0.651 0.360     | 0.938 0.516     |
| **MBTR, roots, SOAP, potential**     | **0.206 0.107** | **0.150 0.078** | **0.626 0.346** |                 |
| **composition+neighbours+potential** |                 |                 |                 | **0.934 0.516** |
| the same with one length for all     | 0.203 0.106     | 0.152 0.078     | 0.623 0.346     | 0.965 0.535     |
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from bandgap.descriptors.config import DescriptorConfig, Term
from bandgap.descriptors.element_properties import KNOWN
from bandgap.descriptors.potentials import NONE
from bandgap.descriptors.soap import Soap
from bandgap.foundation.errors import ConfigError

FEW_ELEMENTS = 16

K1 = Term(function="atomic_number", minimum=0.0, maximum=120.0, n=36, sigma=4.0)
K2 = Term(
    function="inverse_distance",
    minimum=0.25,
    maximum=1.1,
    n=36,
    sigma=0.015,
    weighting="exp",
    cutoff_angstrom=3.5,
    threshold=0.001,
)

PRESETS: dict[str, DescriptorConfig] = {
    "thesis-1260": DescriptorConfig(species=("H", "C", "N", "O", "F", "S", "Cl"), k1=K1, k2=K2),
    "oe62-16": DescriptorConfig(
        species=(
            "H",
            "Li",
            "B",
            "C",
            "N",
            "O",
            "F",
            "Si",
            "P",
            "S",
            "Cl",
            "As",
            "Se",
            "Br",
            "Te",
            "I",
        ),
        k1=K1,
        k2=K2,
    ),
}
PRESETS["oe62-16-roots"] = replace(PRESETS["oe62-16"], roots=True, size=True, neutral=True)
PRESETS["any-elements"] = DescriptorConfig(composition=True, neighbours=True, soap=Soap())
for _name in ("chgnet", "chgnet-two-layers"):
    PRESETS[_name] = DescriptorConfig(potential=_name)


def config_for(
    *, preset: str | None = None, species: Sequence[str] | None = None
) -> DescriptorConfig:
    """Return the settings of a named preset, or the presets' settings for the user's own species.

    Raises ConfigError for an unknown preset or element, for an element given twice, for a text instead of a list of
    symbols, and unless exactly one is given.
    """
    names = ", ".join(PRESETS)
    if (preset is None) == (species is None):
        found = "neither preset nor species" if preset is None else "both preset and species"
        raise ConfigError(
            f"{found} given. Give one: a preset ({names}) or chemical symbols, such as H C N O."
        )
    if isinstance(species, str):
        raise ConfigError(
            f"species is the text {species!r}. Give a list of symbols, such as ['H', 'Cl']."
        )
    if species is not None:
        return DescriptorConfig(species=tuple(species), k1=K1, k2=K2)
    if preset not in PRESETS:
        raise ConfigError(
            f"preset is {preset!r}. Accepted: {names}; or give the species themselves."
        )
    return PRESETS[preset]


def descriptor_for(elements: Collection[str], *, potential: str = NONE) -> DescriptorConfig:
    """Return the descriptor of a data set whose structures hold these elements, which no source has to know.

    For up to 16 elements that is MBTR with SOAP behind it, for more the composition and the neighbours, whose number
    of features does not grow with that of the elements; behind them stand the features of a potential, if one is given
    (`potentials.potential_for`). Raises ConfigError for none, and for what is no element.
    """
    species = config_for(species=tuple(dict.fromkeys(elements))).species
    if len(species) > FEW_ELEMENTS:
        return DescriptorConfig(composition=True, neighbours=True, potential=potential)
    soap = Soap() if set(species) <= set(KNOWN) else None
    return DescriptorConfig(species, K1, K2, roots=True, soap=soap, potential=potential)
