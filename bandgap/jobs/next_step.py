"""The next step: one piece of advice, from facts of a data set, its newest run and predictions.

Every page that gives advice asks this function, so that no page contradicts another. Each step
names the page where it is taken, which gives the same advice.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal

from bandgap.evaluation.result_verdict import ResultVerdict

Page = Literal["data", "train", "result", "predict"]
FEWEST_LABELLED = 20  # labelled structures from which a transfer can learn


@dataclass(frozen=True)
class Facts:
    """What the next step depends on.

    Attributes
    ----------
    active
        The page that shows the active job about the data set, None without one.
    structures, labelled
        Structures of the data set, and those of them that can be learned from.
    run
        How the newest run on it ended, "" without one.
    verdict
        The verdict on a finished run, None where its files are damaged.
    can_add_draws
        Whether the method samples, so that more draws may help chains that have not agreed.
    can_calibrate
        Whether there is no calibrator yet and enough held-out structures to fit one.
    can_refit
        Whether the run left labels out and is not refitted yet.
    predictions
        Number of finished predictions of the run, or without a run of the data set.
    """

    active: Page | None = None
    structures: int = 0
    labelled: int = 0
    run: Literal["", "finished", "failed", "interrupted"] = ""
    verdict: ResultVerdict | None = None
    can_add_draws: bool = False
    can_calibrate: bool = False
    can_refit: bool = False
    predictions: int = 0


@dataclass(frozen=True)
class Step:
    """A step: the page where it is taken, the label of its button, and why it is the next one."""

    page: Page
    label: str
    reason: str


WAIT: Final = Step("train", "See how far it is", "A job is under way.")
ADD_DATA: Final = Step("data", "Add structures", "There are no structures yet.")
ADD_GAPS: Final = Step(
    "data",
    "Give structures their gaps",
    f"A model of your own learns from at least {FEWEST_LABELLED} known gaps.",
)
PREDICT_WITHOUT_LABELS: Final = Step(
    "predict", "Predict their band gaps", "No gap is known: the shipped model needs none."
)
TRAIN: Final = Step("train", "Train on these", "The known gaps are enough to learn from.")
RESUME: Final = Step("train", "Resume the run", "The run was interrupted.")
TRAIN_AGAIN: Final = Step("train", "Train again", "The last run failed; the page Train says why.")
TRAIN_BETTER: Final = Step(
    "train",
    "Train again",
    "This run is of no use: check ids and gaps first.",  # the page adds what to try then
)
PREDICT_UNSETTLED: Final = Step(
    "predict",
    "Predict new structures",
    "The chains have not agreed. More draws need the data set of the run, and a run that is no "
    "refit.",
)
REFIT_UNJUDGED: Final = Step(
    "result",
    "Refit on all labels",
    "Few were held out: the error stays unknown, but they help as labels. To judge the model, "
    "train again with more held out.",
)
PREDICT_UNJUDGED: Final = Step(
    "predict",
    "Predict new structures",
    "How wrong they are is not known: train again with more held out to judge the model.",
)
CHOOSE_LABELS: Final = Step(
    "predict",
    "See what to compute next",
    "The predicted structures are ranked by how much their gap would teach the model.",
)
OF_VERDICT: Final = {
    "train": TRAIN_BETTER,
    "more draws": Step("result", "Add draws", "The chains have not agreed."),
    "calibrate": Step(
        "result",
        "Calibrate the intervals",
        "Chance does not explain their coverage, and a calibrator that was tried made it better.",
    ),
    "refit": Step(
        "result", "Refit on all labels", "The test is done: the labels held out can now help."
    ),
    "predict": Step(
        "predict",
        "Predict new structures",
        "The test is done; the verdict says what the model is good for.",
    ),
}


def next_step(facts: Facts) -> Step:
    """Return the one step that comes next."""
    if facts.active is not None:
        return replace(WAIT, page=facts.active)
    if facts.run == "interrupted":
        return RESUME
    if facts.run == "failed" or (facts.run and facts.verdict is None):
        return TRAIN_AGAIN
    if facts.verdict is not None:
        return _step_of_verdict(facts, facts.verdict)
    if facts.labelled >= FEWEST_LABELLED:
        return TRAIN
    if facts.labelled or facts.predictions:
        return ADD_GAPS
    return PREDICT_WITHOUT_LABELS if facts.structures else ADD_DATA


def _step_of_verdict(facts: Facts, verdict: ResultVerdict) -> Step:
    if verdict.state == "poor":
        return OF_VERDICT["train"]
    if not verdict.chains_agree and facts.can_add_draws:
        return OF_VERDICT["more draws"]
    if verdict.curve is not None and verdict.curve.deviates and facts.can_calibrate:
        return OF_VERDICT["calibrate"]
    if facts.can_refit:
        return REFIT_UNJUDGED if verdict.state == "unknown" else OF_VERDICT["refit"]
    if not verdict.chains_agree:
        return PREDICT_UNSETTLED
    if verdict.state == "unknown":
        return PREDICT_UNJUDGED
    return CHOOSE_LABELS if facts.predictions else OF_VERDICT["predict"]
