"""The pages "Do the methods do what their papers say?", written from stored results."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.studies.published_tables import table_names
from benchmarks.studies.results import StoredResult
from benchmarks.studies.study import Row, Study

INTRODUCTION = """\
# Do the methods do what their papers say?

The tables and figures of the papers behind bandgap's methods, recomputed. `python -m benchmarks
study --report docs/development/studies` writes these pages from the stored results of the last
runs. The printed numbers are in `benchmarks/studies/published`, with their citations. No setting
was chosen to meet a printed number. A number that is not met is a finding.

A number *agrees* if it differs from the printed one by at most $q$ standard errors of the
difference (the Monte-Carlo errors of both, where the paper prints one) plus one unit of the last
printed digit. $q$ is set so that all numbers of a study agree with probability 0.99 if nothing
differs. For the mean of a few values it is the quantile of Student's distribution; older results do
not have the number of values, so that their errors are taken as exact. A number that agrees where
$q$ Monte-Carlo errors of ours exceed the printed number is *too uncertain to tell* (marked with ?).
A statement on the difference of two methods is decided at 95 % by Student's distribution over data
sets, and is else *undecided*. `python -m benchmarks study --list` shows all studies with the date
of their last run.
"""

HOLDS = {True: "yes", False: "no", None: "undecided"}


def write_report(
    studies: Sequence[Study],
    results: Mapping[str, StoredResult],
    not_run: Mapping[str, str],
    folder: Path,
) -> None:
    """Write one page a study that has a result, their figures, and the overview `index.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (*folder.glob("*.md"), *folder.glob("*.png")):
        path.unlink()
    for study in studies:
        stored = results.get(study.name)
        if stored is None:
            continue
        page = folder / f"{study.name}.md"
        page.write_text(study_page(study, stored), encoding="utf-8")
        if stored.figure is not None:
            shutil.copyfile(stored.figure, folder / f"{study.name}.png")
    text = overview(studies, results, not_run)
    (folder / "index.md").write_text(text, encoding="utf-8")


def overview(
    studies: Sequence[Study], results: Mapping[str, StoredResult], not_run: Mapping[str, str]
) -> str:
    """Return the page with a row for every study and for every printed table."""
    lines = [INTRODUCTION, "## Studies", "", "| study | what | scale, date | result |"]
    lines.append("|---|---|---|---|")
    for study in studies:
        stored = results.get(study.name)
        if stored is None:
            lines.append(f"| `{study.name}` | {study.title} | | not run |")
            continue
        lines.append(
            f"| [{study.name}]({study.name}.md) | {study.title} | {stored.scale}, {stored.date} | "
            f"{stored.result.summary} |"
        )
    lines += ["", "## Printed tables", "", "| printed table | study or reason |", "|---|---|"]
    lines += [
        f"| `{table}` | {table_state(table, studies, results, not_run)} |"
        for table in table_names()
    ]
    pages = [study.name for study in studies if study.name in results]
    lines += ["", "```{toctree}", ":hidden:", "", *pages, "```"]
    return "\n".join(lines) + "\n"


def table_state(
    table: str,
    studies: Sequence[Study],
    results: Mapping[str, StoredResult],
    not_run: Mapping[str, str],
) -> str:
    """Return which study recomputes a printed table with what outcome, or why none does."""
    names = [study.name for study in studies if table in study.tables]
    if not names:
        return f"not run: {not_run[table]}"
    return "; ".join(
        f"[{name}]({name}.md): {results[name].result.outcome}"
        if name in results
        else f"`{name}`: not run, without a stored result (`python -m benchmarks study {name}`)"
        for name in names
    )


def study_page(study: Study, stored: StoredResult) -> str:
    """Return the page of one study."""
    result = stored.result
    lines = [f"# {study.name}", "", f"{study.title}.", "", f"Printed in: {study.source}.", ""]
    lines += [f"Result: {result.summary}", ""]
    lines += [f"- {reason}" for reason in result.explanations]
    if result.explanations:
        lines.append("")
    if stored.figure is not None:
        lines += [f"![{study.title}]({study.name}.png)", ""]
    if result.claims:
        lines += ["| statement | holds | evidence |", "|---|---|---|"]
        lines += [
            f"| {claim.text} | {HOLDS[claim.holds]} | {claim.evidence} |" for claim in result.claims
        ]
        lines.append("")
    lines += rows_tables(result.rows, quantile=result.quantile)
    lines += [f"- {note}" for note in result.notes]
    if result.notes:
        lines.append("")
    lines += [
        f"Computed on {stored.date} by `python -m benchmarks study {study.name} --scale "
        f"{stored.scale} --seed {stored.seed}` in {stored.seconds:,.0f} s of CPU time on "
        f"{stored.machine} ({stored.versions}; commit {stored.commit}).",
        "",
    ]
    return "\n".join(lines)


def rows_tables(rows: Sequence[Row], *, quantile: float) -> list[str]:
    """Return one Markdown table for every quantity and reading: settings down, methods across."""
    lines: list[str] = []
    for quantity, reading in dict.fromkeys((row.quantity, row.reading) for row in rows):
        part = [row for row in rows if (row.quantity, row.reading) == (quantity, reading)]
        methods = list(dict.fromkeys(row.method for row in part))
        cells = {(row.setting, row.method): cell(row, quantile=quantile) for row in part}
        title = f"{quantity}" + (f" ({reading})" if reading else "")
        lines += [
            f"{title}: ours ± Monte-Carlo error [printed]; ≠ marks numbers that do not agree, ? "
            "numbers that are too uncertain to tell.",
            "",
            f"| | {' | '.join(methods)} |",
            "|---" * (1 + len(methods)) + "|",
        ]
        for setting in dict.fromkeys(row.setting for row in part):
            numbers = [cells.get((setting, method), "") for method in methods]
            lines.append(f"| {setting} | {' | '.join(numbers)} |")
        lines.append("")
    return lines


def cell(row: Row, *, quantile: float) -> str:
    """Return a number of ours with its error and the printed one."""
    text = f"{row.value:.3g}"
    if row.error:
        text += f" ± {row.error:.1g}"
    if row.printed is not None:
        text += f" [{row.printed:g}]"
        if not row.agrees(quantile):
            text += " ≠"
        elif row.is_too_uncertain(quantile):
            text += " ?"
    return text
