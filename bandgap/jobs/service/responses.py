"""The responses of the service for its OpenAPI description: one row of the CSV per structure."""

from typing import Literal

from pydantic import BaseModel, Field

from bandgap.foundation.quantities import Quantity


class Row(BaseModel):
    """One structure; numbers of a refused one are null."""

    id: str = Field(description=Quantity.ID.help)
    file: str = Field(description=Quantity.FILE.help)
    formula: str = Field(description=Quantity.FORMULA.help)
    mean_eV: float | None = Field(description=Quantity.MEAN.help)
    sd_eV: float | None = Field(description=Quantity.SD.help)
    lower_eV: float | None = Field(description=Quantity.LOWER.help)
    upper_eV: float | None = Field(description=Quantity.UPPER.help)
    level: float = Field(description=Quantity.LEVEL.help)
    interval: Literal["prediction", "credible", "conformal"] = Field(
        description=Quantity.INTERVAL.help
    )
    domain: str = Field(description=Quantity.DOMAIN.help)
    status: Literal["ok", "warning", "refused"] = Field(description=Quantity.STATUS.help)
    problem: str = Field(description=Quantity.PROBLEM.help)
    level_of_theory: str = Field(
        description="How the gaps that the model learned from were computed."
    )
    p_metal: float | None = Field(default=None, description=Quantity.P_METAL.help)
    domain_p: float | None = Field(description=Quantity.DOMAIN_P.help)
    window: str | None = Field(
        default=None, description="The target window of the request in eV; absent without one."
    )
    p_window: float | None = Field(default=None, description=Quantity.P_WINDOW.help)


class PredictionResponse(BaseModel):
    """The model, the rows in the order of the structures, and notes on them."""

    model: str
    rows: list[Row]
    notes: list[str] = Field(description="Warnings of the model, and a note on lower ends of 0.")


class ErrorResponse(BaseModel):
    """The reason of an error; with the rows where structures were read and none could be used."""

    detail: str
    rows: list[Row] | None = None


class Model(BaseModel):
    """A served model."""

    name: str = Field(description="The name for `model` in a request.")
    method: str
    title: str
    level_of_theory: str
    n: int = Field(description="Number of labelled structures that the model learned from.")
    created: str = Field(description="Date and time of its training, in UTC (ISO 8601).")
    fingerprint: str = Field(
        description="Of its stored files: an equal fingerprint gives equal predictions."
    )
    elements: list[str] = Field(description="Elements of its descriptor.")
    baseline: str = Field(
        description="The gap at a cheaper level that every structure must have, empty for none."
    )
    intervals: list[str] = Field(description="Kinds of interval that the model gives.")
    notes: list[str]


class Models(BaseModel):
    """The models, the default one first."""

    models: list[Model]


class Health(BaseModel):
    """State of the service."""

    status: Literal["ok"]
    waiting: int = Field(description="Requests that are accepted and not answered.")
    requests: int = Field(description="Requests that were predicted since the start.")
    batches: int = Field(
        description="In which they were predicted: fewer than requests where several of one "
        "model arrived together."
    )


class Version(BaseModel):
    """Version of the package."""

    bandgap: str
