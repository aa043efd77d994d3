"""The button that repeats a run with as many draws as its intervals need."""

import math

import streamlit as st

from app import session
from app.components.posterior.chain_view import ENOUGH_DRAWS
from app.components.shared import frame, stores, words
from app.components.shared.estimate_words import rounded
from app.components.shared.run_files import RunFiles
from bandgap.foundation.errors import BandgapError
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.jobs.estimates import Work, estimate_transfer, past_transfers
from bandgap.jobs.rows import RunRow
from bandgap.jobs.starting import start_transfer
from bandgap.runs.requests import TransferRequest

MARGIN = 1.25  # the effective number varies from run to run
MOST_DRAWS = 100_000


def more_draws(files: RunFiles, run: RunRow) -> None:
    """Draw the button for a run with too few effective draws, with the time that it takes."""
    draws = enough_draws(files, run)
    datasets = {dataset.id for dataset in stores.library().datasets(run.workspace)}
    if draws is None or run.dataset not in datasets:
        return
    request = with_draws(run.request, draws)
    costs = {name: m.cost for name, m in stores.library().methods().items() if m.cost is not None}
    estimate = estimate_transfer(Work.of(request), costs, past=past_transfers(stores.jobs()))
    time_text = "" if estimate is None else f" (about {rounded(estimate.seconds)})"
    if st.button(
        f"Run again with {draws:,} draws of each chain{time_text}",
        key=f"more-draws-{run.id}",
        help="Data, split, seed and other settings stay the same. If the chains agree, this number "
        f"gives about {ENOUGH_DRAWS} effective draws or more. The present run stays.",
    ):
        try:
            _start(run, request, draws)
        except BandgapError as error:
            frame.problem(error)
            return
        st.switch_page("views/train.py")


def enough_draws(files: RunFiles, run: RunRow) -> int | None:
    """Return the draws of each chain for enough effective ones; None where there are enough.

    It is None too for a method without a sampler of draws.
    """
    method = stores.library().methods().get(run.method)
    if method is None or not method.sampler or not files.ess:
        return None
    effective = min(files.ess.values())
    draws = run.request.settings.get("sampler", {}).get("draws") or method.sampler.get("draws")
    if draws is None and method.cost is not None and method.cost.sampler == "auto":
        draws = SamplerConfig().planned(isotropic=True).n_draws
    if draws is None and method.cost is not None and method.cost.sampler == "whitened":
        draws = SamplerConfig(coordinates="whitened").n_draws
    if draws is None or effective >= ENOUGH_DRAWS:
        return None
    n_draws = int(draws) * MARGIN * ENOUGH_DRAWS / max(effective, 1.0)
    return min(100 * math.ceil(n_draws / 100), MOST_DRAWS)


def with_draws(request: TransferRequest, draws: int) -> TransferRequest:
    """Return the request with this number of draws and the same warm-up."""
    sampler = {**request.settings.get("sampler", {}), "draws": draws}
    return request.changed(settings={**request.settings, "sampler": sampler})


def _start(run: RunRow, request: TransferRequest, draws: int) -> None:
    dataset = stores.library().dataset(run.workspace, run.dataset)
    started = start_transfer(
        stores.jobs(),
        stores.library(),
        dataset,
        source=run.source,
        request=request,
        title=f"{run.title}, {words.count(draws, 'draw')}"[:120],
    )
    session.choose("run", started.run)
