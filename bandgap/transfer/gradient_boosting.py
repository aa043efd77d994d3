"""Gradient boosted trees on the descriptor alone, no transfer, with cross-conformal intervals.

Friedman (2002), "Stochastic gradient boosting", Comput. Stat. Data Anal. 38, 367-378, as scikit-learn has it: every
small tree fits what the ones before it left of the gaps, on a random part of the rows and, at every node, of the
features. One sum of trees without each fold (`cross_conformal`). scikit-learn's histogram version took four times as
long for the same error (1,000 organic crystals, one thread: 3.1 s and 0.8 s a fold).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.posterior import ConformalPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.cross_conformal import FOLDS, TreeSum, check_folds, fit_trees
from bandgap.transfer.shared.method import Method, TargetData


@dataclass(frozen=True)
class GradientBoostingConfig:
    """Folds; trees, their weight and depth; shares of rows and features that are looked at; fewest rows of a leaf."""

    folds: int = FOLDS
    trees: int = 400
    learning_rate: float = 0.05
    depth: int = 3
    row_share: float = 0.5
    feature_share: float = 0.05
    leaf_rows: int = 3

    def __post_init__(self) -> None:
        check_folds(self.folds, method="gradient_boosting")
        whole = {"trees": self.trees, "depth": self.depth, "leaf_rows": self.leaf_rows}
        shares = {
            "learning_rate": self.learning_rate,
            "row_share": self.row_share,
            "feature_share": self.feature_share,
        }
        for name, value in (whole | shares).items():
            if not (value >= 1 if name in whole else 0 < value <= 1):
                accepted = "1 or more" if name in whole else "above 0 and up to 1"
                raise ConfigError(f"gradient_boosting: {name} = {value}. Accepted: {accepted}.")


def fit(
    source: SourceModel,
    data: TargetData,
    config: GradientBoostingConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> ConformalPosterior:
    """Boost trees without each fold in turn, on the CPU; rows are features (n, p) and gaps in eV."""
    from sklearn.ensemble import GradientBoostingRegressor

    def grow(x: NDArray[np.float32], y: NDArray[np.float64], own: int) -> TreeSum:
        boosted = GradientBoostingRegressor(
            n_estimators=config.trees,
            learning_rate=config.learning_rate,
            max_depth=config.depth,
            subsample=config.row_share,
            max_features=config.feature_share,
            min_samples_leaf=config.leaf_rows,
            random_state=own,
        ).fit(x, y)
        return TreeSum(
            boosted.estimators_[:, 0], config.learning_rate, float(boosted.init_.constant_.item())
        )

    phase = "boosting trees without each fold"
    return fit_trees(data, grow, folds=config.folds, seed=seed, phase=phase, progress=progress)


METHOD: Final = Method(
    name="gradient_boosting",
    family="without transfer",
    standing="alternative",
    title="Gradient boosting, no transfer",
    summary=(
        "Adds many small regression trees on the descriptor, without the source model. "
        "Conformal intervals."
    ),
    duration="seconds; about 8 for 1,000 crystals",
    cost=Cost(5, 7),
    config=GradientBoostingConfig,
    fit=fit,
    levels=True,
)
