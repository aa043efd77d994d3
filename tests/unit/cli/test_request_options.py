"""Options that are made from the fields of a request."""

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from bandgap.cli.request_options import takes_request
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.requests import Request
from bandgap.runs.requests import PredictRequest, SourceRequest, TransferRequest

VALUES: dict[str, Any] = {
    "window": "1.3:1.7",
    "widen_factor": 2.5,
    "integer": 7,
    "number": 0.25,
    "text": "x",
    "texts": ("H", "C"),
    "integers": (20, 8),
}

# Values of other fields without which a field is refused.
NEEDED: dict[str, dict[str, Any]] = {"widen_factor": {"widen_below_p": 0.05}}


def run_with(request_type: type[Request], *options: str) -> list[Request]:
    """Run a command that takes this request and return what it received."""
    received: list[Request] = []
    app = typer.Typer()

    @app.command()
    @takes_request(request_type)
    def command(out: Annotated[Path, typer.Option()], *, request: Request) -> None:
        received.append(request)

    result = CliRunner().invoke(app, ["--out", "x", *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return received


@pytest.mark.parametrize("request_type", [TransferRequest, PredictRequest, SourceRequest])
def test_command_without_options_has_the_default_request(request_type: type[Request]) -> None:
    assert run_with(request_type) == [request_type()]


FIELDS = [
    pytest.param(request_type, field.name, id=f"{request_type.__name__}-{field.name}")
    for request_type in (TransferRequest, PredictRequest, SourceRequest)
    for field in request_type.fields()
    if field.option is not None
]


@pytest.mark.parametrize(("request_type", "name"), FIELDS)
def test_every_field_has_an_option_that_gives_its_value(
    request_type: type[Request], name: str
) -> None:
    field = request_type.field(name)
    value = {"choice": field.choices[:1], "flag": (True,), "settings": ({"lam": 0.5},)}.get(
        field.kind, (VALUES.get(name, VALUES.get(field.kind)),)
    )[0]
    request = request_type(**{name: value} | NEEDED.get(name, {}))
    options = [text for pair in request.command_options() for text in pair if text]
    assert run_with(request_type, *options) == [request]


def test_option_outside_its_bounds_is_a_usage_error() -> None:
    assert run_with(TransferRequest, "--n", "0") == []


@pytest.mark.parametrize("factor", [1.0, 101.0])
def test_factor_outside_its_bounds_is_refused_with_both_of_them(factor: float) -> None:
    accepted = "Accepted: a number above 1 to 100."
    with pytest.raises(ConfigError, match=accepted):
        PredictRequest(widen_below_p=0.05, widen_factor=factor)
