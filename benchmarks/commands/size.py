"""`python -m benchmarks size`: tokens of code of the product, by package."""

import csv
import io
import tokenize
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli.report import print_table

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "benchmarks" / "size.csv"  # the sizes of the last release
# Names, numbers, operators and strings; comments, line ends and indentation do not count.
COUNTED = {tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING}
# From Python 3.12 on, an f-string is several tokens.
COUNTED |= {getattr(tokenize, name) for name in ("FSTRING_START",) if hasattr(tokenize, name)}


def size(
    store: Annotated[
        bool, typer.Option("--store", help="Store the sizes as those of the last release.")
    ] = False,
) -> None:
    """Count names, numbers, operators and strings of the code; a docstring is one token.

    Packing lines and writing documentation do not change the numbers.
    """
    sizes = sizes_of(ROOT)
    if store:
        with STORED.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("package", "tokens"), *sizes.items()])
    with STORED.open(newline="", encoding="utf-8") as file:
        stored = {row["package"]: int(row["tokens"]) for row in csv.DictReader(file)}
    rows = [
        (name, f"{sizes.get(name, 0):,}", f"{stored.get(name, 0):,}")
        for name in dict.fromkeys([*sizes, *stored])
    ]
    print_table(("package", "tokens", "last release"), rows)


def sizes_of(root: Path) -> dict[str, int]:
    """Return the tokens of each package of the product, and of core, shelf, both, and tests."""
    packages: Counter[str] = Counter()
    for path in sorted([*root.glob("bandgap/**/*.py"), *root.glob("app/**/*.py")]):
        folder = path.relative_to(root).parent.parts
        packages["/".join(folder[:2]) if folder[0] == "bandgap" else "app"] += tokens_of(path)
    shelf = packages["bandgap/research"]
    both = packages.total()
    tests = sum(map(tokens_of, root.glob("tests/**/*.py")))
    totals = {"core": both - shelf, "core and shelf": both, "tests": tests}
    return dict(sorted(packages.items())) | totals


def tokens_of(path: Path) -> int:
    """Return the number of tokens of a Python file."""
    text = path.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type in COUNTED for token in tokens)
