"""Small `vasprun.xml` texts with settings and bands of the test's choice."""

from collections.abc import Mapping, Sequence

Bands = Sequence[Sequence[Sequence[float]]]  # (spin, k-point, band), eV
INSULATOR: Bands = [[[-5.0, 0.0, 1.5, 4.0], [-4.0, -1.0, 2.0, 4.0]]]

STRUCTURE = """<structure{name}><crystal><varray name="basis">
<v>4.2 0.0 0.0</v><v>0.0 4.2 0.0</v><v>0.0 0.0 4.2</v></varray></crystal>
<varray name="positions"><v>0.0 0.0 0.0</v><v>0.5 0.5 0.5</v></varray></structure>"""


def vasprun(
    bands: Bands = INSULATOR,
    *,
    settings: Mapping[str, object] | None = None,
    weights: Sequence[float] | None = None,
    n_steps: int = 5,
    n_ionic_steps: int = 1,
    last_change: float = 1e-6,
    force: float = 0.0,
    valence: tuple[float, float] = (1.0, 3.0),
    potential: str = "PAW_PBE",
    elements: tuple[str, str] = ("Na", "Cl"),
    after: str = "",
    electrons_per_band: int | None = None,
) -> str:
    """Return the text of a calculation with 4 electrons in an ionic crystal of two atoms.

    The lowest bands are occupied, by `electrons_per_band` or else as the settings mean.
    """
    used: dict[str, object] = {"NELECT": 4, "NELM": 60, "EDIFF": 1e-4, "ISPIN": len(bands)}
    used |= dict(settings or {})
    incar = "".join(f'<i name="{name}">{value}</i>' for name, value in used.items())
    parameters = incar + '<separator name="response functions"><i name="NELM">1</i></separator>'
    shares = weights if weights is not None else [1 / len(bands[0])] * len(bands[0])
    rows = "".join(
        f"<rc><c>1</c><c>{element}</c><c>1.0</c><c>{n}</c><c> {potential} {element} </c></rc>"
        for element, n in zip(elements, valence, strict=True)
    )
    atoms = "".join(f"<rc><c>{element}</c><c>{k}</c></rc>" for k, element in enumerate(elements))
    steps = "".join(
        f'<scstep><energy><i name="e_fr_energy">{(n_steps - 1 - k) * last_change}</i></energy>'
        "</scstep>"
        for k in range(n_steps)
    )
    forces = f'<varray name="forces"><v>0 0 {force}</v><v>0 0 {-force}</v></varray>'
    step = f"{steps}{STRUCTURE.format(name='')}{forces}"
    calculations = [f"<calculation>{step}</calculation>"] * (n_ionic_steps - 1)
    has_spinors = any(used.get(name) == "T" for name in ("LSORBIT", "LNONCOLLINEAR"))
    per_band = electrons_per_band or (1 if has_spinors or len(bands) == 2 else 2)
    eigenvalues = _eigenvalues(bands, n_filled=float(str(used["NELECT"])) / per_band)
    calculations.append(f"<calculation>{step}{eigenvalues}{after}</calculation>")
    weight_rows = "".join(f"<v>{weight}</v>" for weight in shares)
    initial = STRUCTURE.format(name=' name="initialpos"')
    return (
        '<?xml version="1.0" encoding="ISO-8859-1"?>\n<modeling>\n'
        '<generator><i name="version">6.4.1</i></generator>\n'
        f"<incar>{incar}</incar>\n"
        f'<kpoints><varray name="weights">{weight_rows}</varray></kpoints>\n'
        f"<parameters>{parameters}</parameters>\n"
        f'<atominfo><array name="atoms"><set>{atoms}</set></array>'
        f'<array name="atomtypes"><set>{rows}</set></array></atominfo>\n'
        f"{initial}\n" + "\n".join(calculations) + "\n</modeling>\n"
    )


def _eigenvalues(bands: Bands, *, n_filled: float) -> str:
    """Return the eigenvalues with `n_filled` occupied bands of both spins at each k-point."""
    spins = "".join(
        f'<set comment="spin {s}">'
        + "".join(
            f'<set comment="kpoint {k}">'
            + "".join(
                f"<r> {energy} {_occupation(bands, k - 1, (energy, s), n_filled):.4f} </r>"
                for energy in energies
            )
            + "</set>"
            for k, energies in enumerate(kpoints, start=1)
        )
        + "</set>"
        for s, kpoints in enumerate(bands, start=1)
    )
    return f"<eigenvalues><array><set>{spins}</set></array></eigenvalues>"


def _occupation(bands: Bands, kpoint: int, state: tuple[float, int], n_filled: float) -> float:
    """Return the occupation, 0 to 1, of a state with its energy and spin."""
    states = sorted(
        (energy, spin) for spin, kpoints in enumerate(bands, start=1) for energy in kpoints[kpoint]
    )
    first = states.index(state)
    n_equal = states.count(state)
    return min(max((n_filled - first) / n_equal, 0.0), 1.0)
