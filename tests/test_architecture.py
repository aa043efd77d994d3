"""The structure of the package: layers, circular imports and forbidden imports."""

import ast
import graphlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import bandgap

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bandgap"
APP = ROOT / "app"
BENCHMARKS = ROOT / "benchmarks"
MAKING = ROOT / "data" / "making"

# A module imports only from its own line and from lines above.
LAYERS = (
    ("foundation",),
    ("structures", "networks", "priors"),
    ("descriptors", "storage", "predictions", "inference", "plots", "calculations"),
    ("datasets", "proposals"),
    ("sources", "evaluation"),
    ("posterior",),
    ("transfer",),
    ("research",),
    ("runs",),
    ("jobs",),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

# The app reads the store and draws; workers compute.
HEAVY = ("torch", "dscribe", "ase", "sklearn")


def python_files(folder: Path) -> list[Path]:
    """Return the Python files under `folder`, sorted."""
    return sorted(p for p in folder.rglob("*.py") if "__pycache__" not in p.parts)


def module_name(path: Path) -> str:
    """Return the dotted name of a file of the repository."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(source: str, *, package: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of each import in a module of `package`, also in functions."""
    parents = package.split(".")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module or "")))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


@cache
def imports_of(path: Path) -> list[tuple[int, str]]:
    """Return line and dotted name of each import in a file."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return list(imported_modules(path.read_text(encoding="utf-8"), package=package))


def layer_of(module: str) -> str:
    """Return the name in LAYERS of a module, such as priors for bandgap.priors.gaussian."""
    return module.split(".")[1]


def wrong_imports(module: str, imports: list[tuple[int, str]]) -> list[str]:
    """Return a message for each import of a module from a layer below its own."""
    rank = RANK[layer_of(module)]
    return [
        f"{module}, line {line}: imports {name} from a lower layer"
        for line, name in imports
        if name.startswith("bandgap.") and RANK.get(layer_of(name), -1) > rank
    ]


def package_files() -> list[Path]:
    """Return the files that have a layer: all but `bandgap/__init__.py` and `__main__.py`."""
    return [
        p
        for p in python_files(PACKAGE)
        if p != PACKAGE / "__init__.py" and p != PACKAGE / "__main__.py"
    ]


def test_each_module_of_the_package_has_a_layer() -> None:
    unknown = sorted({layer_of(module_name(p)) for p in package_files()} - set(RANK))
    assert not unknown, f"add to LAYERS and to the page Architecture: {unknown}"


def test_modules_import_only_from_their_layer_and_those_above() -> None:
    wrong = [
        text
        for path in package_files()
        for text in wrong_imports(module_name(path), imports_of(path))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "from bandgap.runs import transfer_run",
        "from bandgap import runs",
        "import bandgap.runs as runs",
        "def late():\n    from bandgap.runs import transfer_run",
        "from ..runs import transfer_run",
        "from .. import runs",
    ],
)
def test_import_from_a_lower_layer_is_reported_however_it_is_written(line: str) -> None:
    imports = list(imported_modules(line, package="bandgap.priors"))
    assert len(wrong_imports("bandgap.priors.gaussian", imports)) == 1
    assert wrong_imports("bandgap.jobs.tasks", imports) == []


def modules_loaded_by(path: Path) -> set[str]:
    """Return the modules of the package that a file imports, with their parent packages."""
    this_module = module_name(path)
    modules = set()
    for _, name in imports_of(path):
        parts = name.split(".")
        for k in range(2, len(parts) + 1):
            module = ".".join(parts[:k])
            if not this_module.startswith(f"{module}.") and this_module != module:
                modules.add(module)
    return modules & MODULES


MODULE_FILES = [*package_files(), *python_files(APP)]
MODULES = {module_name(p) for p in MODULE_FILES}


def check_for_cycles(imported: Mapping[str, set[str]]) -> None:
    """Raise CycleError for circular imports; `imported` has the imports of each module."""
    graphlib.TopologicalSorter(imported).prepare()


def test_modules_have_no_circular_imports() -> None:
    check_for_cycles({module_name(path): modules_loaded_by(path) for path in MODULE_FILES})


def test_circular_import_is_reported() -> None:
    with pytest.raises(graphlib.CycleError):
        check_for_cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}})


def test_docstrings_of_packages_say_what_does_not_belong_in_them() -> None:
    modules = {
        name: ast.parse((PACKAGE / name / "__init__.py").read_text(encoding="utf-8"))
        for name in RANK
    }
    incomplete = [
        name
        for name, module in modules.items()
        if "\nNot here: " not in (ast.get_docstring(module) or "")
    ]
    assert incomplete == []


def test_nothing_outside_the_research_package_imports_it() -> None:
    imports = [
        f"{path.relative_to(ROOT)}:{line} {module}"
        for path in [*python_files(PACKAGE), *python_files(APP)]
        if PACKAGE / "research" not in path.parents
        for line, module in imports_of(path)
        if f"{module}.".startswith("bandgap.research.")
    ]
    assert imports == []


def test_package_never_imports_streamlit_or_the_app() -> None:
    imports = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files(PACKAGE)
        for line, module in imports_of(path)
        if module.split(".")[0] in ("streamlit", "app")
    ]
    assert not imports


@pytest.mark.parametrize("folder", [PACKAGE, APP], ids=lambda folder: folder.name)
def test_package_and_app_never_import_what_is_not_in_the_wheel(folder: Path) -> None:
    imports = [
        f"{path.relative_to(ROOT)}:{line} {module}"
        for path in python_files(folder)
        for line, module in imports_of(path)
        if module.split(".")[0] in ("benchmarks", "data", "tests")
    ]
    assert not imports


def test_patterns_of_the_wheel_match_only_at_the_top_level() -> None:
    """Without a leading slash a pattern matches at any depth: `app` would match tests/app."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    patterns = [*wheel["include"], *wheel["exclude"]]
    assert [pattern for pattern in patterns if not pattern.startswith("/")] == []


def test_app_imports_no_heavy_package_by_name() -> None:
    imports = [
        f"{path.relative_to(ROOT)}:{line} {module}"
        for path in python_files(APP)
        for line, module in imports_of(path)
        if module.split(".")[0] in HEAVY
    ]
    assert not imports


def test_app_loads_no_heavy_package_through_what_it_imports() -> None:
    """Import all modules of the package that the app imports, in a new process."""
    modules = sorted(
        {m for path in python_files(APP) for _, m in imports_of(path) if m.startswith("bandgap")}
    )
    script = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except ModuleNotFoundError:\n"
        "        module, _, attribute = name.rpartition('.')\n"
        "        getattr(importlib.import_module(module), attribute)\n"
        f"print(*sorted(set({HEAVY!r}) & set(sys.modules)))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, *modules],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = (*HEAVY, "numpy", "pandas")
    script = f"import sys, bandgap; print(*sorted(set({heavy!r}) & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert run.stdout.split() == []


# Modules that the prediction of one CIF by a network does not need, with all below them.
_UNUSED_FOR_ONE_CIF = (
    "bandgap.cli.compare",
    "bandgap.cli.training",
    "bandgap.descriptors.soap",
    "bandgap.descriptors.graphs",
    "bandgap.descriptors.potentials",
    "bandgap.descriptors.tight_binding",
    "bandgap.evaluation",
    "bandgap.posterior.feature_gp",
    "bandgap.posterior.mixture",
    "bandgap.predictions.extxyz",
    "bandgap.predictions.growing",
    "bandgap.predictions.parquet",
    "bandgap.runs.chunks",
    "bandgap.structures.archives",
    "bandgap.structures.formats.ase_db",
    "bandgap.structures.formats.optimade",
    "bandgap.structures.formats.parquet",
    "bandgap.structures.formats.xyz",
    "bandgap.structures.near_copies",
    "bandgap.structures.same_crystals",
    "bandgap.structures.spool",
    "bandgap.transfer",
    "distributed",
    "pyarrow",
)
# Modules of the package, so that the path of the common case stays short (86 on 2026-11-27).
_MOST_MODULES_FOR_ONE_CIF = 87


def test_prediction_of_one_cif_imports_only_what_it_uses(tmp_path: Path) -> None:
    """Read, describe and write a CIF by the functions of the command, in a new process."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "import bandgap.cli.prediction, bandgap.runs.prediction\n"
        "from bandgap.cli import app\n"
        "from bandgap.cli.inputs import descriptor_cache, read_or_spool\n"
        "from bandgap.descriptors import DescriptorConfig, Term, featurize\n"
        "from bandgap.foundation.progress import no_progress\n"
        "import typer\n"
        "typer.main.get_command(app).commands['predict']\n"
        "records = read_or_spool([Path(sys.argv[1])], n_in_memory=1, is_ahead=False,\n"
        "    progress=no_progress)\n"
        "assert records[0].status == 'ready'\n"
        "config = DescriptorConfig(species=('H', 'C', 'N', 'S'),\n"
        "    k1=Term('atomic_number', 0, 20, n=10, sigma=1))\n"
        "assert featurize(records, config, cache=descriptor_cache()).n_computed == 1\n"
        "import bandgap.posterior.network\n"
        "print(*sys.modules)\n"
    )
    cif = ROOT / "data" / "new_crystals" / "01_C9H9NS_P-1.cif"
    run = subprocess.run(
        [sys.executable, "-c", script, str(cif)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "BANDGAP_HOME": str(tmp_path)},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    modules = run.stdout.split()
    unused = [
        module
        for module in modules
        if any(f"{module}.".startswith(f"{name}.") for name in _UNUSED_FOR_ONE_CIF)
    ]
    assert unused == []
    package_modules = [module for module in modules if module.partition(".")[0] == "bandgap"]
    assert len(package_modules) <= _MOST_MODULES_FOR_ONE_CIF


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is run when a module is imported."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from outside_functions(child)


def test_modules_import_what_only_posix_has_inside_functions() -> None:
    posix = {"fcntl", "grp", "pwd", "resource", "termios"}
    imports = [
        f"{path}, line {node.lineno}"
        for folder in (PACKAGE, APP)
        for path in python_files(folder)
        for node in outside_functions(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and posix & {getattr(node, "module", None), *(alias.name for alias in node.names)}
    ]
    assert imports == []


def test_public_names_all_exist() -> None:
    assert [name for name in bandgap.__all__ if not hasattr(bandgap, name)] == []


def test_no_file_is_called_utils() -> None:
    vague = {"utils", "util", "helpers", "misc", "common"}
    folders = (PACKAGE, APP, BENCHMARKS, MAKING)
    assert [str(p) for folder in folders for p in python_files(folder) if p.stem in vague] == []
