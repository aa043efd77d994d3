"""Where a transfer is centred: at the source's point estimate or at the mean of its variational posterior."""

from dataclasses import replace
from typing import Literal

from bandgap.foundation.errors import InputError
from bandgap.networks.variational import VariationalFit
from bandgap.sources.model import SourceModel

Centre = Literal["point", "variational"]


def variational_posterior(source: SourceModel) -> VariationalFit:
    """Return the source's variational posterior; raises InputError where it has none."""
    if source.variational is None:
        raise InputError(
            "the source has no variational posterior, which this method needs. Train it with `bandgap train-source "
            "--variational` (several sets: `bandgap train-sources --variational`), or add one to it with `bandgap "
            "source-extras --variational`; of several sets, to the one that the transfer starts from."
        )
    return source.variational


def centred(source: SourceModel, centre: Centre) -> SourceModel:
    """Return the source with the weights of this centre; raises InputError where it has no variational posterior."""
    return source if centre == "point" else replace(source, params=variational_posterior(source).mean)
