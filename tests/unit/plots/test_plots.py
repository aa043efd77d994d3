"""Figures: what is drawn is the data, with units on the axes and one meaning for each colour."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gaussian_kde

from bandgap import plots
from bandgap.plots import posterior, style

RNG = np.random.default_rng(0)


def test_gap_histogram_leaves_out_unknown_gaps_and_names_the_unit() -> None:
    fig = plots.gap_histogram([1.0, np.nan, 2.5])
    left_edges, right = fig.data[0].customdata.T
    assert sum(fig.data[0].y) == 2 and (left_edges[0], right[-1]) == (1.0, 2.5)
    assert fig.data[0].y[0] == fig.data[0].y[-1] == 1
    assert fig.layout.xaxis.title.text == "band gap (eV)"
    assert fig.data[0].marker.color == plots.OBSERVED


def test_intervals_are_sorted_by_mean_and_leave_out_refused_rows() -> None:
    mean = np.array([3.0, np.nan, 1.0, 2.0])
    fig = plots.intervals(
        mean, mean - 0.5, mean + 1.0, ids=["a", "b", "c", "d"], unusual=[False, False, False, True]
    )
    usual, unusual = fig.data
    assert list(usual.text) == ["c", "a"] and usual.customdata.tolist() == [[0.5, 2.0], [2.5, 4.0]]
    assert list(usual.x) == [1, 3] and list(unusual.x) == [2]
    assert list(usual.error_y.array) == [1.0, 1.0] and list(usual.error_y.arrayminus) == [0.5, 0.5]
    assert usual.marker.symbol != unusual.marker.symbol
    assert usual.marker.color != unusual.marker.color


def test_up_to_thirty_bars_have_the_names_of_their_structures() -> None:
    mean = np.array([3.0, np.nan, 1.0, 2.0])
    axis = plots.intervals(mean, mean, mean, ids=["a", "b", "<c>", "d"], unusual=[False] * 4)
    assert list(axis.layout.xaxis.ticktext) == ["&lt;c&gt;", "d", "a"]
    assert list(axis.layout.xaxis.tickvals) == [1, 2, 3]


@pytest.mark.parametrize("n, step", [(31, 4), (100, 13)])
def test_ticks_of_ranked_structures_are_whole_numbers(n: int, step: int) -> None:
    mean = np.linspace(1, 3, n)
    axis = plots.intervals(
        mean, mean - 1, mean + 1, ids=[str(i) for i in range(n)], unusual=[False] * n
    ).layout.xaxis
    assert (axis.tick0, axis.dtick) == (1, step)


def test_parity_counts_what_lies_outside_its_interval() -> None:
    fig = plots.parity(
        [1.0, 2.0, 3.0], [1.1, 2.0, 2.0], [0.9, 1.5, 1.5], [1.3, 2.5, 2.5], ids=["a", "b", "c"]
    )
    _, inside, outside = fig.data
    assert inside.name == "in its interval (2)" and outside.name == "outside its interval (1)"
    assert list(outside.customdata) == ["c"]
    assert fig.layout.xaxis.range == fig.layout.yaxis.range
    assert fig.layout.yaxis.scaleanchor == "x"


def test_share_density_integrates_to_one_and_does_not_leak_over_the_ends() -> None:
    grid = np.linspace(0.0, 1.0, 241)
    density = posterior._share_density(RNG.uniform(size=20_000), grid)
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)
    # 5 standard errors of a density of 20,000 draws.
    assert density == pytest.approx(np.ones(241), abs=0.1)


def test_binned_density_is_the_kernel_density_of_the_draws_by_scotts_rule() -> None:
    draws = RNG.gamma(3.0, size=1_500)
    grid = np.linspace(-2.0, 16.0, 361)
    # Bins a seventh of the kernel's width err by less than a hundredth of the peak.
    exact = gaussian_kde(draws)(grid)
    assert style.density(draws, grid) == pytest.approx(exact, abs=0.01 * exact.max())


def test_error_bars_reach_from_the_lower_to_the_upper_end() -> None:
    bars = style.bars([1.0, 2.0], [0.5, 1.0], [1.25, 4.0])
    assert (
        list(bars["array"]) == [0.25, 2.0]
        and list(bars["arrayminus"]) == [0.5, 1.0]
        and "color" not in bars
    )
    assert style.bars([1.0], [0.5], [1.25], colour=style.MIND)["color"] == style.MIND


def test_learning_curve_shows_errors_in_ev_and_marks_the_epoch_that_is_kept():
    fig = plots.learning_curve([[1.0, 4.0], [0.25, 1.0], [0.04, 2.25]], sd_eV=0.5)
    learned, held_out, best = fig.data
    np.testing.assert_allclose(learned.y, [0.5, 0.25, 0.1])
    np.testing.assert_allclose(held_out.y, [1.0, 0.5, 0.75])
    assert (best.x[0], best.y[0], best.name) == (2, 0.5, "kept (epoch 2)")
    assert fig.layout.yaxis.title.text == "RMSE (eV)" and learned.line.dash != held_out.line.dash


def coverage_rows(share):
    levels = np.array([0.5, 0.9])
    return pd.DataFrame(
        {
            "level": levels,
            "coverage": share * levels,
            "chance_lower": levels - 0.1,
            "chance_upper": levels + 0.05,
        }
    )


def test_coverage_figure_draws_the_band_the_curve_and_the_chosen_level() -> None:
    fig = plots.coverage_figure(coverage_rows(0.8), level=0.9)
    band, diagonal, curve, point = fig.data
    assert list(band.y) == pytest.approx([0.4, 0.8, 0.95, 0.55])
    assert list(diagonal.x) == list(diagonal.y) == [0, 1]
    assert list(curve.y) == pytest.approx([0.4, 0.72]) and list(point.y) == pytest.approx([0.72])
    after = plots.coverage_figure(coverage_rows(0.8), level=0.5, after=coverage_rows(1.0))
    assert list(after.data[-1].y) == [0.5] and after.data[3].line.color == plots.GOOD
    assert after.data[2].line.dash == "dot"


def test_spread_figure_marks_groups_beyond_chance_by_colour_and_shape() -> None:
    table = pd.DataFrame(
        {
            "structures": 40,
            "sd_eV": [0.2, 0.4],
            "rmse_eV": [0.21, 0.9],
            "chance_lower_eV": [0.15, 0.3],
        }
    ).assign(chance_upper_eV=[0.25, 0.5])
    expected, within, beyond = plots.spread_figure(table).data
    assert list(expected.error_y.array) == pytest.approx([0.05, 0.1])
    assert (list(within.y), list(beyond.y)) == ([0.21], [0.9])
    assert (within.marker.symbol, within.marker.color) != (
        beyond.marker.symbol,
        beyond.marker.color,
    )


def test_difference_figure_separates_better_worse_and_what_cannot_be_shown() -> None:
    table = pd.DataFrame(
        {"run": ["a", "b", "c", "d"], "difference_eV": [-0.2, 0.2, 0.01, np.nan]}
    ).assign(lower_eV=[-0.3, 0.1, -0.1, np.nan], upper_eV=[-0.1, 0.3, 0.1, np.nan])
    fig = plots.difference_figure(table)
    assert [[row[0] for row in trace.customdata] for trace in fig.data] == [["a"], ["b"], ["c"]]
    assert [note.text for note in fig.layout.annotations] == ["c", "b", "a"]
    assert len({trace.marker.symbol for trace in fig.data}) == 3
    assert fig.layout.xaxis.title.text == "difference in RMSE (eV)"


def test_parity_shows_intervals_whole_up_to_a_quarter_of_the_range_beyond_the_points() -> None:
    points = np.array([0.0, 1.0, 4.0])
    fig = plots.parity(points, points, points - 0.5, points + 0.9, ids=["a", "b", "c"])
    low, high = fig.layout.yaxis.range
    assert low < -0.5 and high > 4.9
    wide = plots.parity(points, points, points - 90.0, points + 90.0, ids=["a", "b", "c"])
    low, high = wide.layout.yaxis.range
    assert (low, high) == pytest.approx((-1.36, 5.36))
    assert fig.layout.legend.y >= 1.0  # above the bars


def test_law_is_dotted_beyond_the_labels_of_the_run() -> None:
    law = pd.DataFrame({"n": [50, 100, 150, 200], "kind": "power law", "rmse_eV": 0.3})
    law["lower_eV"], law["upper_eV"] = 0.2, 0.4
    fits = law.head(2).assign(kind="fit")
    fig = plots.error_by_labels_figure(pd.concat([fits, fits.assign(kind="mean"), law]), n=100)
    lines = {trace.line.dash: list(trace.x) for trace in fig.data if trace.line.dash}
    assert lines == {"solid": [50, 100], "dot": [100, 150, 200]}
