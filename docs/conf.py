"""Settings of the documentation; `sphinx-build -W docs docs/_build/html` builds it."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PLOTLY_RENDERER", "notebook_connected")  # of the figures of tutorials

import reference_pages  # noqa: E402 - the folder is on the path now

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
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
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
