"""Find the calculations in folders, and give each its structure, gap and level of theory."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bandgap.calculations.band_edges import GapKind, band_gap
from bandgap.calculations.theory_level import (
    contradiction_of_comment,
    hubbard_values,
    theory_level,
)
from bandgap.calculations.vasprun import VaspRun, read_vasprun
from bandgap.foundation.errors import InputError, printable
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures.checks import to_record
from bandgap.structures.draft import Draft, Unreadable
from bandgap.structures.ids import RepeatedIds
from bandgap.structures.records import DEFAULT_LIMITS, Problem, StructureRecord

_FILE_NAME = re.compile(r".*vasprun.*\.xml(\.gz)?", re.IGNORECASE)
_FILE_ENDING = re.compile(r"[._-]?vasprun|\.xml(\.gz)?$", re.IGNORECASE)
_WITHOUT_LOOP = ("EXACT", "NOTHING", "NONE", "EIGENVAL", "SUBROT")
_MANY_BODY = re.compile(r"GW|BSE|TDHF|TIMEEV|ACFDT|RPA|CHI|2E4W", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Calculation:
    """Result of one file: a structure with its gap, or the reason why there is none.

    Parameters
    ----------
    record
        Structure of the step to which the gap belongs, with problems of structure and gap.
    gap_eV
        Gap in eV, 0 for a metal, NaN if there is none.
    kind
        Whether the gap is direct, None if there is no gap.
    level_of_theory
        Level of theory, such as "PBE+U".
    """

    record: StructureRecord
    gap_eV: float = np.nan
    kind: GapKind | None = None
    level_of_theory: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether there is a gap and a structure."""
        return bool(np.isfinite(self.gap_eV)) and self.record.status != "refused"


def read_calculations(
    paths: Iterable[Path],
    *,
    keep_unconverged: bool = False,
    progress: Progress = no_progress,
) -> list[Calculation]:
    """Read every `vasprun.xml` or `vasprun.xml.gz` of folders and their subfolders.

    Parameters
    ----------
    paths
        Folders, or files of any name.
    keep_unconverged
        Whether a gap of an electronic loop that did not converge is used, with a warning.
    progress
        Called before every file.

    Returns
    -------
    list of Calculation
        One for each file, in the order of the paths, with unique ids. The id is the path below
        the given folder, or the name of the file.

    Raises
    ------
    InputError
        If a path does not exist, or if there is no such file in all paths.
    """
    files = [pair for path in paths for pair in _files_under(Path(path))]
    if not files:
        raise InputError(
            "There is no file vasprun.xml or vasprun.xml.gz under the given paths. Give the"
            " folders of finished VASP calculations."
        )
    results = []
    for n_read, (path, id) in enumerate(files):
        progress(Update("Reading calculations", n_read, len(files), message=id))
        results.append(read_calculation(path, id, keep_unconverged=keep_unconverged))
    progress(Update("Reading calculations", len(files), len(files)))
    new_ids = RepeatedIds(result.record.id for result in results).new_ids()
    return [
        replace(result, record=replace(result.record, id=new_ids[i])) if i in new_ids else result
        for i, result in enumerate(results)
    ]


def read_calculation(path: Path, id: str, *, keep_unconverged: bool = False) -> Calculation:
    """Read one `vasprun.xml`. A file that gives no gap has a refused record with the reason."""
    name = str(path)
    try:
        run = read_vasprun(path)
        problems = _checked(run, keep_unconverged=keep_unconverged)
        gap = band_gap(
            run.energies_eV,
            run.number("NELECT", np.nan),
            electrons_per_band=1 if _has_one_electron_per_band(run) else 2,
            spin_moment=_fixed_moment(run),
        )
        record = to_record(_draft(run), file=name, id=id, limits=DEFAULT_LIMITS)
        level = theory_level(run)
    except Unreadable as error:
        return Calculation(_refused(id, name, str(error)))
    except MemoryError:
        return Calculation(_refused(id, name, "the file needs more memory than there is"))
    texts = [*([gap.problem] if gap.problem else []), *_zero_weight_notes(run), *problems]
    warnings = tuple(Problem("warning", printable(text)) for text in texts)
    record = replace(record, problems=(*record.problems, *warnings))
    return Calculation(record, gap.gap_eV, gap.kind, level)


def _files_under(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path of every calculation under a path, and its id."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder.")
    if not path.is_dir():
        yield path, _id_of(path, path.parent)
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if _FILE_NAME.fullmatch(name) and not name.startswith("."):
                file = Path(folder, name)
                yield file, _id_of(file, path)


def _id_of(file: Path, top: Path) -> str:
    """Return the folders below `top` and what the file's name has in addition to vasprun.xml."""
    folders = file.parent.relative_to(top).parts
    stem = _FILE_ENDING.sub("", file.name).strip("._- ")
    words = [*folders, stem] if stem else list(folders)
    return printable("-".join(words)) or printable(top.resolve().name) or "calculation"


def _refused(id: str, file: str, text: str) -> StructureRecord:
    return StructureRecord(id, file, "VASP", None, (Problem("refused", printable(text)),))


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


def _fixed_moment(run: VaspRun) -> float | None:
    """Return the difference of the numbers of electrons with spin up and down, if it was fixed."""
    moment = run.number("NUPDOWN", -1)
    return moment if moment >= 0 and run.energies_eV.shape[0] == 2 else None


def _checked(run: VaspRun, *, keep_unconverged: bool) -> list[str]:
    """Return the warnings on a calculation. Raises Unreadable if its gap must not be used."""
    if _MANY_BODY.search(run.text("ALGO")):
        raise Unreadable(
            f"the calculation has ALGO = {run.text('ALGO')}. Its quasiparticle energies are in the"
            " OUTCAR, which is not read; give the calculation with a density functional"
        )
    if np.isnan(run.number("NELECT", np.nan)):
        raise Unreadable("the file does not state the number of electrons (NELECT)")
    unconverged = _unconverged(run)
    if unconverged and not keep_unconverged:
        raise Unreadable(f"{unconverged}. Converge it, or use its gap with --keep-unconverged")
    warnings = [unconverged, *_ionic_warnings(run), _charge_warning(run), _hubbard_note(run)]
    warnings += [contradiction_of_comment(run), _kpoint_warning(run)]
    return [text for text in warnings if text]


def _unconverged(run: VaspRun) -> str:
    """Return a message if the last electronic loop ended without convergence, or ""."""
    largest = int(run.number("NELM", 60))
    if run.text("ALGO").upper().startswith(_WITHOUT_LOOP) or run.n_electronic_steps < largest:
        return ""
    change = abs(run.energy_changes_eV[0])
    if change <= run.number("EDIFF", 1e-4):
        return ""
    return (
        f"the electronic loop did not converge: it ended at its limit of {largest:,} steps (NELM),"
        f" where the energy still changed by {change:.2g} eV"
    )


def _ionic_warnings(run: VaspRun) -> list[str]:
    """Return warnings on the structure to which the gap belongs."""
    algorithm = int(run.number("IBRION", -1))
    largest = int(run.number("NSW", 0))
    if algorithm == 0 and largest > 0:
        return ["the gap is that of the last step of molecular dynamics"]
    if algorithm in (5, 6):
        return ["the gap is that of the last displaced structure of finite differences"]
    is_at_limit = algorithm in (1, 2, 3) and 1 < largest <= run.n_ionic_steps
    if not is_at_limit or _is_relaxed(run):
        return []
    return [
        f"the relaxation is unfinished: it ended at its limit of {largest:,} steps (NSW); the gap"
        " is that of the last structure"
    ]


def _is_relaxed(run: VaspRun) -> bool:
    """Return whether the last step meets EDIFFG: a force if negative, else an energy."""
    limit = run.number("EDIFFG", 10 * run.number("EDIFF", 1e-4))
    value = run.largest_force if limit < 0 else abs(run.energy_changes_eV[1])
    return bool(value <= abs(limit))


def _charge_warning(run: VaspRun) -> str:
    n_neutral = sum(n_atoms * n_electrons for n_atoms, n_electrons, _ in run.kinds)
    charge = n_neutral - run.number("NELECT", np.nan)
    if not run.kinds or abs(charge) < 1e-3:
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


def _kpoint_warning(run: VaspRun) -> str:
    if run.has_other_kpoints:
        return "the k-points of KPOINTS_OPT are not read; the gap is that of the other k-points"
    if run.energies_eV.shape[1] == 1:
        return "there is one k-point; the gap is that at this point"
    return ""


def _zero_weight_notes(run: VaspRun) -> list[str]:
    """Return a note on k-points without weight, with the gap that the others have."""
    has_weight = run.weights > 0
    n_without = int((~has_weight).sum())
    if not n_without or not has_weight.any():
        return []
    weighted_gap = band_gap(
        run.energies_eV[:, has_weight],
        run.number("NELECT", np.nan),
        electrons_per_band=1 if _has_one_electron_per_band(run) else 2,
        spin_moment=_fixed_moment(run),
    )
    return [
        f"{n_without:,} of {run.weights.size:,} k-points have no weight (a band structure); the"
        f" gap is that of all k-points, and {weighted_gap.gap_eV:.4f} eV without these"
    ]
