"""All studies, and why printed tables have none."""

from benchmarks.studies import (
    bent_ridge,
    bounded_means,
    demo_transfer,
    displaced_crystals,
    field_optimisers,
    field_samplers,
    figure_2_1,
    figure_2_2,
    large_transfer,
    simulated_networks,
    small_samples,
    sparse_means,
    unbiased_solves,
)
from benchmarks.studies.study import Study

STUDIES: tuple[Study, ...] = (
    figure_2_1.STUDY,
    figure_2_2.STUDY,
    simulated_networks.STUDY,
    large_transfer.STUDY,
    *sparse_means.STUDIES,
    *bounded_means.STUDIES,
    field_samplers.STUDY,
    field_optimisers.STUDY,
    unbiased_solves.STUDY,
    bent_ridge.STUDY,
    small_samples.STUDY,
    *demo_transfer.STUDIES,
    displaced_crystals.STUDY,
)

_FLOWS = "no study is written for the flows and edge graphs of this paper"
_UCI = "measured by `python -m benchmarks uci`, not yet a study"
NOT_RUN: dict[str, str] = {
    "hamcmc_sa_table1": "the surrogate of an elliptic problem is not written",
    "hamcmc_sa_table2": "the surrogate of an elliptic problem is not written",
    "nptl_table_7": "hyper-parameters that the paper chose, no results",
    **{f"pnn_table_{name}": _FLOWS for name in ("4_1", "4_2", "5_1", "5_2", "5_3", "5_4")},
    **{f"pnn_table_3_{i}": _UCI for i in range(1, 5)},
    **{f"pnn_table_A_{i}": _UCI for i in range(1, 7)},
}
