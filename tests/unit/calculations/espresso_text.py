"""Small XML files as `pw.x` of Quantum ESPRESSO writes them, with bands of the test's choice."""

from collections.abc import Mapping, Sequence

from bandgap.calculations.espresso_xml import BOHR_ANGSTROM, HARTREE_EV

Bands = Sequence[Sequence[Sequence[float]]]  # (spin, k-point, band), eV
INSULATOR: Bands = [[[-5.0, 0.0, 1.5, 4.0], [-4.0, -1.0, 2.0, 4.0]]]


def structure(*, edge: float = 4.2, shift: float = 0.0, labels: tuple[str, str]) -> str:
    """Return two atoms in a cubic cell (edge in Angstrom), the first one shifted along x."""
    side = edge / BOHR_ANGSTROM
    half = f"{side / 2:.12e}"
    return (
        f'<atomic_structure nat="2" alat="{side}"><atomic_positions>'
        f'<atom name="{labels[0]}" index="1">{shift / BOHR_ANGSTROM:.12e} 0.0e0 0.0e0</atom>'
        f'<atom name="{labels[1]}" index="2">{half} {half} {half}</atom></atomic_positions>'
        f"<cell><a1>{side:.12e} 0 0</a1><a2>0 {side:.12e} 0</a2><a3>0 0 {side:.12e}</a3></cell>"
        "</atomic_structure>"
    )


def espresso(
    bands: Bands = INSULATOR,
    *,
    n_electrons: float = 4,
    weights: Sequence[float] | None = None,
    calculation: str = "scf",
    functional: str = "<functional>PBE</functional>",
    is_noncollinear: bool = False,
    has_spin_orbit: bool = False,
    is_converged: bool = True,
    is_relaxed: bool | None = None,
    inputs: Mapping[str, object] | None = None,
    occupations: str = "smearing",
    labels: tuple[str, str] = ("Na", "Cl"),
    potentials: tuple[str, str] = ("Na.pbe-spn.UPF", "Cl.pbe-n.UPF"),
    steps: Sequence[float] = (),
    shift: float = 0.0,
    fermi: str = "<fermi_energy>1.0e-2</fermi_energy>",
    status: int = 0,
    program: str = "PWSCF",
) -> str:
    """Return the text of a calculation. Steps and shift move the first atom, in Angstrom."""
    n_kpoints = len(bands[0])
    n_bands = len(bands[0][0])
    shares = weights if weights is not None else [2 / n_kpoints] * n_kpoints
    has_two_spins = len(bands) == 2
    values = "".join(f"<{name}>{value}</{name}>" for name, value in (inputs or {}).items())
    counts = (
        f"<nbnd_up>{n_bands}</nbnd_up><nbnd_dw>{n_bands}</nbnd_dw>"
        if has_two_spins
        else f"<nbnd>{n_bands}</nbnd>"
    )
    step_texts = "".join(
        f'<step n_step="{k}"><scf_conv><convergence_achieved>true</convergence_achieved>'
        f"</scf_conv>{structure(shift=step, labels=labels)}</step>"
        for k, step in enumerate(steps, start=1)
    )
    relaxation = (
        ""
        if is_relaxed is None
        else f"<opt_conv><convergence_achieved>{str(is_relaxed).lower()}</convergence_achieved>"
        "<n_opt_steps>1</n_opt_steps></opt_conv>"
    )
    species = "".join(
        f'<species name="{label}"><mass>1.0e1</mass><pseudo_file>{file}</pseudo_file></species>'
        for label, file in zip(labels, potentials, strict=True)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        "<!-- All quantities are in Hartree atomic units unless otherwise specified -->\n"
        '<qes:espresso xmlns:qes="http://www.quantum-espresso.org/ns/qes/qes-1.0"'
        ' Units="Hartree atomic units">\n'
        f'<general_info><creator NAME="{program}" VERSION="7.3">XML file</creator></general_info>\n'
        f"<input><control_variables><calculation>{calculation}</calculation></control_variables>"
        f"{structure(labels=labels)}<dft>{functional}</dft><bands>{values}</bands></input>\n"
        f"{step_texts}\n<output><convergence_info><scf_conv><convergence_achieved>"
        f"{str(is_converged).lower()}</convergence_achieved><n_scf_steps>100</n_scf_steps>"
        f"</scf_conv>{relaxation}</convergence_info>\n"
        f'<atomic_species ntyp="2">{species}</atomic_species>'
        f"{structure(shift=shift, labels=labels)}\n<symmetries><nsym>1</nsym></symmetries>"
        f"<dft>{functional}</dft>\n<band_structure><lsda>{str(has_two_spins).lower()}</lsda>"
        f"<noncolin>{str(is_noncollinear).lower()}</noncolin>"
        f"<spinorbit>{str(has_spin_orbit).lower()}</spinorbit>{counts}"
        f"<nelec>{n_electrons:e}</nelec>{fermi}<nks>{n_kpoints}</nks>"
        f"<occupations_kind>{occupations}</occupations_kind>\n{_kpoints(bands, shares)}"
        f"</band_structure></output>\n<exit_status>{status}</exit_status></qes:espresso>\n"
    )


def _kpoints(bands: Bands, weights: Sequence[float]) -> str:
    """Return the k-points; with two spins, the bands of spin down follow those of spin up."""
    blocks = []
    for k, weight in enumerate(weights):
        energies = [energy / HARTREE_EV for spin in bands for energy in spin[k]]
        rows = " ".join(f"{energy:.15e}" for energy in energies)
        blocks.append(
            f'<ks_energies><k_point weight="{weight:e}">{k / 10} 0.0 0.0</k_point><npw>99</npw>'
            f'<eigenvalues size="{len(energies)}">\n{rows}\n</eigenvalues>'
            f'<occupations size="{len(energies)}">{"5.0e-1 " * len(energies)}</occupations>'
            "</ks_energies>"
        )
    return "\n".join(blocks)
