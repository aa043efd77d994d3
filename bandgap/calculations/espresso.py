"""What a calculation of Quantum ESPRESSO says: bands, level of theory, and what is doubtful.

Reference for the names of functionals: the description of `input_dft` and Modules/funct.f90 of
Quantum ESPRESSO.
"""

import re

import numpy as np

from bandgap.calculations.espresso_xml import (
    BOHR_ANGSTROM,
    HARTREE_EV,
    EspressoRun,
    read_espresso,
    to_number,
)
from bandgap.calculations.outcome import Outcome
from bandgap.calculations.theory_level import hybrid_name
from bandgap.foundation.errors import quoted
from bandgap.structures.contents import Content
from bandgap.structures.draft import Draft, Unreadable
from bandgap.structures.elements import ELEMENTS

_WITHOUT_LOOP = ("nscf", "bands")
_RELAXATIONS = ("relax", "vc-relax")
_DYNAMICS = ("md", "vc-md")
_UNSET_MOMENTS = (-1.0, -10000.0)  # defaults of tot_magnetization
_SHORT_NAMES = {
    "PZ": "LDA", "LDA": "LDA", "PBE": "PBE", "PBESOL": "PBEsol", "REVPBE": "revPBE",
    "RPBE": "RPBE", "PW91": "PW91", "WC": "WC", "BP": "BP86", "BLYP": "BLYP", "OLYP": "OLYP",
    "PW86PBE": "PW86PBE", "B86BPBE": "B86bPBE", "SOGGA": "SOGGA", "PBEQ2D": "PBEQ2D",
    "TPSS": "TPSS", "M06L": "M06-L", "TB09": "mBJ", "SCAN": "SCAN", "RSCAN": "rSCAN",
    "R2SCAN": "r2SCAN", "HSE": "HSE", "PBE0": "PBE0", "B3LYP": "B3LYP", "X3LYP": "X3LYP",
    "GAUP": "Gau-PBE", "GAUPBE": "Gau-PBE", "HF": "HF", "RVV10": "rVV10", "VDW-DF": "vdW-DF",
    "VDW-DF2": "vdW-DF2", "VDW-DF-CX": "vdW-DF-cx", "VDW-DF-OBK8": "optB88-vdW",
    "VDW-DF-OB86": "optB86b-vdW", "VDW-DF2-B86R": "rev-vdW-DF2", "VDW-DF-C09": "vdW-DF-C09",
    "VDW-DF2-C09": "vdW-DF2-C09", "BEEF": "BEEF-vdW", "BEEF-VDW": "BEEF-vdW",
}  # fmt: skip
# Exchange, correlation, gradient of exchange, gradient of correlation.
_LONG_NAMES: dict[tuple[str, ...], str] = {
    ("SLA", "PZ", "NOGX", "NOGC"): "LDA", ("SLA", "PW", "NOGX", "NOGC"): "LDA",
    ("SLA", "PW", "PBX", "PBC"): "PBE", ("SLA", "PW", "PBE", "PBE"): "PBE",
    ("SLA", "PW", "PSX", "PSC"): "PBEsol", ("SLA", "PW", "RPB", "PBC"): "revPBE",
    ("SLA", "PW", "HHNX", "PBC"): "RPBE", ("SLA", "PW", "GGX", "GGC"): "PW91",
    ("SLA", "PW", "WCX", "PBC"): "WC", ("SLA", "PZ", "B88", "P86"): "BP86",
    ("B88", "P86", "B88", "P86"): "BP86", ("SLA", "LYP", "B88", "BLYP"): "BLYP",
    ("PB0X", "PW", "PB0X", "PBC"): "PBE0", ("SLA", "PW", "HSE", "PBC"): "HSE",
    ("HSE", "PW", "HSE", "PBC"): "HSE", ("B3LP", "B3LP", "B3LP", "B3LP"): "B3LYP",
}  # fmt: skip
_DISPERSION = {
    "DFT-D": "D2", "GRIMME-D2": "D2", "GRIMME-D3": "D3", "DFT-D3": "D3", "TS": "TS",
    "TS-VDW": "TS", "TKATCHENKO-SCHEFFLER": "TS", "MBD": "MBD", "MBD_VDW": "MBD",
    "MANY-BODY DISPERSION": "MBD", "XDM": "XDM",
}  # fmt: skip
_D3_VERSIONS = {2: "D2", 3: "D3", 4: "D3(BJ)", 5: "D3M", 6: "D3M(BJ)"}


def espresso_outcome(content: Content) -> Outcome:
    """Return the outcome of an XML file of `pw.x`.

    Raises
    ------
    Unreadable
        If the file gives no gap, with the reason.
    """
    run = read_espresso(content)
    if run.program and not run.program.upper().startswith("PWSCF"):
        raise Unreadable(f"the file is of {run.program}; only files of pw.x are read")
    bands = "output/band_structure"
    n_electrons = run.number(f"{bands}/nelec", np.nan)
    if np.isnan(n_electrons):
        raise Unreadable("the file does not state the number of electrons (nelec)")
    has_two_spins = run.energies.shape[0] == 2
    is_noncollinear = run.is_on(f"{bands}/noncolin") or run.is_on(f"{bands}/spinorbit")
    draft = _draft(run)
    warnings = [*_ionic_warnings(run), *_species_warnings(run), _charge_warning(run)]
    warnings += [_hubbard_note(run), _stop_warning(run)]
    return Outcome(
        draft=draft,
        energies_eV=run.energies * HARTREE_EV,
        weights=run.weights,
        n_electrons=n_electrons,
        electrons_per_band=1 if has_two_spins or is_noncollinear else 2,
        level_of_theory=_theory_level(run),
        bands_setting="nbnd",
        spin_moment=_fixed_moment(run) if has_two_spins else None,
        unconverged=_unconverged(run),
        warnings=[text for text in warnings if text],
    )


def element_of_label(label: str) -> str:
    """Return the element of a species such as Fe1, C_h or O-a, the label itself if it has none."""
    letters = re.match(r"[A-Za-z]{1,2}", label)
    if letters is None:
        return label
    symbol = letters.group().capitalize()
    candidates = (symbol, symbol[0])
    return next((text for text in candidates if text in ELEMENTS), label)


def _draft(run: EspressoRun) -> Draft:
    """Return the structure to which the eigenvalues belong.

    After an unfinished relaxation or dynamics, the output has the positions of the next step.
    """
    has_moved = _calculation(run) in _DYNAMICS or _is_unfinished(run)
    geometry = run.last_step if has_moved and run.last_step.labels else run.geometry
    if len(geometry.vectors) != 3 or not geometry.labels:
        raise Unreadable("the structure is incomplete")
    return Draft(
        symbols=[element_of_label(label) for label in geometry.labels],
        positions=np.array(geometry.positions) * BOHR_ANGSTROM,
        cell=np.array(geometry.vectors) * BOHR_ANGSTROM,
        pbc=(True, True, True),
        format="Quantum ESPRESSO",
    )


def _calculation(run: EspressoRun) -> str:
    return run.text("input/control_variables/calculation").lower()


def _is_unfinished(run: EspressoRun) -> bool:
    """Return whether a relaxation ended before its criterion was met."""
    path = "output/convergence_info/opt_conv/convergence_achieved"
    return _calculation(run) in _RELAXATIONS and not run.is_on(path)


def _unconverged(run: EspressoRun) -> str:
    """Return a message if the last electronic loop ended without convergence, or ""."""
    path = "output/convergence_info/scf_conv"
    if _calculation(run) in _WITHOUT_LOOP or not run.text(f"{path}/convergence_achieved"):
        return ""
    if run.is_on(f"{path}/convergence_achieved"):
        return ""
    n_steps = run.text(f"{path}/n_scf_steps")
    return f"the electronic loop did not converge in {n_steps or 'its'} steps (electron_maxstep)"


def _ionic_warnings(run: EspressoRun) -> list[str]:
    if _calculation(run) in _DYNAMICS:
        return ["the gap is that of the last step of molecular dynamics"]
    if not _is_unfinished(run):
        return []
    noun = "step" if run.n_steps == 1 else "steps"
    return [
        f"the relaxation is unfinished: it ended after {run.n_steps:,} {noun} (nstep); the gap is"
        " that of the last structure"
    ]


def _species_warnings(run: EspressoRun) -> list[str]:
    """Return warnings on species whose pseudopotential is named after another element."""
    warnings = []
    for label, file in run.pseudopotentials.items():
        letters = re.match(r"([A-Za-z]{1,2})[._-]", file)
        element = letters.group(1).capitalize() if letters else ""
        if element in ELEMENTS and element != element_of_label(label):
            warnings.append(
                f"the species {quoted(label)} has the pseudopotential {quoted(file)}; it is read as"
                f" {element_of_label(label)}"
            )
    return warnings


def _charge_warning(run: EspressoRun) -> str:
    charge = run.number("input/bands/tot_charge", 0.0)
    if abs(charge) < 1e-3:
        return ""
    return f"the cell is charged ({charge:+g} e): the gap is not that of the neutral crystal"


def _hubbard_note(run: EspressoRun) -> str:
    """Return the values of U by species if the calculation has any."""
    values = [
        f"{name.removeprefix('Hubbard_').removesuffix('m')} {species} {value:.4g}"
        for name, by_species in run.hubbard.items()
        for species, value in by_species.items()
        if abs(value) > 1e-6
    ]
    return f"DFT+U with values in eV: {', '.join(values)}" if values else ""


def _stop_warning(run: EspressoRun) -> str:
    status = run.text("exit_status") or run.text("status") or "0"
    if status in ("0", "2", "3"):  # 2 and 3: no convergence, which has a message of its own
        return ""
    return f"pw.x stopped before its end (exit status {status[:20]})"


def _fixed_moment(run: EspressoRun) -> float | None:
    """Return the difference of the numbers of electrons with spin up and down, if it was fixed."""
    text = run.text("input/bands/tot_magnetization")
    if not text:
        return None
    moment = to_number(text, "tot_magnetization")
    is_fixed = "output/band_structure/two_fermi_energies" in run.settings
    return moment if is_fixed or moment not in _UNSET_MOMENTS else None


def _theory_level(run: EspressoRun) -> str:
    """Return the level of theory, such as "PBE+U" or "HSE06 (25 %) + SOC"."""
    level = _hybrid(run, _functional(run))
    if any(abs(value) > 1e-6 for name in _ON_SITE for value in _values(run, name)):
        level += "+U"
    if any(abs(value) > 1e-6 for value in _values(run, "Hubbard_V")):
        level += "+V"
    if dispersion := _dispersion(run):
        level += f"-{dispersion}"
    if run.is_on("output/band_structure/spinorbit"):
        level += " + SOC"
    elif run.is_on("output/band_structure/noncolin"):
        level += " (non-collinear)"
    return level


_ON_SITE = ("Hubbard_U", "Hubbard_Um", "Hubbard_J0", "Hubbard_J")


def _values(run: EspressoRun, name: str) -> list[float]:
    return list(run.hubbard.get(name, {}).values())


def _functional(run: EspressoRun) -> str:
    """Return the name of the functional, as it is in the file if it has no other name."""
    text = run.functional.get("functional", "").strip()
    if not text:
        return "unknown functional"
    words = tuple(text.upper().replace("+", " ").replace("-", " ").split())
    return _SHORT_NAMES.get(text.upper()) or _LONG_NAMES.get(words[:4]) or text[:60]


def _hybrid(run: EspressoRun, name: str) -> str:
    """Return the name of the functional with its share of exact exchange if it has any."""
    share_text = run.functional.get("hybrid/exx_fraction", "")
    defaults = {"HSE": 0.25, "PBE0": 0.25, "B3LYP": 0.2, "X3LYP": 0.218, "Gau-PBE": 0.24, "HF": 1.0}
    if not share_text and name not in defaults:
        return name
    share = to_number(share_text, "exx_fraction") if share_text else defaults[name]
    if not share:
        return name
    screening_text = run.functional.get("hybrid/screening_parameter", "")
    default_screening = 0.106 if name == "HSE" else 0.0
    screening = to_number(screening_text, "screening_parameter") if screening_text else 0.0
    screening = (screening or default_screening) / BOHR_ANGSTROM
    if name == "HF":
        return "Hartree-Fock"
    if name in ("Gau-PBE", "X3LYP"):
        return f"{name} ({100 * share:.3g} %)"
    base = "PBE" if name in ("HSE", "PBE0") else name
    return hybrid_name(base, share=share, screening=screening)


def _dispersion(run: EspressoRun) -> str:
    name = _DISPERSION.get(run.functional.get("vdW/vdw_corr", "").strip().upper(), "")
    if name != "D3":
        return name
    version = to_number(run.functional.get("vdW/dftd3_version", "") or "3", "dftd3_version")
    return _D3_VERSIONS.get(int(version), "D3")
