"""All studies, and why printed tables have none."""

from benchmarks.studies import (
    bent_ridge,
    demo_transfer,
    elliptic_surrogates,
    fields,
    figure_2_1,
    figure_2_2,
    flow_posteriors,
    means,
    node_growth,
    rectified_messages,
    simulated_transfer,
    small_samples,
    synthetic_graphs,
    uci_networks,
    unbiased_solves,
)
from benchmarks.studies.study import Study

STUDIES: tuple[Study, ...] = (
    figure_2_1.STUDY,
    figure_2_2.STUDY,
    *simulated_transfer.STUDIES,
    *means.STUDIES,
    *fields.STUDIES,
    unbiased_solves.STUDY,
    bent_ridge.STUDY,
    small_samples.STUDY,
    *elliptic_surrogates.STUDIES,
    *demo_transfer.STUDIES,
    *rectified_messages.STUDIES,
    uci_networks.STUDY,
    flow_posteriors.STUDY,
    *synthetic_graphs.STUDIES,
    node_growth.STUDY,
)

NOT_RUN: dict[str, str] = {
    "nptl_table_7": "hyper-parameters that the paper chose, no results",
    "pnn_table_4_1": "sizes of data sets, no results",
    "pnn_table_5_2": "settings of the distances, no results; they are used in `pnn-5.3`",
    "pnn_table_5_4": "the six sets of real graphs are not at hand",
}
