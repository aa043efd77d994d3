"""Requests: what is asked of a transfer, a prediction and the training of a source model.

Page, job, command line, Python function, manifest and "repeat this run" read these types. To add a
setting, add a field here; it then has an option and an entry in the documentation.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, field_validator, model_validator

from bandgap.foundation.requests import Request, Setting
from bandgap.predictions.interval_kinds import IntervalKind, check_level

if TYPE_CHECKING:
    from bandgap.predictions.window import Window
    from bandgap.predictions.withholding import IntervalChanges

WIDEN_FACTOR: Final = 2.0  # of intervals that are widened

Seed = Annotated[
    int,
    Field(ge=0),
    Setting("Seed", "Seed of every random number; the same seed gives the same result."),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    Setting("Device", "Where to train and sample: auto takes a CUDA device if there is one."),
]
Preset = Annotated[
    str | None,
    Setting(
        "Descriptor",
        "Descriptor with fixed settings, such as oe62-16; an unknown name lists all of them. A "
        "transfer takes that of its source model.",
        metavar="NAME",
    ),
]
Species = Annotated[
    tuple[str, ...] | None,
    Setting(
        "Elements",
        "Elements of a new descriptor: H C N O, or H,C,N,O. A transfer takes the descriptor of its "
        "source model.",
        metavar="SYMBOLS",
    ),
]
Jobs = Annotated[
    int,
    Field(ge=1),
    Setting("Processes", "Processes that compute descriptors at the same time.", option="--jobs"),
]


_TWO_DESCRIPTORS = "preset and species are both given. Give one of them: each names a descriptor."


class TransferRequest(Request):
    """How a method learns from labelled structures: method, split, inputs and settings.

    The defaults are those of the command line. Structures, gaps, source model and output folder are
    not part of it.
    """

    execution: ClassVar[frozenset[str]] = frozenset({"checkpoint_every", "n_jobs"})

    method: Annotated[
        str | None,
        Setting(
            "Method",
            "See --list-methods. Default: the proposed method, with the levels that are proposed "
            "with it.",
            metavar="NAME",
        ),
    ] = None
    n: Annotated[
        int | None,
        Field(ge=1),
        Setting(
            "Labelled structures",
            "Labelled structures to learn from; default: all but the test set.",
        ),
    ] = None
    n_test: Annotated[
        int | None,
        Field(ge=0),
        Setting("Held out", "Labelled structures to hold out for the test; default: a fifth."),
    ] = None
    test_ids: Annotated[
        tuple[str, ...] | None,
        Setting(
            "Test structures",
            "Identifiers of the test structures, instead of a random choice.",
            option=None,
        ),
    ] = None
    conformal_share: Annotated[
        float,
        Field(ge=0.0, lt=1.0),
        Setting(
            "Hold back for conformal intervals",
            "Share of the N structures that is not learned from but held back for conformal "
            "intervals, such as 0.2; 95 % needs at least 19 structures.",
            metavar="SHARE",
        ),
    ] = 0.0
    by_formula: Annotated[
        bool,
        Setting(
            "Keep a formula on one side of the split",
            "Keep all structures of one formula, such as polymorphs, on one side of the split: the "
            "test of what the model knows of compositions that it has not seen.",
        ),
    ] = False
    test_known: Annotated[
        bool,
        Setting(
            "Test on known elements",
            "Hold out structures of the source's elements only, to compare with a method that "
            "takes no others.",
        ),
    ] = False
    seed: Seed = 0
    preset: Preset = None
    species: Species = None
    levels: Annotated[
        Literal[
            "none",
            "GFN1-xTB",
            "GFN1-xTB-supercell",
            "GFN1-xTB-molecules",
            "Hueckel-molecules",
            "GFN1-xTB-and-Hueckel",
        ]
        | None,
        Setting(
            "Electron levels",
            "Learn from each structure's own frontier levels too: GFN1-xTB (needs the "
            "extra xtb on other systems than x86-64 Linux), GFN1-xTB-supercell (at more k points "
            "in small cells, as of inorganic crystals), "
            "GFN1-xTB-molecules (of each molecule alone, for crystals with a framework of metal), "
            "Hueckel-molecules (by Hückel's method from bonds, in milliseconds), "
            "GFN1-xTB-and-Hueckel (the first and the last) or none. Gaussian processes, "
            "kernel ridge and trees take all levels, other methods the gap as a "
            "baseline. Default: none with --method, else as proposed.",
            metavar="METHOD",
        ),
    ] = None
    baseline: Annotated[
        str,
        Setting(
            "Learn the difference to",
            "A gap that every structure has at a cheaper level, such as gap_pbe_eV: a column of "
            "the table --labels, or a key of the extXYZ files. The difference to it is learned, "
            "and predictions need it of every structure.",
            option="--baseline-column",
            metavar="NAME",
        ),
    ] = ""
    features: Annotated[
        str,
        Setting(
            "Own features",
            "Table of your own numbers for each structure (CSV, Parquet or npz, by id), such as "
            "embeddings, to learn from them beside the descriptor; alone with --preset none. With "
            "--source none; predictions need the same columns.",
            metavar="FILE",
        ),
    ] = ""
    head: Annotated[
        str | None,
        Setting(
            "Set of the source",
            "Of a source of several sets: the set to start from; default: by measurement.",
            metavar="NAME",
        ),
    ] = None
    settings: Annotated[
        Mapping[str, Any],
        Setting(
            "Settings of the method",
            "A setting of the method. May be repeated.",
            "--set",
            "NAME=VALUE",
        ),
    ] = Field(default_factory=dict)
    device: Device = "auto"
    checkpoint_every: Annotated[
        int,
        Field(ge=0),
        Setting(
            "Iterations between checkpoints",
            "Iterations of a network's sampler between two checkpoints; 0: none.",
            metavar="N",
        ),
    ] = 100
    n_jobs: Jobs = 1

    @model_validator(mode="after")
    def _one_descriptor(self) -> "TransferRequest":
        if self.preset is not None and self.species is not None:
            raise ValueError(_TWO_DESCRIPTORS)
        return self


class PredictRequest(Request):
    """Which intervals are predicted, and how much is computed at a time.

    Model, structures and output are not part of it.
    """

    execution: ClassVar[frozenset[str]] = frozenset({"chunk_size", "n_jobs"})

    probability: Annotated[
        float,
        Setting(
            "Level",
            "Probability that the interval states, between 0.01 and 0.99.",
            option="--level",
        ),
    ] = 0.95
    interval: Annotated[
        IntervalKind,
        Setting(
            "Interval",
            "prediction: where a new crystal's gap falls; credible: where the mean is, without "
            "scatter; conformal: as prediction, but by crystals that the run held back (transfer "
            "--conformal-share).",
        ),
    ] = "prediction"
    window: Annotated[
        str,
        Setting(
            "Target window",
            "Target window of the gap in eV, such as 1.3:1.7. The table then has the probability "
            "that the gap of each structure lies in it, p_window.",
            metavar="FROM:TO",
        ),
    ] = ""
    withhold_below_p: Annotated[
        float,
        Field(ge=0.0, le=1.0),
        Setting(
            "Withhold intervals below a p-value",
            "Leave standard deviation and interval empty where domain_p is below this value, such "
            "as 0.05, and where a structure has an unseen element; 0: give all intervals.",
            metavar="P",
        ),
    ] = 0.0
    widen_below_p: Annotated[
        float,
        Field(ge=0.0, le=1.0),
        Setting(
            "Widen intervals below a p-value",
            "Multiply standard deviation and interval by the factor of --widen-factor where "
            "domain_p is below this value, such as 0.05, and where a structure has an unseen "
            "element; 0: widen none.",
            metavar="P",
        ),
    ] = 0.0
    widen_factor: Annotated[
        float,
        Field(gt=1.0, le=100.0),
        Setting(
            "Factor of widened intervals",
            "Factor of standard deviation and width where --widen-below-p widens an interval.",
            metavar="FACTOR",
        ),
    ] = WIDEN_FACTOR
    features: Annotated[
        str,
        Setting(
            "Own features",
            "For a run with own features: table of its columns for these structures.",
            metavar="FILE",
        ),
    ] = ""
    calibrated: Annotated[
        bool,
        Setting(
            "Use the calibrator",
            "Apply the calibrator that is stored with the run, if there is one.",
            option=None,
        ),
    ] = True
    chunk_size: Annotated[
        int,
        Field(ge=1),
        Setting(
            "Structures at a time",
            "Structures that each process predicts and writes at a time: fewer need less memory.",
            option="--chunk",
            metavar="N",
        ),
    ] = 512
    n_jobs: Annotated[
        int,
        Field(ge=1),
        Setting(
            "Processes",
            "Processes that predict at the same time, each with one thread. With two or more, or "
            "files of more than 64 MB, another process reads the files.",
            option="--jobs",
        ),
    ] = 1

    @field_validator("probability")
    @classmethod
    def _stored(cls, probability: float) -> float:
        return check_level(probability)

    @model_validator(mode="after")
    def _widens_some(self) -> "PredictRequest":
        if 0.0 < self.widen_below_p <= self.withhold_below_p:
            raise ValueError(
                f"widen_below_p is {self.widen_below_p:g} and withhold_below_p is "
                f"{self.withhold_below_p:g}, so that no interval is widened. Accepted: a "
                "widen_below_p above withhold_below_p, or one of them alone."
            )
        if not self.widen_below_p and self.widen_factor != WIDEN_FACTOR:
            raise ValueError(
                f"widen_factor is {self.widen_factor:g}, but widen_below_p is 0, so that no "
                "interval is widened. Accepted: a widen_below_p above 0, or no widen_factor."
            )
        return self

    @property
    def interval_changes(self) -> "IntervalChanges":
        """The intervals that are withheld and widened."""
        from bandgap.predictions.withholding import IntervalChanges

        return IntervalChanges(self.withhold_below_p, self.widen_below_p, self.widen_factor)

    @field_validator("window")
    @classmethod
    def _window(cls, window: str) -> str:
        from bandgap.predictions.window import Window

        return str(Window.parse(window)) if window else ""

    @property
    def target(self) -> "Window | None":
        """The target window, or None."""
        from bandgap.predictions.window import Window

        return Window.parse(self.window) if self.window else None


class SourceRequest(Request):
    """How a source model is trained: network, descriptor, data split and settings.

    Data and output are not part of it.
    """

    execution: ClassVar[frozenset[str]] = frozenset({"n_jobs"})

    network: Annotated[
        Literal["perceptron", "megnet"],
        Setting(
            "Network",
            "perceptron: learns from the descriptor of --preset or --species; megnet: learns its "
            "own features from the structures, by a graph network (needs the extra graph).",
        ),
    ] = "perceptron"
    preset: Preset = None
    species: Species = None
    hidden: Annotated[
        tuple[int, ...] | None,
        Setting(
            "Hidden units",
            "Widths of the hidden layers; default: 128,64, and 1024,512 for megnet (Abba 2023, "
            "section 3.5).",
            metavar="WIDTHS",
            example="128,64",
        ),
    ] = None
    split: Annotated[
        tuple[int, int] | None,
        Setting(
            "Structures to train on and to stop by",
            "Numbers of structures to train on and to stop by; the error on the rest is reported. "
            "40000,10000 is the split of OE62 that the method was published with. Default: four "
            "fifths and one fifth, no rest.",
            metavar="TRAIN,STOP",
            example="40000,10000",
        ),
    ] = None
    max_epochs: Annotated[
        int,
        Field(ge=1),
        Setting(
            "Epochs at most",
            "Epochs at most; training ends earlier when the held-out error no longer falls.",
        ),
    ] = 150
    seed: Seed = 0
    licence: Annotated[
        str,
        Setting(
            "Licence of the data",
            "Licence of the data, such as CC-BY-4.0. It is stored with the source model and its "
            "runs.",
        ),
    ] = ""
    variational: Annotated[
        bool,
        Setting(
            "Also fit a variational posterior",
            "Also fit a variational posterior of the weights (minutes).",
        ),
    ] = False
    variational_steps: Annotated[
        int | None,
        Field(ge=1),
        Setting(
            "Steps of the variational fit", "Steps of the variational fit at most.", option=None
        ),
    ] = None
    snapshots: Annotated[
        int | None,
        Field(ge=2),
        Setting(
            "Snapshots of the training",
            "Also keep the last K snapshots of SGD on the source's data.",
            metavar="K",
        ),
    ] = None
    device: Device = "auto"
    n_jobs: Jobs = 1

    @property
    def hidden_widths(self) -> tuple[int, ...]:
        """Widths of the hidden layers, by default those of the network."""
        if self.hidden is not None:
            return self.hidden
        return (1024, 512) if self.network == "megnet" else (128, 64)

    @model_validator(mode="after")
    def _consistent(self) -> "SourceRequest":
        descriptor_for_labelled = self.preset is not None or self.species is not None
        if self.preset is not None and self.species is not None:
            raise ValueError(_TWO_DESCRIPTORS)
        if self.network == "megnet" and descriptor_for_labelled:
            raise ValueError(
                "network megnet learns its own features: leave out preset and species."
            )
        if self.split is not None and min(self.split) < 1:
            raise ValueError(
                f"split: found {self.split}. Accepted: two whole numbers from 1, such as "
                "40000,10000."
            )
        if self.network == "megnet" and self.split is not None:
            raise ValueError(
                "split is for network perceptron: a graph network would see all structures."
            )
        return self
