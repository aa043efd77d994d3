"""The form that starts a transfer, and what it asks the worker for."""

import uuid
from collections.abc import Mapping
from typing import Any

import session
import streamlit as st

from bandgap.config import fingerprint
from bandgap.conformal import smallest_calibration_set
from bandgap.errors import BandgapError
from bandgap.jobs.rows import Dataset
from bandgap.quantities import Quantity
from components import stores, tables, words

MIN_LABELLED = 20
TEST_SHARE = 0.3
TEST_MOST = 300
DEFAULT_N = 200


def setup_form(datasets: Mapping[str, Dataset], usable: Mapping[str, int]) -> None:
    """Draw the form: one submit makes one job, however often it is clicked."""
    sources, methods = stores.library().catalogue("source"), stores.library().catalogue("method")
    if not sources or not methods:
        st.info(
            "The worker has not yet said which source models and methods there are. "
            "It does so some seconds after its start; reload the page then."
        )
        return
    ids = list(datasets)
    present = session.chosen("data")
    picked = st.selectbox(
        "Target data",
        ids,
        index=ids.index(present) if present in datasets else 0,
        format_func=lambda i: f"{datasets[i].name} ({words.count(usable[i], 'labelled structure')})",
        help="The labelled crystals that the transfer learns from.",
    )
    total = usable[picked]
    if total < MIN_LABELLED:
        st.warning(
            f"{words.count(total, 'structure')} with a gap; at least {MIN_LABELLED} are needed. "
            "Give more of them a gap on the Data page."
        )
        return
    families = list(dict.fromkeys(m.get("family", "") for m in methods.values()))
    family = st.selectbox("Kind of method", families, format_func=words.sentence, help=_FAMILY_HELP)
    offered = {name: m for name, m in methods.items() if m.get("family", "") == family}
    n_test_default = max(1, min(TEST_MOST, round(TEST_SHARE * total)))
    with st.form("transfer", border=False):
        source = st.selectbox(
            "Source model", list(sources), format_func=lambda s: sources[s]["title"], help=_SOURCE_HELP
        )
        with st.expander("What this model was trained on"):
            tables.card(sources[source].get("card", {}))
        method = st.radio(
            "Method",
            list(offered),
            format_func=lambda m: offered[m]["title"],
            captions=[f"{m['summary']} Takes {m['cost']}." for m in offered.values()],
        )
        left, right = st.columns(2)
        most = max(total - n_test_default, 1)
        n = left.number_input("Labelled structures", 10, most, min(DEFAULT_N, most), help=_N_HELP)
        seed = right.number_input("Seed", 0, 2**31 - 1, 0, help=_SEED_HELP)
        with st.expander(f"More settings ({n_test_default} held out, 0 % for conformal intervals, device auto)"):
            n_test = st.number_input("Held out for the test", 1, max(total - 10, 1), n_test_default, help=_TEST_HELP)
            share = st.slider("Hold back for conformal intervals", 0, 50, 0, 5, format="%d %%", help=_CONFORMAL_HELP)
            device = st.selectbox("Device", ["auto", "cpu", "cuda"], help="auto takes a GPU where there is one.")
            sampler = sampler_settings(offered)
        if st.form_submit_button("Start the transfer", type="primary"):
            settings = {"sampler": sampler} if "sampler" in methods[method]["settings"] else {}
            config = {"source": source, "method": method, "device": device, "settings": settings}
            config |= {"n": int(n), "n_test": int(n_test), "seed": int(seed), "conformal_share": share / 100}
            title = f"{methods[method]['title']}, n = {int(n)}" + (f", {share} % held back" if share else "")
            start(datasets[picked], config, usable=total, title=title)


def sampler_settings(methods: Mapping[str, Any]) -> dict[str, int]:
    """Draw the length of the chains, for the methods that sample, with their defaults."""
    defaults = next((m["settings"]["sampler"] for m in methods.values() if "sampler" in m["settings"]), None)
    if defaults is None:
        return {}
    warmup = st.number_input("Warm-up iterations", 20, 100_000, defaults["warmup"], help=_WARMUP_HELP)
    draws = st.number_input("Draws of each chain", 20, 100_000, defaults["draws"], help=_DRAWS_HELP)
    return {"warmup": int(warmup), "draws": int(draws)}


def start(dataset: Dataset, config: dict[str, Any], *, usable: int, title: str) -> None:
    """Queue the transfer, note the run and show it."""
    if config["n"] + config["n_test"] > usable:
        st.error(
            f"{config['n']} to learn from and {config['n_test']} held out are more than the {usable} labelled "
            "structures. Lower one of the two."
        )
        return
    run_id = str(uuid.UUID(session.form_key("transfer")))
    payload = {**config, "dataset": dataset.id, "run": run_id}
    try:
        job = stores.jobs().submit(
            session.workspace(),
            "transfer",
            title=title,
            payload=payload,
            subject=run_id,
            submit_key=f"transfer-{run_id}-{fingerprint(payload)}",
        )
        stores.library().add_run(
            session.workspace(),
            job=job.id,
            run_id=run_id,
            dataset=dataset.id,
            source=config["source"],
            method=config["method"],
            title=title,
            config=config,
        )
    except BandgapError as error:
        st.error(str(error))
        return
    session.renew("transfer")
    session.choose("run", run_id)
    st.rerun()


_FAMILY_HELP = (
    "The first kind learns how far every layer may move and gives intervals from that; the last kind does without the "
    "molecule model, to see what it brings."
)
_SOURCE_HELP = "The network that was trained on many molecules; the transfer moves it to your crystals."
_N_HELP = "How many the transfer learns from, drawn at random among those not held out. More is better and slower."
_SEED_HELP = "Fixes the split and the random numbers: the same seed repeats the run."
_WARMUP_HELP = "Methods that sample: iterations in which each chain finds its place; they are thrown away."
_DRAWS_HELP = "Methods that sample: iterations that count. Raise them when the chains have not agreed yet."
_CONFORMAL_HELP = (
    f"{Quantity.CONFORMAL.help} A share of the labelled structures above, which the fit then does without; 95 % needs "
    f"at least {smallest_calibration_set(0.95)} of them. At 0 % there are no conformal intervals."
)
_TEST_HELP = "Never learned from; error and coverage are measured on them."
