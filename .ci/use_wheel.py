"""Check an installed wheel with its own demo data: files, a transfer run and a prediction."""

from pathlib import Path

import bandgap

folder = Path(bandgap.__file__).resolve().parent
assert "checkout" not in folder.parts, folder
for name in ("_app/__init__.py", "_app/main.py", "_app/server.py", "_data/manifest.json"):
    assert (folder / name).is_file(), name
for name in ("app", "benchmarks", "data", "tests"):
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
