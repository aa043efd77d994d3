"""A posterior as it comes back from the folder of a run, and changed manifests of folders."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bandgap.posterior import Posterior, restored_posterior
from bandgap.storage.stored_fields import stored_fields


def read_again(posterior: Posterior) -> Posterior:
    """Return the posterior after its plain values went through JSON."""
    arrays, plain = stored_fields(posterior)
    return restored_posterior(arrays, json.loads(json.dumps(plain)), posterior.diagnostics)


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
