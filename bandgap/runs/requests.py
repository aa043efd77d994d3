"""Requests: what is asked of a transfer, a prediction and the training of a source model.

Page, job, command line, Python function, manifest and "repeat this run" read these types. To add a setting, add a field
here; it then has an option, a widget and an entry in the documentation.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from bandgap.foundation.requests import Request, Setting

Device = Literal["auto", "cpu", "cuda"]
IntervalKind = Literal["prediction", "credible", "conformal"]

_SEED = Setting("Seed", "Seed of every random number; the same seed gives the same result.")
_DEVICE = Setting("Device", "Where to train and sample: auto takes a CUDA device if there is one.")
_PRESET = "Descriptor with fixed settings, such as oe62-16. With a source model, its descriptor is used."
_SPECIES = "Elements of a new descriptor: H C N O, or H,C,N,O. With a source model, its descriptor is used."


class TransferRequest(Request):
    """How a method learns from labelled structures: method, split, inputs and settings.

    The defaults are those of the command line. Structures, gaps, source model and output folder are not part of it.
    """

    execution: ClassVar[frozenset[str]] = frozenset({"checkpoint_every", "n_jobs"})

    method: Annotated[
        str | None,
        Setting("Method", "See --list-methods. Default: the proposed method.", metavar="NAME"),
    ] = None
    n: Annotated[
        int | None,
        Field(ge=1),
        Setting("Labelled structures", "Labelled structures to learn from; default: all but the test set."),
    ] = None
    n_test: Annotated[
        int | None,
        Field(ge=0),
        Setting("Held out", "Labelled structures to hold out for the test; default: a fifth."),
    ] = None
    test_ids: Annotated[
        tuple[str, ...] | None,
        Setting("Test structures", "Identifiers of the test structures, instead of a random choice.", option=None),
    ] = None
    conformal_share: Annotated[
        float,
        Field(ge=0.0, lt=1.0),
        Setting(
            "Hold back for conformal intervals",
            "Share of the N structures that is not learned from but held back for conformal intervals, such as 0.2; "
            "95 % needs at least 19 structures.",
            metavar="SHARE",
        ),
    ] = 0.0
    by_formula: Annotated[
        bool,
        Setting("Keep a formula on one side of the split", "Keep all structures of one formula on one side."),
    ] = False
    test_known: Annotated[
        bool,
        Setting(
            "Test on known elements",
            "Hold out structures of the source's elements only, to compare with a method that takes no others.",
        ),
    ] = False
    seed: Annotated[int, Field(ge=0), _SEED] = 0
    preset: Annotated[str | None, Setting("Descriptor", _PRESET, metavar="NAME")] = None
    species: Annotated[tuple[str, ...] | None, Setting("Elements", _SPECIES, metavar="SYMBOLS")] = None
    levels: Annotated[
        Literal["none", "GFN1-xTB", "GFN1-xTB-supercell"],
        Setting(
            "Electron levels",
            "Learn from each structure's own frontier levels too: GFN1-xTB (needs the extra xtb), GFN1-xTB-supercell "
            "(at more k points where a cell is small, as of inorganic crystals) or none. Gaussian processes, kernel "
            "ridge and trees take all three levels, other methods the gap as a baseline.",
            metavar="METHOD",
        ),
    ] = "none"
    baseline: Annotated[
        str,
        Setting(
            "Learn the difference to",
            "A gap that every structure has at a cheaper level, such as gap_pbe_eV: a column of the table --labels, or "
            "a key of the extXYZ files. The difference to it is learned, and predictions need it of every structure.",
            option="--baseline-column",
            metavar="NAME",
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
        Setting("Settings of the method", "A setting of the method. May be repeated.", "--set", "NAME=VALUE"),
    ] = Field(default_factory=dict)
    device: Annotated[Device, _DEVICE] = "auto"
    checkpoint_every: Annotated[
        int,
        Field(ge=0),
        Setting(
            "Iterations between checkpoints",
            "Iterations of a network's sampler between two checkpoints; 0: none.",
            metavar="N",
        ),
    ] = 100
    n_jobs: Annotated[
        int,
        Field(ge=1),
        Setting("Processes", "Processes that compute descriptors at the same time.", option="--jobs"),
    ] = 1

    @model_validator(mode="after")
    def _one_descriptor(self) -> "TransferRequest":
        if self.preset is not None and self.species is not None:
            raise ValueError("preset and species are both given. Give one of them: each names a descriptor.")
        return self
