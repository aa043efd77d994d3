"""Every public name has a heading in the documentation.

Commands, settings, environment variables, CSV columns, methods, descriptor presets and file formats
are read from the code, as are the rows of the tables of methods and of descriptor blocks. Headings
are read from the Markdown pages and from the pages that `docs/reference_pages.py` generates.
"""

import importlib.util
import itertools
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement

import bandgap
from bandgap.cli import app
from bandgap.descriptors import PRESETS, n_features
from bandgap.descriptors.config import BLOCKS
from bandgap.evaluation.learning_curve import COLUMNS as CURVE_COLUMNS
from bandgap.predictions.explanations import COLUMNS as EXPLANATION_COLUMNS
from bandgap.predictions.table import COLUMNS, DOMAIN_P, P_METAL
from bandgap.predictions.window import WINDOW_COLUMNS
from bandgap.structures.formats import BINARY_SUFFIXES, FORMATS, SUFFIXES
from bandgap.transfer import METHODS
from bandgap.transfer.shared.method import Fitting

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GENERATED_PAGES = ("commands.md", "settings.md")  # In docs/reference.
HEADING = re.compile(r"#{1,6} +(.+?)\s*")
VARIABLE = re.compile(r"\bBANDGAP_[A-Z]+(?:_[A-Z]+)*\b")
NEXT_COLUMNS = ("rank", "reduction_share", "depth_eV")  # Only in `NextStructures.columns`.
DETAIL_COLUMNS = ("nearest_known", "nearest_distance", "nearest_percentile")


def headings(text: str) -> list[str]:
    """Return the headings of a Markdown text, without lines of code blocks."""
    names = []
    fence = ""
    for line in text.splitlines():
        marker = line.strip()[:3]
        if marker in ("```", "~~~", ":::"):
            fence = "" if marker == fence else fence or marker
        elif not fence and (match := HEADING.fullmatch(line)):
            names.append(match[1].strip("`"))
    return names


def load_module(path: Path) -> ModuleType:
    """Import a file that is in no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # Dataclasses look up annotations there.
    spec.loader.exec_module(module)
    return module


@cache
def reference_pages() -> ModuleType:
    """Return the module that generates the pages of commands and settings."""
    return load_module(DOCS / "reference_pages.py")


@cache
def text_of(page: str) -> str:
    """Return the text of a page of `docs`, which may be generated."""
    folder, _, name = page.rpartition("/")
    if folder == "reference" and name in GENERATED_PAGES:
        return "\n".join(getattr(reference_pages(), name.removesuffix(".md"))())
    return (DOCS / page).read_text(encoding="utf-8")


def check_headings(what: str, names: Iterable[str], *pages: str) -> None:
    """Fail with names and pages unless every name is a heading of one of the pages."""
    known_headings = {heading for page in pages for heading in headings(text_of(page))}
    undocumented = [name for name in names if name not in known_headings]
    assert not undocumented, (
        f"{what} without a heading: {', '.join(undocumented)}. Add one that is exactly the name to "
        f"{' or '.join(f'docs/{page}' for page in pages)}."
    )


def test_headings_exclude_lines_of_code_blocks() -> None:
    text = (
        "# One\n\n```shell\n# a comment\n```\n\n## `two`\n\n#no heading\n"
        "~~~\n```\n# code\n~~~\n### three four  \n"
    )
    assert headings(text) == ["One", "two", "three four"]


def command_names() -> list[str]:
    """Return all commands with the names of their groups, such as "bandgap data fetch"."""
    names = []
    groups: list[tuple[str, Any]] = [("bandgap", typer.main.get_command(app))]
    while groups:
        prefix, group = groups.pop()
        for name, command in group.commands.items():
            full_name = f"{prefix} {name}"
            if hasattr(command, "commands"):
                groups.append((full_name, command))
            else:
                names.append(full_name)
    return names


def test_every_command_has_a_heading() -> None:
    names = command_names()
    assert "bandgap transfer" in names
    check_headings("commands", names, "reference/commands.md")


@pytest.mark.parametrize("name", ["TransferRequest", "PredictRequest", "SourceRequest"])
def test_every_setting_of_a_request_has_a_heading_and_its_help(name: str) -> None:
    request_type = getattr(bandgap, name)
    text = text_of("reference/settings.md")
    section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    headings_of_section = headings(section)
    assert [
        field.name for field in request_type.fields() if field.name not in headings_of_section
    ] == []
    assert [
        field.name for field in request_type.fields() if field.setting.help not in section
    ] == []


def source_files(*folders: str) -> list[Path]:
    """Return the Python and shell files of folders."""
    listed = [path for folder in folders for path in sorted((ROOT / folder).rglob("*"))]
    return [path for path in listed if path.suffix in (".py", ".sh", "") and path.is_file()]


def test_every_environment_variable_has_a_heading() -> None:
    files = [
        *source_files("bandgap", "app", "benchmarks", "tests", ".ci"),
        DOCS / "conf.py",
        *sorted((ROOT / "data").rglob("*.py")),
        ROOT / "Dockerfile",
    ]
    names = {
        name
        for path in files
        for name in VARIABLE.findall(path.read_text(encoding="utf-8", errors="ignore"))
    }
    assert {"BANDGAP_HOME", "BANDGAP_SERVICE_TOKEN", "BANDGAP_TEST_DATA"} <= names
    check_headings("environment variables", sorted(names), "reference/environment.md")


def test_documented_environment_variables_are_read_by_the_code() -> None:
    documented = {
        name for name in headings(text_of("reference/environment.md")) if VARIABLE.fullmatch(name)
    }
    files = [*source_files("bandgap", "app", "benchmarks", "tests", ".ci"), DOCS / "conf.py"]
    texts = "\n".join(
        path.read_text(encoding="utf-8", errors="ignore")
        for path in files
        if path != Path(__file__)
    )
    assert [name for name in sorted(documented) if name not in texts] == []


def test_every_csv_column_has_a_heading() -> None:
    columns = dict.fromkeys(
        (
            *COLUMNS,
            P_METAL,
            DOMAIN_P,
            *WINDOW_COLUMNS,
            *DETAIL_COLUMNS,
            *NEXT_COLUMNS,
            *CURVE_COLUMNS,
            *EXPLANATION_COLUMNS,
        )
    )
    check_headings("CSV columns", columns, "reference/csv-columns.md")


def test_every_column_of_the_comparison_and_of_the_verdicts_has_a_heading() -> None:
    from bandgap.evaluation import run_tables

    source = Path(run_tables.__file__).read_text(encoding="utf-8")
    comparison = source.partition("def figures_table")[2].partition("\ndef ")[0]
    verdicts = (ROOT / "app/components/shared/tables.py").read_text(encoding="utf-8")
    verdicts = verdicts.partition("def verdict_frame")[2].partition("\ndef ")[0]
    columns = re.findall(r'^ +"(\w+)": ', comparison + verdicts, flags=re.MULTILINE)
    assert {"rmse_eV", "memory_MB", "gap_eV", "periodic"} <= set(columns)
    check_headings("CSV columns", columns, "reference/csv-columns.md")


METHOD_PAGES = [
    *(
        f"explanation/methods/{path.name}"
        for path in sorted((DOCS / "explanation/methods").glob("*.md"))
        if path.name != "index.md"
    ),
    "research/methods.md",
]


def test_every_method_has_a_heading() -> None:
    check_headings("methods", METHODS, *METHOD_PAGES)
    check_headings("methods", METHODS, "reference/settings.md")


@pytest.mark.parametrize("name", METHODS)
def test_description_of_a_method_states_its_standing(name: str) -> None:
    for page in METHOD_PAGES:
        if name in headings(text_of(page)):
            section = text_of(page).partition(f"\n## {name}\n")[2].partition("\n## ")[0]
            assert f"Standing: {METHODS[name].standing}." in section
            assert "**Model.**" in section and "**When to use it.**" in section


NEEDS = {
    "": "",
    "fisher": "Fisher information",
    "variational": "variational posterior",
    "snapshots": "snapshots",
}


@pytest.mark.parametrize("name", METHODS)
def test_table_of_methods_has_a_row_with_the_properties_of_the_method(name: str) -> None:
    method = METHODS[name]
    is_research = method.standing == "research"
    page = "research/methods.md" if is_research else "explanation/methods/index.md"
    new_elements = ("yes" if method.new_elements else "no") if method.transfers else ""
    levels = "as features" if method.levels else "as baseline"
    expected = [method.standing, new_elements, levels, NEEDS[method.needs]]
    rows = [line for line in text_of(page).splitlines() if re.match(rf"\|.*`{name}`.*\|", line)]
    cells = [[cell.strip() for cell in row.split("|")[3:-1]] for row in rows]
    assert cells == [expected], (
        f"docs/{page}: the table has {cells or 'no row'} for {name}. The code says {expected} "
        "(standing, new elements, electron levels, needs). Correct the row, or add one."
    )


@pytest.mark.parametrize("name", PRESETS)
def test_every_descriptor_preset_has_a_heading_and_its_numbers(name: str) -> None:
    config = PRESETS[name]
    check_headings("presets", [name], "explanation/descriptors.md")
    row = next(
        line
        for line in text_of("explanation/descriptors.md").splitlines()
        if line.startswith(f"| `{name}` |")
    )
    assert f"| {len(config.elements)}" in row
    assert f"| {n_features(config):,} |" in row


@pytest.mark.parametrize("setting", list(BLOCKS))
def test_every_block_of_the_descriptor_has_a_row(setting: str) -> None:
    page = "explanation/descriptors.md"
    assert re.search(rf"^\| [^|]+ \| `{setting}` \|", text_of(page), re.MULTILINE), (
        f"docs/{page}: the table of blocks has no row for the setting {setting}. "
        f"Add one: | name | `{setting}` | content | reference |."
    )


def test_every_file_format_has_a_heading_and_its_suffixes() -> None:
    text = text_of("reference/file-formats.md")
    check_headings(
        "file formats", [form.name for form in FORMATS.values()], "reference/file-formats.md"
    )
    suffixes = [*BINARY_SUFFIXES, *itertools.chain(*SUFFIXES.values())]
    assert [suffix for suffix in suffixes if f"`.{suffix}`" not in text] == []


def test_every_public_name_is_in_the_python_reference() -> None:
    text = text_of("reference/python.md")
    undocumented = [
        name
        for name in bandgap.__all__
        if not re.search(rf"^\.\. auto\w+:: {name}$", text, re.MULTILINE)
    ]
    assert undocumented == []


def test_pages_link_to_files_that_exist() -> None:
    broken = []
    for page in sorted(DOCS.rglob("*.md")):
        if "_build" in page.parts:
            continue
        for target in re.findall(
            r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")
        ):
            is_generated = target.rpartition("/")[2] in GENERATED_PAGES
            if "://" not in target and not is_generated and not (page.parent / target).is_file():
                broken.append(f"{page.relative_to(DOCS)}: {target}")
    assert broken == []


def test_guides_of_development_name_files_that_exist() -> None:
    pattern = re.compile(r"`((?:app|bandgap|docs|tests)/[\w./-]+\.(?:py|md))`")
    guides = [ROOT / "CONTRIBUTING.md", *sorted((DOCS / "development").glob("*.md"))]
    absent = []
    for guide in guides:
        for name in pattern.findall(guide.read_text(encoding="utf-8")):
            is_placeholder = re.search(r"[A-Z]{3}|notes|shifted_source", name)
            is_generated = name.rpartition("/")[2] in GENERATED_PAGES
            if not is_placeholder and not is_generated and not (ROOT / name).is_file():
                absent.append(f"{guide.name}: {name}")
    assert absent == []


def test_pages_name_no_absolute_path_of_a_machine() -> None:
    pattern = re.compile(r"(?<![\w.~:/])/(?:home|work|Users|root|tmp)/")
    names = [
        *DOCS.rglob("*.md"),
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "README.md",
    ]
    assert [
        str(path)
        for path in names
        if path.is_file() and pattern.search(path.read_text(encoding="utf-8"))
    ] == []


def test_generated_pages_are_not_in_the_repository() -> None:
    """Generated pages would be out of date in the repository."""
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8")
    assert all(f"docs/reference/{name}" in ignored for name in GENERATED_PAGES)


def test_method_of_the_guide_fits_and_predicts(tmp_path: Path) -> None:
    """The page on adding a method shows the file of a method."""
    import numpy as np

    from bandgap.sources.no_source import no_source
    from bandgap.transfer import TargetData

    (code,) = re.findall(
        r"^```python\n(.*?)^```",
        text_of("development/adding-a-method.md"),
        re.MULTILINE | re.DOTALL,
    )
    path = tmp_path / "shifted_source.py"
    path.write_text(code, encoding="utf-8")
    method = load_module(path).METHOD
    rng = np.random.default_rng(0)
    descriptor = PRESETS["chgnet"]  # Has the fewest features.
    features = rng.normal(size=(20, n_features(descriptor))).astype(np.float32)
    gaps = 3.0 + rng.normal(size=20)
    source = no_source(descriptor, features, gaps)
    updates: list[object] = []
    posterior = method.fit(
        source,
        TargetData(features, gaps),
        method.configure({}),
        Fitting(0, progress=updates.append),
    )
    means = posterior.predictive_draws(features).means_eV
    assert np.isfinite(means).all()
    assert len(updates) >= 4


@pytest.mark.slow
def test_python_of_the_reference_runs(tmp_path: Path) -> None:
    """The example of the page on run folders reads the run of the example of the page Python."""
    pages = ("reference/python.md", "reference/run-folder.md")
    blocks = [
        re.findall(r"^```python\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)
        for page in pages
    ]
    assert [len(code) for code in blocks] == [1, 1]
    script = "".join(block for code in blocks for block in code) + "print(request.method)\n"
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip().endswith("last_layer_ridge")


def pinned_versions() -> dict[str, str]:
    """Return the versions of `constraints.txt` by normalised name of the package."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def test_pinned_versions_of_the_documentation_packages_are_accepted() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [Requirement(text) for text in project["optional-dependencies"]["docs"]]
    assert {requirement.name for requirement in requirements} >= {
        "sphinx",
        "myst-nb",
        "pydata-sphinx-theme",
    }
    versions = pinned_versions()
    refused = [r.name for r in requirements if not r.specifier.contains(versions.get(r.name, "0"))]
    assert refused == []


def test_citation_files_have_the_version_and_the_papers() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {bandgap.__version__}\n" in text
    preferred, _, references = text.partition("\npreferred-citation:\n")[2].partition(
        "\nreferences:\n"
    )
    assert all(
        word in preferred
        for word in ("Abba", "Williams", "Reich", "Annals of Applied Statistics", "3241")
    )
    assert all(name in references for name in ("Fong", "Ott", "Deng", "Filippone", "Himanen"))
    assert json.loads((ROOT / "codemeta.json").read_text())["version"] == bandgap.__version__


def test_works_that_the_paper_cites_are_those_of_its_bibliography() -> None:
    text = (DOCS / "paper/paper.md").read_text(encoding="utf-8")
    works = re.findall(r"^@\w+\{(\w+),", (DOCS / "paper/paper.bib").read_text(), re.MULTILINE)
    assert sorted(set(re.findall(r"(?<=[\[ ])@(\w+)", text))) == sorted(works)


def test_addresses_of_the_project_are_in_pyproject_alone() -> None:
    files = [*ROOT.glob("*.*"), *DOCS.rglob("*.md"), *(ROOT / ".github").rglob("*.*")]
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.is_file()}
    names = {path.name for path, text in texts.items() if re.search(r"//OWNER\.|com/OWNER", text)}
    assert names == {"pyproject.toml"}


def test_pre_commit_has_the_pinned_version_of_ruff() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert f"rev: v{pinned_versions()['ruff']}\n" in text


def test_tasks_of_the_guides_are_in_the_makefile() -> None:
    tasks = set(
        re.findall(
            r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    guides = [ROOT / "CONTRIBUTING.md", *sorted((DOCS / "development").glob("*.md"))]
    guides += sorted((ROOT / ".github").rglob("*.*"))
    names: set[str] = set()
    for path in guides:
        for words in re.findall(r"(?:`|run: )make ([a-z -]+)", path.read_text(encoding="utf-8")):
            names |= set(words.split())
    assert {"test", "lint", "docs"} <= names
    assert names <= tasks
