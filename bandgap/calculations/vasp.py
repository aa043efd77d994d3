"""What a VASP calculation says: bands, level of theory, and what makes its gap doubtful."""

import re

import numpy as np

from bandgap.calculations.outcome import Outcome
from bandgap.calculations.theory_level import (
    contradiction_of_comment,
    hubbard_values,
    theory_level,
)
from bandgap.calculations.vasprun import VaspRun, read_vasprun
from bandgap.structures.contents import Content
from bandgap.structures.draft import Draft, Unreadable
from bandgap.structures.elements import pseudo_hydrogen_note

_WITHOUT_LOOP = ("EXACT", "NOTHING", "NONE", "EIGENVAL", "SUBROT")
# Of the number of electrons. Occupations have four digits, and smearing changes their sum little.
_OCCUPATION_TOLERANCE = 0.02
_MANY_BODY = re.compile(r"GW|G0W0|BSE|TDHF|TIMEEV|ACFDT|RPA|CHI|2E4W", re.IGNORECASE)


def vasp_outcome(content: Content) -> Outcome:
    """Return the outcome of a `vasprun.xml`.

    Raises
    ------
    Unreadable
        If the file gives no gap, with the reason.
    """
    run = read_vasprun(content)
    if _MANY_BODY.search(run.text("ALGO")):
        raise Unreadable(
            f"the calculation has ALGO = {run.text('ALGO')}. Its quasiparticle energies are in the"
            " OUTCAR, which is not read; give the calculation with a density functional"
        )
    n_electrons = run.number("NELECT", np.nan)
    if np.isnan(n_electrons):
        raise Unreadable("the file does not state the number of electrons (NELECT)")
    electrons_per_band = 1 if _has_one_electron_per_band(run) else 2
    warnings = [
        _occupation_warning(run, n_electrons, electrons_per_band=electrons_per_band),
        _stop_warning(run),
        *_ionic_warnings(run),
        _charge_warning(run),
        _hubbard_note(run),
        contradiction_of_comment(run),
        pseudo_hydrogen_note(word for _, _, title in run.kinds for word in title.split()),
    ]
    return Outcome(
        draft=_draft(run),
        energies_eV=run.energies_eV,
        weights=run.weights,
        n_electrons=n_electrons,
        electrons_per_band=electrons_per_band,
        level_of_theory=theory_level(run),
        bands_setting="NBANDS",
        spin_moment=_fixed_moment(run),
        unconverged=_unconverged(run),
        warnings=[text for text in warnings if text],
    )


def _draft(run: VaspRun) -> Draft:
    return Draft(
        symbols=run.symbols,
        positions=run.positions @ run.cell,
        cell=run.cell,
        pbc=(True, True, True),
        format="VASP",
    )


def _has_one_electron_per_band(run: VaspRun) -> bool:
    is_noncollinear = run.is_on("LNONCOLLINEAR") or run.is_on("LSORBIT")
    return is_noncollinear or run.energies_eV.shape[0] == 2


def _occupation_warning(run: VaspRun, n_electrons: float, *, electrons_per_band: int) -> str:
    """Return a warning if the occupations do not add up to the electrons of the cell, or "".

    Raises Unreadable if they do with another number of electrons per band: then the file lacks the
    setting of the spins, and the bands would be filled wrongly. Occupations of zero state nothing.
    """
    weights = run.weights
    sums = run.occupations.sum(axis=(0, 2))  # (k-point,)
    if not sums.any() or not weights.sum() > 0:
        return ""
    n_filled = float(weights @ sums / weights.sum())
    allowed = _OCCUPATION_TOLERANCE * n_electrons
    if not abs(electrons_per_band * n_filled - n_electrons) > allowed:  # also NaN
        return ""
    other = 3 - electrons_per_band
    if run.energies_eV.shape[0] == 1 and abs(other * n_filled - n_electrons) <= allowed:
        stated = "neither LSORBIT nor LNONCOLLINEAR" if other == 1 else "LSORBIT or LNONCOLLINEAR"
        raise Unreadable(
            f"the occupations add up to NELECT = {n_electrons:g} with {_electrons(other)} per band,"
            f" and the file states {stated}, which means {_electrons(electrons_per_band)} per band."
            " Settings were lost or changed; give the file as VASP wrote it"
        )
    return (
        f"the occupations add up to {electrons_per_band * n_filled:.4g} electrons, and NELECT is"
        f" {n_electrons:g}; the gap is that of NELECT"
    )


def _electrons(n: int) -> str:
    return "one electron" if n == 1 else "two electrons"


def _fixed_moment(run: VaspRun) -> float | None:
    """Return the difference of the numbers of electrons with spin up and down, if it was fixed."""
    moment = run.number("NUPDOWN", -1)
    return moment if moment >= 0 and run.energies_eV.shape[0] == 2 else None


def _unconverged(run: VaspRun) -> str:
    """Return a message if the last electronic loop ended without convergence, or ""."""
    largest = int(run.number("NELM", 60))
    if _has_no_loop(run) or run.n_electronic_steps < largest:
        return ""
    change = abs(run.energy_changes_eV[0])
    is_unknown = np.isnan(change) and run.n_electronic_steps > 1
    if is_unknown or change <= run.number("EDIFF", 1e-4):
        return ""
    noun = "step" if largest == 1 else "steps"
    energy = "" if np.isnan(change) else f", where the energy still changed by {change:.2g} eV"
    return (
        f"the electronic loop did not converge: it ended at its limit of {largest:,} {noun} (NELM)"
        f"{energy}"
    )


def _stop_warning(run: VaspRun) -> str:
    """Return a warning if the last electronic loop was stopped early, or may have been, or ""."""
    if _has_no_loop(run):
        return ""
    change = abs(run.energy_changes_eV[0])
    is_ended = run.n_electronic_steps >= int(run.number("NELM", 60))
    if is_ended and np.isnan(change) and run.n_electronic_steps > 1:
        return (
            f"the electronic loop ended at its limit of {run.n_electronic_steps:,} steps (NELM),"
            " and the file has no energies that say whether it converged"
        )
    if is_ended or np.isnan(change) or change <= 10 * run.number("EDIFF", 1e-4):
        return ""
    return (
        f"the electronic loop was stopped after {run.n_electronic_steps:,} steps, where the energy"
        f" still changed by {change:.2g} eV"
    )


def _has_no_loop(run: VaspRun) -> bool:
    return run.text("ALGO").upper().startswith(_WITHOUT_LOOP)


def _ionic_warnings(run: VaspRun) -> list[str]:
    """Return warnings on the structure to which the gap belongs."""
    algorithm = int(run.number("IBRION", -1))
    largest = int(run.number("NSW", 0))
    if algorithm == 0 and largest > 0:
        return ["the gap is that of the last step of molecular dynamics"]
    if algorithm in (5, 6):
        return ["the gap is that of the last displaced structure of finite differences"]
    if algorithm not in (1, 2, 3) or largest <= 1 or _is_relaxed(run):
        return []
    if run.n_ionic_steps >= largest:
        end = f"ended at its limit of {largest:,} steps (NSW)"
    elif run.number("EDIFFG", 0.0) < 0 and not (run.has_fixed_atoms or np.isnan(run.largest_force)):
        end = (
            f"was stopped after {run.n_ionic_steps:,} of {largest:,} steps, with a force of"
            f" {run.largest_force:.2g} eV/A"
        )
    else:
        return []
    return [f"the relaxation is unfinished: it {end}; the gap is that of the last structure"]


def _is_relaxed(run: VaspRun) -> bool:
    """Return whether the last step meets EDIFFG: a force if negative, else an energy."""
    limit = run.number("EDIFFG", 10 * run.number("EDIFF", 1e-4))
    value = run.largest_force if limit < 0 else abs(run.energy_changes_eV[1])
    return bool(value <= 1.05 * abs(limit))  # the file has forces with few digits


def _charge_warning(run: VaspRun) -> str:
    n_neutral = sum(n_atoms * n_electrons for n_atoms, n_electrons, _ in run.kinds)
    charge = n_neutral - run.number("NELECT", np.nan)
    if not run.kinds or not abs(charge) >= 1e-3:  # also NaN
        return ""
    return f"the cell is charged ({charge:+g} e): the gap is not that of the neutral crystal"


def _hubbard_note(run: VaspRun) -> str:
    """Return the values of U by element if the calculation has any."""
    if not run.is_on("LDAU"):
        return ""
    elements = list(dict.fromkeys(run.symbols))
    titles = [title.split()[1].partition("_")[0] for _, _, title in run.kinds if " " in title]
    names = titles if len(titles) == len(run.kinds) else elements
    values = [
        f"{name} {value:g}"
        for name, value in zip(names, hubbard_values(run), strict=False)
        if value
    ]
    return f"DFT+U with U - J in eV: {', '.join(values)}" if values else ""
