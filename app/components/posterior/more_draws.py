"""The button that adds as many draws to a run as its intervals need."""

import math
from functools import partial
from typing import Literal

import streamlit as st

from app import session
from app.components.posterior.chain_view import ENOUGH_DRAWS
from app.components.shared import stores, words
from app.components.shared.actions import carry_out
from app.components.shared.estimate_words import rounded
from app.components.shared.run_files import RunFiles
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.jobs.estimates import TransferTimes
from bandgap.jobs.more_draws import can_continue, extended_request
from bandgap.jobs.rows import RunRow
from bandgap.jobs.starting import start_transfer
from bandgap.runs.requests import TransferRequest

MARGIN = 1.25  # the effective number varies from run to run
MOST_DRAWS = 100_000


def more_draws(
    files: RunFiles, run: RunRow, *, kind: Literal["primary", "secondary"] = "secondary"
) -> None:
    """Draw the button for a run with too few effective draws, with the time that it takes."""
    draws = enough_draws(files, run)
    datasets = {dataset.id for dataset in stores.library().datasets(run.workspace)}
    if draws is None or run.dataset not in datasets or "refit" in files.manifest:
        return
    present = draws_of(run)
    more = draws - (present or 0)
    if is_extendable(run) and present is not None and more > 0:
        request = extended_request(
            run.request,
            files.manifest["config"]["sampler"],
            coordinates=coordinates_of(run),
            more=more,
        )
        continues = can_continue(stores.home(), run)
        label = f"{more:,} more draws of each chain{_time_text(request, more, continues)}"
        help_text = _CONTINUES if continues else _FROM_START
        extends = run.id
    else:
        request = with_draws(run.request, draws)
        label = f"Run again with {draws:,} draws of each chain{_time_text(request, 0, False)}"
        help_text = "Data, split, seed and other settings stay the same. The present run stays."
        extends = ""
    enough = f" If the chains agree, this gives about {ENOUGH_DRAWS} effective draws or more."
    if st.button(label, type=kind, key=f"more-draws-{run.id}", help=help_text + enough):
        carry_out(partial(_start, run, request, draws, extends=extends), page="train")


def _time_text(request: TransferRequest, more: int, continues: bool) -> str:
    """Return the estimated time in brackets; a run that continues samples only `more` draws."""
    times = TransferTimes(stores.jobs(), stores.library())
    estimate = times.estimate(request, iterations=more if continues else None)
    return "" if estimate is None else f" (about {rounded(estimate.seconds)})"


def enough_draws(files: RunFiles, run: RunRow) -> int | None:
    """Return the draws of each chain for enough effective ones; None where there are enough.

    It is None too for a method without a sampler of draws.
    """
    if not files.ess:
        return None
    effective = min(files.ess.values())
    draws = draws_of(run)
    if draws is None or effective >= ENOUGH_DRAWS:
        return None
    n_draws = draws * MARGIN * ENOUGH_DRAWS / max(effective, 1.0)
    return min(100 * math.ceil(n_draws / 100), MOST_DRAWS)


def draws_of(run: RunRow) -> int | None:
    """Return the number of draws of each chain of a run, None for a method that does not sample."""
    method = stores.library().methods().get(run.method)
    if method is None or not method.sampler:
        return None
    draws = run.request.settings.get("sampler", {}).get("draws") or method.sampler.get("draws")
    if draws is None and is_extendable(run):
        draws = SamplerConfig(coordinates=coordinates_of(run)).n_draws
    return None if draws is None else int(draws)


def is_extendable(run: RunRow) -> bool:
    """Return whether the method of a run uses the network sampler, whose runs can be extended."""
    method = stores.library().methods().get(run.method)
    return (
        method is not None and method.cost is not None and method.cost.sampler in _NETWORK_SAMPLERS
    )


def coordinates_of(run: RunRow) -> Literal["whitened", "partially centred"]:
    """Return the coordinates that the network sampler uses for the method of a run."""
    method = stores.library().methods().get(run.method)
    cost = None if method is None else method.cost
    is_whitened = cost is not None and cost.sampler == "whitened"
    return "whitened" if is_whitened else "partially centred"


def with_draws(request: TransferRequest, draws: int) -> TransferRequest:
    """Return the request with this number of draws and the same warm-up."""
    sampler = {**request.settings.get("sampler", {}), "draws": draws}
    return request.changed(settings={**request.settings, "sampler": sampler})


def _start(run: RunRow, request: TransferRequest, draws: int, *, extends: str) -> None:
    dataset = stores.library().dataset(run.workspace, run.dataset)
    started = start_transfer(
        stores.jobs(),
        stores.library(),
        dataset,
        source=run.source,
        request=request,
        title=f"{run.title}, {words.count(draws, 'draw')}"[:120],
        extends=extends,
    )
    session.choose("run", started.run)


_NETWORK_SAMPLERS = ("auto", "whitened")  # of `Cost.sampler`
_CONTINUES = (
    "Sampling continues where this run ended: its draws stay the first ones, and warm-up is not "
    "repeated. The longer run is a new one; the present run stays."
)
_FROM_START = (
    "The end of this run is no longer stored (it is for three days), so sampling starts again; the "
    "draws of this run are the first ones again. The present run stays."
)
