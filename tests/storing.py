"""A posterior as it comes back from the folder of a run."""

import json

from bandgap.posterior import Posterior, restored_posterior
from bandgap.storage.stored_fields import stored_fields


def read_again(posterior: Posterior) -> Posterior:
    """Return the posterior after its plain values went through JSON."""
    arrays, plain = stored_fields(posterior)
    return restored_posterior(arrays, json.loads(json.dumps(plain)), posterior.diagnostics)
