"""The folded parts of the page Result: groups, layers, chains, calibration, settings."""

import streamlit as st

from app.components.calibration.calibrator_form import (
    coverage_sentence,
    share_besides_curve,
    worse_sentence,
)
from app.components.posterior import posterior_words
from app.components.posterior.chain_view import advice
from app.components.posterior.more_draws import more_draws
from app.components.result.run_result import RunResult
from app.components.shared import frame, stores, tables, words
from app.components.shared.drawing import figure_with_table
from app.components.shared.guide_links import help_link
from bandgap import plots
from bandgap.evaluation.reliability import coverage_of
from bandgap.evaluation.signed_errors import error_by_element, error_by_gap, error_by_size
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.shell_commands import predict_command, serve_command, stored_command

GROUPS = {"element": error_by_element, "predicted gap": error_by_gap, "size": error_by_size}


def groups_view(result: RunResult) -> None:
    """Draw the signed error by element, by predicted gap or by size."""
    with st.expander("For which structures it is too high or too low"):
        by = (
            st.segmented_control("Groups by", list(GROUPS), default="element", key="groups-by")
            or "element"
        )
        figure_with_table(
            plots.signed_error_figure,
            GROUPS[by](result.heldout),
            key="signed-errors",
            alt=f"Signed error of the held-out structures by {by}, with the range of chance",
            caption="Right of zero the predictions are too large. Counts are in brackets; grey "
            "bars are chance. A diamond outside its bar is a kind of structure that is shifted.",
        )


def moved_view(result: RunResult) -> None:
    """Draw which layers moved, and the link to the page Posterior; nothing without layers."""
    files = result.files
    if "c" not in files.draws:
        return
    with st.expander("What moved"):
        c = files.draws["c"].reshape(-1, files.draws["c"].shape[-1])
        st.markdown(posterior_words.layer_sentence(c, n=files.n), width=720)
        st.page_link("views/posterior.py", label="Posterior", icon=":material/ssid_chart:")


def chains_view(result: RunResult) -> None:
    """Draw the agreement of the chains, and the link to the page Posterior; nothing without any."""
    files = result.files
    if not files.rhat:
        return
    with st.expander("Do the chains agree?"):
        st.markdown(
            posterior_words.convergence_sentence(
                files.rhat, files.ess, divergences=files.divergences
            ),
            help=f"{Quantity.RHAT.help} {Quantity.ESS.help}"
            + help_link("tutorials/reading-a-posterior", "First: have the chains settled?"),
        )
        for line in advice(files):
            st.markdown(f"- {line}")
        if result.verdict.chains_agree:  # otherwise it is the next step
            more_draws(files, result.run)
        st.page_link("views/posterior.py", label="Posterior", icon=":material/ssid_chart:")


def calibration_view(result: RunResult) -> None:
    """Draw the verdict on the intervals, and the link to the page Calibration."""
    with st.expander("Do the intervals hold?"):
        curve = coverage_of(result.heldout, "prediction")
        share = share_besides_curve(result.heldout, 0.95, "prediction")
        st.markdown(
            coverage_sentence(curve, 0.95, "prediction", share_in_interval=share), width=720
        )
        if result.calibrator_problem:
            st.error(words.escaped_sentence(result.calibrator_problem), icon=":material/error:")
        elif result.calibrator is not None:
            st.markdown(words.escaped_sentence(result.calibrator.sentence), width=720)
            frame.warn([worse_sentence(result.calibrator, result.heldout)])
        st.page_link("views/calibration.py", label="Calibration", icon=":material/rule:")


def settings_view(result: RunResult) -> None:
    """Draw the numbers of the split, the commands that repeat the run, and the source."""
    manifest = result.files.manifest
    run = result.run
    with st.expander("Settings and the command to repeat it"):
        st.write(split_text(result))
        refitted = "refit" in manifest
        commands = (
            stored_command(manifest, source=run.source),
            predict_command(run.request, refitted=refitted),
            serve_command(refitted=refitted),
        )
        st.code("\n".join(commands), language=None, wrap_lines=True)
        st.caption(
            "STRUCTURES are the files of the data set, GAPS.csv is the table of their gaps. The "
            "same seed gives the same split and the same result. The last command lets other "
            "programs ask this run over HTTP." + help_link("how-to/service", "Start it")
        )
        tables.card(result.files.source.get("card", {}), result.files.source.get("overlap"))
    compared = len(stores.library().runs(run.workspace, limit=2)) > 1
    if compared:
        st.page_link(
            "views/compare.py", label="Compare with other runs", icon=":material/compare_arrows:"
        )


def split_text(result: RunResult) -> str:
    """Return how many labels the run learned from, held back and held out."""
    manifest = result.files.manifest
    n_labelled = int(manifest["data"]["n_labelled"])
    conformal = manifest.get("conformal") or {}
    n_back = 0 if "refit" in manifest else len(conformal.get("ids", ()))
    n_test = 0 if "refit" in manifest else result.files.n_test
    n_unused = n_labelled - result.files.n - n_back - n_test
    back = f", {n_back:,} held back for conformal intervals" if n_back else ""
    return (
        f"Of {words.count(n_labelled, 'labelled structure')} it learned from "
        f"{result.files.n:,}; {n_test:,} held out for the test{back}; "
        f"{f'{n_unused:,}' if n_unused else 'none'} unused. Seed {result.run.request.seed}."
    )
