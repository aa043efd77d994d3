"""The levels of theory of OE62's gaps: their columns and words. Loads nothing, so that pages may read it.

Stuke et al. (2020), Sci. Data 7, 58.
"""

from typing import Literal

Level = Literal["pbe", "pbe0", "pbe0_tzvp", "pbe0_qzvp", "pbe0_water", "gw_tzvp", "gw_qzvp", "gw"]

# level: (column of occupied levels, column of unoccupied levels, words for tables). GW at the basis-set limit breaks
# the pattern of the other names.
LEVELS: dict[Level, tuple[str, str, str]] = {
    "pbe": ("energies_occ_pbe", "energies_unocc_pbe", "PBE+vdW"),
    "pbe0": ("energies_occ_pbe0_vac_tier2", "energies_unocc_pbe0_vac_tier2", "PBE0"),
    "pbe0_tzvp": ("energies_occ_pbe0_vac_tzvp", "energies_unocc_pbe0_vac_tzvp", "PBE0 (def2-TZVP)"),
    "pbe0_qzvp": ("energies_occ_pbe0_vac_qzvp", "energies_unocc_pbe0_vac_qzvp", "PBE0 (def2-QZVP)"),
    "pbe0_water": ("energies_occ_pbe0_water", "energies_unocc_pbe0_water", "PBE0 (water)"),
    "gw_tzvp": ("energies_occ_gw_tzvp", "energies_unocc_gw_tzvp", "G0W0@PBE0 (def2-TZVP)"),
    "gw_qzvp": ("energies_occ_gw_qzvp", "energies_unocc_gw_qzvp", "G0W0@PBE0 (def2-QZVP)"),
    "gw": ("cbs_occ_gw", "cbs_unocc_gw", "G0W0@PBE0 (basis-set limit)"),
}
