"""Calculations as a table, as extXYZ with their gaps, and in one sentence."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bandgap.calculations.reading import Calculation
from bandgap.foundation.errors import printable
from bandgap.structures.formats.xyz import extxyz_blocks

if TYPE_CHECKING:
    from bandgap.structures.records import InfoValue


def calculation_columns(results: Sequence[Calculation]) -> dict[str, list[object]]:
    """Return the columns of the table, with an empty gap for a calculation that gives none."""
    return {
        "id": [r.record.id for r in results],
        "gap_eV": [r.gap_eV if r.is_usable else None for r in results],
        "kind": [r.kind if r.is_usable else None for r in results],
        "level_of_theory": [r.level_of_theory if r.is_usable else "" for r in results],
        "formula": [r.record.formula for r in results],
        "calculation": [printable(r.record.file) for r in results],
        "problem": [r.record.problem for r in results],
    }


def labelled_blocks(results: Sequence[Calculation]) -> Iterator[str]:
    """Yield an extXYZ block with id, gap and level of theory for every usable calculation."""
    usable = [result for result in results if result.is_usable]
    comments: list[dict[str, InfoValue]] = [
        {"id": r.record.id, "gap_eV": r.gap_eV, "level_of_theory": r.level_of_theory}
        for r in usable
    ]
    return extxyz_blocks([r.record for r in usable], comments)


def counts_sentence(results: Sequence[Calculation]) -> str:
    """Return how many calculations give which kind of gap."""
    usable = [result for result in results if result.is_usable]
    kinds = Counter(result.kind for result in usable)
    return (
        f"{_count(len(results), 'calculation')}: {_count(kinds['direct'], 'direct gap')},"
        f" {_count(kinds['indirect'], 'indirect gap')}, {_count(kinds['metal'], 'metal')},"
        f" {len(results) - len(usable):,} without a gap."
    )


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
