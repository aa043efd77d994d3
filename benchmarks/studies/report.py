"""The pages "Do the methods do what their papers say?", written from stored results."""

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.studies.published_tables import table_names
from benchmarks.studies.results import StoredResult
from benchmarks.studies.study import Result, Row, Study

INTRODUCTION = """\
# Do the methods do what their papers say?

The tables, figures and statements of the papers behind bandgap's methods, recomputed. `python -m
benchmarks study --report docs/development/studies` writes these pages in seconds from the stored
results of the last runs, with the rule below. The printed numbers are in
`benchmarks/studies/published`, with their citations. No setting was chosen to meet a printed
number. A number that is not met is a finding.

A table has one test of all its numbers together: it *differs* if the mean square of the
differences, in units of the errors of both sides, is above the 99 % quantile. It *agrees* if it
does not, and for each method differences of 10 % are excluded at 95 %, and those of 50 % would have
differed with probability 0.95. Else the study *cannot tell*. How far numbers are apart is the root
mean square of their relative differences, with those of chance. A statement agrees if each of its
numbers is proven at 95 %, and differs if one is refuted at 95 % for all of them. A study differs if
one of its tables or statements does, and agrees if all agree. Printed numbers of other data are
not compared. The module `benchmarks.studies.study` has the formulas.

"Splits" are independent values: splits, data sets, chains, or batches of them. Splits of the demo's
crystals and of other real sets are drawn from one pool, so that what is proven is proven for that
pool.

A study names a fault that its stored values would show: a test makes it, and demands that a
verdict turns from "agrees" to "differs", or the reverse. Faults were chosen with the stored values
at hand, that of `nptl-6` among all pairs of columns. They show that a verdict can turn, not how
small a fault would be noticed. Some statements and readings were set after values had been seen:
those of `pnn-3.2`, `pnn-3.3`, `pnn-5.3` and `table-2.1`, whose pages say how, the rivals of
`nptl-1`, root errors in place of their squares in `table-3.6`, the wording of `hamcmc-1`, and the
second rate of `figure-2.1`; for others this was not recorded.
"""
HEADER = (
    "| claim | paper | ours | n | splits | verdict | date | commit |",
    "|---|---|---|---|---|---|---|---|",
)


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
    """Return the page with a row for every claim, fault and printed table."""
    lines = [INTRODUCTION, "## Claims", "", *HEADER]
    for study in studies:
        if study.name in results:
            lines += claims(study, results[study.name])
        else:
            lines.append(f"| `{study.name}` | {study.source} | not run | | | | | |")
    lines += ["", "## Faults that would be noticed", ""]
    lines += ["| study | fault | what turns | verdict | with the fault |", "|---|---|---|---|---|"]
    lines += [line for study in studies if study.name in results for line in faults(study, results)]
    lines += ["", "## Printed tables", "", "| printed table | study or reason |", "|---|---|"]
    lines += [
        f"| `{table}` | {table_state(table, studies, results, not_run)} |"
        for table in table_names()
    ]
    pages = [study.name for study in studies if study.name in results]
    lines += ["", "```{toctree}", ":hidden:", "", *pages, "```"]
    return "\n".join(lines) + "\n"


def claims(study: Study, stored: StoredResult) -> list[str]:
    """Return a line for every table and statement of a study."""
    result = stored.result
    most = max(map(len, result.values.values()))
    lines: list[tuple[str, str, list[str], list[int], str]] = []
    for table, one in result.tables.items():
        rows = [row for row in result.rows if row.table == table]
        ours = f"{one.n_rows} numbers, {100 * one.apart:.3g} % apart"
        sizes = [row.setting for row in rows]
        splits = [row.n_values for row in rows]
        lines.append((f"numbers of `{table}`", ours, sizes, splits, one.verdict))
    lines += [
        (f"numbers of `{table}`", "", [], [], _verdict(result, table))
        for table in study.tables
        if table not in result.tables
    ]
    for statement in result.statements:
        sizes = [part.what for part in statement.parts]
        splits = [min(part.n_values, most) for part in statement.parts]  # a share has two more
        ours = statement.evidence
        if len(statement.parts) > 2:
            n_hold = sum(part.verdict(len(splits)) == "agrees" for part in statement.parts)
            ours = f"proven for {n_hold} of {len(splits)} numbers{statement.reading}"
        lines.append((statement.text, ours, sizes, splits, statement.verdict))
    return [
        f"| [{study.name}]({study.name}.md): {text} | {study.source} | {ours} | "
        f"{_range(_sizes(sizes))} | {_range(splits)} | {verdict} | {stored.date} | "
        f"{stored.commit} |"
        for text, ours, sizes, splits, verdict in lines
    ]


def _sizes(texts: Iterable[str]) -> list[int]:
    """Return the sizes n that settings such as "k = 0, n = 30" name."""
    return [int(number) for number in re.findall(r"\bn = (\d+)", " ".join(texts))]


def _range(numbers: Iterable[int]) -> str:
    """Return smallest and largest of the numbers above 0, nothing where there is none."""
    ordered = sorted({number for number in numbers if number})
    return " to ".join(f"{n:,}" for n in dict.fromkeys(ordered[:1] + ordered[-1:]))


def faults(study: Study, results: Mapping[str, StoredResult]) -> list[str]:
    """Return a line for every verdict of a study that its fault turns."""
    if study.fault is None:
        return [f"| {study.name} | none is named: nothing agrees | | | |"]
    return [
        f"| {study.name} | {study.fault.text} | {name} | {before} | {after} |"
        for name, before, after in study.fault.turned(results[study.name].result)
    ]


def table_state(
    table: str,
    studies: Sequence[Study],
    results: Mapping[str, StoredResult],
    not_run: Mapping[str, str],
) -> str:
    """Return which study recomputes a printed table with what verdict, or why none does."""
    names = [study.name for study in studies if table in study.tables]
    if not names:
        return f"not run: {not_run[table]}"
    return "; ".join(
        f"[{name}]({name}.md): {_verdict(results[name].result, table)}"
        if name in results
        else f"`{name}`: not run, without a stored result (`python -m benchmarks study {name}`)"
        for name in names
    )


def _verdict(result: Result, table: str) -> str:
    if table in result.tables:
        return result.tables[table].verdict
    return "not compared" if result.tables else "other data"


def study_page(study: Study, stored: StoredResult) -> str:
    """Return the page of one study."""
    result = stored.result
    lines = [f"# {study.name}", "", f"{study.title}.", "", f"Printed in: {study.source}.", ""]
    if study.left_out:
        lines += [f"Left out: {study.left_out}.", ""]
    lines += [f"Result: {result.summary}", ""]
    lines += [f"- {reason}" for reason in result.explanations]
    if result.explanations:
        lines.append("")
    if stored.figure is not None:
        lines += [f"![{study.title}]({study.name}.png)", ""]
    if result.statements:
        lines += ["| statement | verdict | evidence |", "|---|---|---|"]
        lines += [
            f"| {statement.text} | {statement.verdict} | {statement.evidence} |"
            for statement in result.statements
        ]
        lines.append("")
    if columns := result.columns:
        verdicts = [f"{name}: {one.verdict}" for name, one in columns.items()]
        lines += [f"By method: {'; '.join(verdicts)}.", ""]
    lines += rows_tables(result.rows)
    lines += [f"- {note}" for note in result.notes]
    if result.notes:
        lines.append("")
    lines += [
        f"Computed on {stored.date} by `python -m benchmarks study {study.name} --scale "
        f"{stored.scale} --seed {stored.seed}` in {result.seconds:,.0f} s of CPU time on "
        f"{stored.machine} ({stored.versions}; commit {stored.commit}).",
        "",
    ]
    return "\n".join(lines)


def rows_tables(rows: Sequence[Row]) -> list[str]:
    """Return one Markdown table for every quantity and reading: settings down, methods across."""
    lines: list[str] = []
    for quantity, reading in dict.fromkeys((row.quantity, row.reading) for row in rows):
        part = [row for row in rows if (row.quantity, row.reading) == (quantity, reading)]
        methods = list(dict.fromkeys(row.method for row in part))
        cells = {(row.setting, row.method): cell(row) for row in part}
        title = f"{quantity}" + (f" ({reading})" if reading else "")
        lines += [
            f"{title}: ours ± Monte-Carlo error [printed].",
            "",
            f"| | {' | '.join(methods)} |",
            "|---" * (1 + len(methods)) + "|",
        ]
        for setting in dict.fromkeys(row.setting for row in part):
            numbers = [cells.get((setting, method), "") for method in methods]
            lines.append(f"| {setting} | {' | '.join(numbers)} |")
        lines.append("")
    return lines


def cell(row: Row) -> str:
    """Return a number of ours with its error and the printed one."""
    text = f"{row.value:.3g}"
    if row.error:
        text += f" ± {row.error:.2g}"
    return text if row.printed is None else f"{text} [{row.printed:g}]"
