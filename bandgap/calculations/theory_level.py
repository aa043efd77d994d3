"""The level of theory of a VASP calculation in the field's words, such as "HSE06 (25 %) + SOC".

References: the pages GGA, METAGGA, LHFCALC, LDAU and IVDW of the VASP manual. HSE06: Krukau et al.,
J. Chem. Phys. 125, 224106 (2006).
"""

from bandgap.calculations.vasprun import VaspRun

_GGA = {
    "CA": "LDA", "PZ": "LDA", "VW": "LDA", "HL": "LDA", "WI": "LDA",
    "PE": "PBE", "PS": "PBEsol", "91": "PW91", "RP": "RPBE", "RE": "revPBE", "AM": "AM05",
    "BF": "BEEF", "BO": "optB88", "MK": "optB86b", "OR": "optPBE", "ML": "PW86R",
    "B3": "B3LYP", "B5": "B3LYP", "CX": "vdW-DF-cx",
}  # fmt: skip
_VDW_GGA = {
    "RE": "vdW-DF", "OR": "optPBE-vdW", "BO": "optB88-vdW", "MK": "optB86b-vdW", "ML": "vdW-DF2",
    "CX": "vdW-DF-cx",
}  # fmt: skip
_META_GGA = {
    "SCAN": "SCAN", "RSCAN": "rSCAN", "R2SCAN": "r2SCAN", "SCANL": "SCAN-L", "RSCANL": "rSCAN-L",
    "R2SCANL": "r2SCAN-L", "MBJ": "mBJ", "LMBJ": "local mBJ", "TPSS": "TPSS", "RTPSS": "revTPSS",
    "M06L": "M06-L", "MS0": "MS0", "MS1": "MS1", "MS2": "MS2",
}  # fmt: skip
_NONE = ("", "--", "NONE", "F", ".F.", ".FALSE.")
_DISPERSION = {
    1: "D2", 10: "D2", 11: "D3", 12: "D3(BJ)", 13: "D4", 2: "TS", 20: "TS", 21: "TS-HI",
    202: "MBD", 263: "MBD-FI", 4: "dDsC",
}  # fmt: skip
_SCREENED = (0.19, 0.22)  # HSE06, 1/Angstrom; 0.2 and 0.207 are in use
_SCREENED_HSE03 = (0.29, 0.31)


def theory_level(run: VaspRun) -> str:
    """Return the level of theory of a calculation, by the settings that VASP used.

    The functional is named by GGA and METAGGA, or by the pseudopotentials if these are not set.
    """
    base = _semilocal(run)
    level = _hybrid(run, base) if run.is_on("LHFCALC") else base
    if run.is_on("LDAU") and any(value for value in hubbard_values(run)):
        level += "+U"
    default_dispersion = 1 if run.is_on("LVDW") else 0
    dispersion = _DISPERSION.get(int(run.number("IVDW", default_dispersion)) or default_dispersion)
    if dispersion is not None:
        level += f"-{dispersion}"
    if run.is_on("LSORBIT"):
        level += " + SOC"
    elif run.is_on("LNONCOLLINEAR"):
        level += " (non-collinear)"
    return level


def hubbard_values(run: VaspRun) -> list[float]:
    """Return U - J in eV for every type of atoms, 0 where LDAUL is -1, or an empty list."""
    values_u = _numbers(run.text("LDAUU"))
    values_j = _numbers(run.text("LDAUJ"))
    values_j += [0.0] * (len(values_u) - len(values_j))
    orbitals = _numbers(run.text("LDAUL"))
    orbitals += [2.0] * (len(values_u) - len(orbitals))
    return [
        u - j if orbital >= 0 else 0.0
        for u, j, orbital in zip(values_u, values_j, orbitals, strict=False)
    ]


def contradiction_of_comment(run: VaspRun) -> str:
    """Return a warning if a comment in the INCAR names another functional than GGA, or ""."""
    code = run.text("GGA").upper()
    comment = run.incar.get("GGA", "").replace("#", "!").partition("!")[2].strip()
    commented = next(
        (name for name in ("PBEsol", "PBE", "PW91", "RPBE", "AM05") if name in comment), ""
    )
    used = _GGA.get(code, "")
    if not commented or not used or commented == used:
        return ""
    return (
        f"the INCAR has GGA = {code}, which is {used}, with a comment that says {commented}"
        f" ({comment[:60]}); the value counts"
    )


def _semilocal(run: VaspRun) -> str:
    """Return the functional without exact exchange."""
    meta = run.text("METAGGA").upper()
    has_vdw = run.is_on("LUSE_VDW")
    if meta not in _NONE:
        name = _META_GGA.get(meta, meta)
        return f"{name}+rVV10" if has_vdw else name
    code = run.text("GGA").upper()
    if has_vdw and code in _VDW_GGA:
        return _VDW_GGA[code]
    if code == "LIBXC":
        names = [run.text(name).upper() for name in ("LIBXC1", "LIBXC2")]
        return "libxc " + "+".join(name for name in names if name not in _NONE)
    if code in _NONE:
        return _functional_of_potentials(run)
    return _GGA.get(code, f"GGA = {code}")


def _functional_of_potentials(run: VaspRun) -> str:
    """Return the functional for which the pseudopotentials were made."""
    titles = {title.split()[0].upper() for _, _, title in run.kinds if title.split()}
    if all("PBE" in title for title in titles) and titles:
        return "PBE"
    if titles <= {"PAW", "US", "NC"} and titles:
        return "LDA"
    if titles <= {"PAW_GGA", "US_GGA"} and titles:
        return "PW91"
    return "unknown functional"


def _hybrid(run: VaspRun, base: str) -> str:
    """Return the name of a hybrid functional with its share of exact exchange."""
    share = run.number("AEXX", 0.25)
    screening = run.number("HFSCREEN", 0.0)
    percent = f"{100 * share:.3g} %"
    semilocal = "" if base == "PBE" else f", {base}"
    if run.is_on("LMODELHF"):
        return f"dielectric-dependent hybrid ({percent}{semilocal})"
    if run.is_on("LTHOMAS"):
        return f"screened exchange ({percent}{semilocal})"
    if share == 1 and not screening:
        has_correlation = run.number("ALDAC", 1.0) or run.number("AGGAC", 1.0)
        return hybrid_name(base, share=1.0, screening=0.0) if has_correlation else "Hartree-Fock"
    return hybrid_name(base, share=share, screening=screening)


def hybrid_name(base: str, *, share: float, screening: float) -> str:
    """Return the name of a hybrid functional, such as "HSE06 (25 %, PBEsol)".

    With all of the exact exchange it is no hybrid of this kind, and is named as Hartree-Fock
    exchange.

    Parameters
    ----------
    base
        Functional without exact exchange.
    share
        Share of exact exchange, 0 to 1.
    screening
        Screening parameter in 1/Angstrom, 0 without screening.
    """
    percent = f"{100 * share:.3g} %"
    semilocal = "" if base == "PBE" else f", {base}"
    if abs(share - 1) < 1e-6:
        range_text = f", screened, {screening:.3g} 1/A" if screening else ""
        return f"Hartree-Fock exchange (100 %{range_text}) + {base} correlation"
    if base == "B3LYP":
        return "B3LYP" if abs(share - 0.2) < 1e-6 and not screening else f"B3LYP ({percent})"
    if _SCREENED[0] <= screening <= _SCREENED[1]:
        return f"HSE06 ({percent}{semilocal})"
    if _SCREENED_HSE03[0] <= screening <= _SCREENED_HSE03[1]:
        return f"HSE03 ({percent}{semilocal})"
    if screening:
        return f"screened hybrid ({percent}, {screening:.3g} 1/A{semilocal})"
    return f"PBE0 ({percent}{semilocal})"


def _numbers(text: str) -> list[float]:
    """Return the numbers of a setting; `2*4.0` stands for two of them."""
    numbers: list[float] = []
    for word in text.split():
        count, star, value = word.partition("*")
        try:
            numbers += [float(value)] * min(int(count), 1000) if star else [float(word)]
        except ValueError:
            break
    return numbers
