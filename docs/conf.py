"""Settings of the documentation; `sphinx-build -W docs docs/_build/html` builds it."""

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PLOTLY_RENDERER", "notebook_connected")  # For figures of tutorials.

import plotly.offline  # noqa: E402
import reference_pages  # noqa: E402

import bandgap  # noqa: E402

project = "bandgap"
author = "the bandgap developers"
copyright = "2026, the bandgap developers"
release = version = bandgap.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "paper", "**.ipynb_checkpoints"]
root_doc = "index"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = os.environ.get("BANDGAP_DOCS_EXECUTION", "force")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_excludepatterns = []
nb_merge_streams = True

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_numpy_docstring = True

html_theme = "pydata_sphinx_theme"
html_title = "bandgap"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False

reference_pages.write(HERE / "reference")

# Plotly's figures load plotly.js from the internet. These pages use a copy in _static.
PLOTLY_SCRIPT = re.compile(r'<script[^>]* src="https://cdn\.plot\.ly/[^"]*"[^>]*></script>')
OTHER_SCRIPTS = re.compile(
    r'<script type="module">import "https://cdn\.plot\.ly/[^"]*"</script>'
    r'|<script src="https://cdnjs\.[^"]*/mathjax/[^"]*"></script>'
)

# Plotly draws figures before the page has its final width.
FIT_FIGURES = '<script>addEventListener("load", () => dispatchEvent(new Event("resize")))</script>'


def use_local_plotly(app: Any, error: Exception | None) -> None:
    """Copy plotly.js into the built pages, and change pages with figures to load this copy."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    script = folder / "_static" / "plotly.min.js"
    script.write_text(plotly.offline.get_plotlyjs(), encoding="utf-8")
    for page in folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if "https://cdn.plot.ly/" not in text:
            continue
        address = os.path.relpath(script, page.parent)
        text = PLOTLY_SCRIPT.sub(f'<script src="{address}"></script>', OTHER_SCRIPTS.sub("", text))
        page.write_text(text.replace("</body>", f"{FIT_FIGURES}</body>"), encoding="utf-8")


PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Source"].removeprefix("https://github.com/")


def link_notebook(app: Any, page: str, source: list[str]) -> None:
    """Add links below the title of a tutorial that open it as a notebook (`make notebooks`)."""
    if "\nfile_format: mystnb\n" not in source[0]:
        return
    notebook = f"{page.rpartition('/')[2]}.ipynb"
    colab = f"https://colab.research.google.com/github/{REPOSITORY}/blob/notebooks/{notebook}"
    binder = f"https://mybinder.org/v2/gh/{REPOSITORY}/notebooks?filepath={notebook}"
    links = f"\\g<0>\nRun this page in [Colab]({colab}) or [Binder]({binder}).\n"
    source[0] = re.sub(r"\n# .*\n", links, source[0], count=1)


def setup(app: Any) -> None:
    """Register the build steps of this documentation with Sphinx."""
    app.connect("source-read", link_notebook)
    app.connect("build-finished", use_local_plotly)
