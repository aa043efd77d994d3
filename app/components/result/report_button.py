"""The report of a run with a prediction of it, and the button that downloads it."""

import re
from collections.abc import Callable
from dataclasses import replace

from app.components.result import learned_words
from app.components.shared import downloads, stores
from app.components.shared.guide_links import help_link
from app.components.shared.run_choice import DELETED_DATA, run_labels
from app.components.shared.run_files import finished_runs, read_run
from bandgap.jobs.home import shapes_path
from bandgap.jobs.listing import known_gaps
from bandgap.jobs.refitting import parent_of
from bandgap.jobs.rows import RunRow
from bandgap.jobs.shell_commands import stored_command
from bandgap.jobs.store import Job
from bandgap.runs.html_report import ReportContext, report_html


def report_button(run: RunRow, *, prediction: str = "") -> None:
    """Draw the button for the report of a run with this prediction."""
    page = report_page(run, prediction=prediction)
    downloads.file_button(
        "Report (HTML)",
        lambda: page().encode(),
        f"{file_stem(run)}.html",
        key=f"report-{run.id}",
        help="One page that needs no network: data, error, calibration, comparison with other "
        "runs, predictions, and a methods paragraph with what to cite."
        + help_link("how-to/share-a-run", "Report"),
    )


def report_page(run: RunRow, *, prediction: str = "") -> Callable[[], str]:
    """Return what makes the report of a run, without a session.

    `prediction` is the id of the job of the prediction in it, by default of the newest one.
    """
    library, home = stores.library(), stores.home()
    files = read_run(run.id)
    predictions: dict[str, Job] = {
        id: job
        for id, job in stores.jobs_of("predict").items()
        if job.state == "finished" and job.payload["run"] == run.id
    }
    job = predictions.get(prediction, next(iter(predictions.values()), None))
    names = stores.dataset_names(run.workspace)
    other_runs = {
        id: other
        for id, other in finished_runs().items()
        if other.dataset == run.dataset and id != run.id
    }
    has_layers = "c" in files.draws
    context = ReportContext(
        title=run.title,
        data=names.get(run.dataset, DELETED_DATA),
        parent=parent_title(run),
        command=stored_command(files.manifest, source=run.source),
        learned=learned_words.layer_sentence(files.diagnostics.get("correction"), n=files.n)
        if has_layers
        else "",
        other_runs={
            label: home.run_folder(id)
            for id, label in run_labels(other_runs, names, stores.sources()).items()
        },
        prediction=None if job is None else home.prediction_folder(run.id, job.id),
        shapes=None if job is None else shapes_path(home, job.payload["dataset"]),
    )

    def report() -> str:
        gaps_eV = known_gaps(library, run.dataset) if run.dataset in names else None
        return report_html(home.run_folder(run.id), replace(context, gaps_eV=gaps_eV))

    return report


def parent_title(run: RunRow) -> str:
    """Return the title of the run that a run refits, "a deleted run" if it was deleted.

    Empty for other runs.
    """
    parent_id = parent_of(stores.jobs().job(run.workspace, run.job))
    if not parent_id:
        return ""
    parent = stores.library().run(run.workspace, parent_id)
    return "a deleted run" if parent is None else parent.title


def file_stem(run: RunRow) -> str:
    """Return the name of a run as that of a file."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", run.title).strip("-") or "run"
