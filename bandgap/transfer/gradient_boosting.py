"""Gradient boosted trees on the descriptor alone, without transfer, with cross-conformal intervals.

Friedman (2002), "Stochastic gradient boosting", Comput. Stat. Data Anal. 38, 367-378, by
scikit-learn: every small tree fits the residuals of the trees before it, on a random share of the
rows and, at every node, of the features. One sum of trees is fitted without each fold
(`cross_conformal`).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.config import AtLeastTwo, Count, Settings, ShareAboveZero
from bandgap.posterior import ConformalPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.cross_conformal import FOLDS
from bandgap.transfer.shared.method import Fitting, Method, TargetData
from bandgap.transfer.shared.trees import TreeSum, fit_trees


@dataclass(frozen=True)
class GradientBoostingConfig(Settings):
    """Folds; trees, learning rate and depth; shares of rows and features; fewest rows of a leaf.

    `learning_rate` is the weight of each tree, `row_share` the share of the rows that a tree is
    grown on, `feature_share` the share of the features at a node.
    """

    folds: AtLeastTwo = FOLDS
    trees: Count = 400
    learning_rate: ShareAboveZero = 0.05
    depth: Count = 3
    row_share: ShareAboveZero = 0.5
    feature_share: ShareAboveZero = 0.05
    leaf_rows: Count = 3


def fit(
    source: SourceModel, data: TargetData, config: GradientBoostingConfig, fitting: Fitting
) -> ConformalPosterior:
    """Boost trees without each fold on rows (features (n, p), gaps in eV), on the CPU."""
    # The histogram version took four times as long for the same error (1,000 organic crystals).
    from sklearn.ensemble import GradientBoostingRegressor

    def grow(x: NDArray[np.float32], y: NDArray[np.float64], fold_seed: int) -> TreeSum:
        boosted = GradientBoostingRegressor(
            n_estimators=config.trees,
            learning_rate=config.learning_rate,
            max_depth=config.depth,
            subsample=config.row_share,
            max_features=config.feature_share,
            min_samples_leaf=config.leaf_rows,
            random_state=fold_seed,
        ).fit(x, y)
        return TreeSum(
            boosted.estimators_[:, 0], config.learning_rate, float(boosted.init_.constant_.item())
        )

    phase = "boosting trees without each fold"
    return fit_trees(
        data,
        grow,
        fitting,
        folds=config.folds,
        phase=phase,
    )


METHOD: Final = Method(
    name="gradient_boosting",
    family="without transfer",
    standing="alternative",
    title="Gradient boosting, no transfer",
    summary=(
        "Adds many small regression trees on the descriptor, without the source model. "
        "Conformal intervals."
    ),
    references=(
        'J. H. Friedman, "Stochastic gradient boosting", Comput. Stat. Data Anal. 38, 367-378, '
        "2002.",
    ),
    duration="seconds; about 8 for 1,000 crystals",
    cost=Cost(5, 7),
    config=GradientBoostingConfig,
    fit=fit,
    levels=True,
)
