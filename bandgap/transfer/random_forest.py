"""A random forest on the descriptor alone, without transfer, with cross-conformal intervals.

Breiman (2001), Machine Learning 45, 5-32, by scikit-learn: the mean of trees. Each is grown on a
bootstrap of the rows, and every node considers a random share of the features. One forest is fitted
without each fold (`cross_conformal`), so that the prediction is the mean over folds and trees.
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
class RandomForestConfig(Settings):
    """Folds, trees of each forest, share of the features at a node, fewest rows of a leaf."""

    folds: AtLeastTwo = FOLDS
    trees: Count = 50
    # 0.3 had an RMSE of 0.631 eV on 500 organic crystals, 0.1 of 0.645 eV.
    feature_share: ShareAboveZero = 0.3
    leaf_rows: Count = 1


def fit(
    source: SourceModel, data: TargetData, config: RandomForestConfig, fitting: Fitting
) -> ConformalPosterior:
    """Grow a forest without each fold on rows (features (n, p), gaps in eV), on the CPU."""
    from sklearn.ensemble import RandomForestRegressor

    def grow(x: NDArray[np.float32], y: NDArray[np.float64], fold_seed: int) -> TreeSum:
        forest = RandomForestRegressor(
            config.trees,
            max_features=config.feature_share,
            min_samples_leaf=config.leaf_rows,
            random_state=fold_seed,
        ).fit(x, y)
        return TreeSum(forest.estimators_, 1.0 / config.trees, 0.0)

    phase = "growing a forest without each fold"
    return fit_trees(
        data,
        grow,
        fitting,
        folds=config.folds,
        phase=phase,
    )


METHOD: Final = Method(
    name="random_forest",
    family="without transfer",
    standing="alternative",
    title="Random forest, no transfer",
    summary=(
        "Averages many deep regression trees on the descriptor, without the source model. "
        "Conformal intervals."
    ),
    references=('L. Breiman, "Random forests", Machine Learning 45, 5-32, 2001.',),
    duration="seconds; about 12 for 1,000 crystals",
    cost=Cost(1.8, 3.2),
    config=RandomForestConfig,
    fit=fit,
    levels=True,
)
