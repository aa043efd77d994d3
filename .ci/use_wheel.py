"""Check an installed wheel with its own demo data: files, a transfer run and a prediction."""

import importlib
import runpy
from pathlib import Path

import bandgap

folder = Path(bandgap.__file__).resolve().parent
assert "checkout" not in folder.parts, folder
assets = "_app/components/structures/assets"
for name in (
    "_app/__init__.py",
    "_app/main.py",
    "_app/server.py",
    f"{assets}/3Dmol-2.5.5.js",
    f"{assets}/3Dmol-LICENSE.txt",
    "_data/manifest.json",
):
    assert (folder / name).is_file(), name
import_app_package = runpy.run_path(str(folder / "_app" / "server.py"))["import_app_package"]
import_app_package()
documents = importlib.import_module("app.components.guide.documents")
assert documents.documents_folder() == folder / "_docs", documents.documents_folder()
documents_in_wheel = {path.relative_to(folder / "_docs") for path in (folder / "_docs").rglob("*")}
listed = {Path(f"{name}.md") for name in documents.NAMES}
assert {path for path in documents_in_wheel if path.suffix} == listed, documents_in_wheel
for name in ("app", "benchmarks", "data", "docs", "tests"):
    assert not (folder.parent / name).exists(), name
run = bandgap.transfer_run(
    bandgap.demo_source_folder(),
    bandgap.load_demo("crystals"),
    bandgap.TransferRequest(method="last_layer_ridge", n=50, n_test=50),
    out="run",
)
new = bandgap.read_paths(bandgap.unlabelled_cifs())
predictions = bandgap.predict_run(run, new)
assert len(predictions) == 12, len(predictions)
# The template of the report is in the wheel.
assert bandgap.write_report(run, "report.html").is_file()
