"""The button that adds as many draws to a run as its intervals need."""

import math
from functools import partial
from typing import Literal

import streamlit as st

from app import session
from app.components.result.run_result import RunResult
from app.components.shared import stores, words
from app.components.shared.actions import carry_out
from app.components.shared.estimate_words import rounded
from app.components.shared.run_files import RunFiles
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.jobs.estimates import JobTimes
from bandgap.jobs.more_draws import can_continue, extended_request
from bandgap.jobs.rows import RunRow
from bandgap.jobs.starting import start_transfer
from bandgap.runs.requests import TransferRequest
from bandgap.transfer.shared.cost import Coordinates

# Effective draws below which R-hat and intervals are unreliable: Vehtari et al. (2021), section 4.
ENOUGH_DRAWS = 400
MARGIN = 1.25  # the effective number varies from run to run
MOST_DRAWS = 100_000


def more_draws(result: RunResult, *, kind: Literal["primary", "secondary"] = "secondary") -> None:
    """Draw the button for a run with too few effective draws, with the time that it takes."""
    run = result.run
    draws = enough_draws(result.files, run)
    if draws is None or result.is_refit or not result.has_data:
        return
    more = draws - (draws_of(run) or 0)
    coordinates = coordinates_of(run)
    continues = coordinates is not None and more > 0 and can_continue(stores.home(), run)
    request = with_draws(run.request, draws, coordinates)
    label = f"Run again with {draws:,} draws of each chain"
    help_text = "Data, split, seed and other settings stay the same. The present run stays."
    if continues and coordinates is not None:
        sampler = result.files.manifest["config"]["sampler"]
        request = extended_request(run.request, sampler, coordinates=coordinates, more=more)
        label = f"{more:,} more draws of each chain"
        help_text = _CONTINUES
    timed = request
    if continues:
        timed = request.changed(settings={"sampler": {"warmup": 0, "draws": more}})
    times = JobTimes(stores.jobs(), stores.library())
    if estimate := times.transfer(run.dataset, run.source, timed):
        label += f" (about {rounded(estimate.seconds)})"
    if st.button(
        label,
        type=kind,
        key=f"more-draws-{run.id}",
        help=f"{help_text} If the chains agree, this gives about {ENOUGH_DRAWS} effective draws.",
    ):
        action = partial(_start, run, request, draws, extends=run.id if continues else "")
        carry_out(action, page="train")


def enough_draws(files: RunFiles, run: RunRow) -> int | None:
    """Return the draws of each chain for enough effective ones; None where there are enough.

    It is None too for a method without a sampler of draws.
    """
    effective = min(files.ess.values(), default=math.inf)
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
    if draws is None and (coordinates := coordinates_of(run)):
        draws = SamplerConfig(coordinates=coordinates).n_draws
    return None if draws is None else int(draws)


def coordinates_of(run: RunRow) -> Coordinates | None:
    """Return the coordinates of the network sampler, None for a method that does not use it."""
    method = stores.library().methods().get(run.method)
    return method.cost.coordinates if method and method.cost else None


def with_draws(
    request: TransferRequest, draws: int, coordinates: Coordinates | None
) -> TransferRequest:
    """Return the request with this number of draws and the same warm-up."""
    usual = {"warmup": SamplerConfig(coordinates=coordinates).n_warmup} if coordinates else {}
    sampler = {**usual, **request.settings.get("sampler", {}), "draws": draws}
    return request.changed(settings={**request.settings, "sampler": sampler})


def _start(run: RunRow, request: TransferRequest, draws: int, *, extends: str) -> None:
    started = start_transfer(
        stores.jobs(),
        stores.library(),
        stores.library().dataset(run.workspace, run.dataset),
        source=run.source,
        request=request,
        title=f"{run.title}, {words.count(draws, 'draw')}"[:120],
        extends=extends,
    )
    session.choose("run", started.run)


_CONTINUES = (
    "Sampling continues where this run ended: its draws stay the first ones, and warm-up is not "
    "repeated. The longer run is a new one; the present run stays."
)
