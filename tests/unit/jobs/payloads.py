"""Payloads of jobs in tests: what the pages write into the job table."""

from typing import Any

from bandgap.runs.requests import SourceRequest, TransferRequest


def transfer_payload(
    *, run: str, dataset: str, source: str = "toy", **fields: Any
) -> dict[str, Any]:
    """Return the payload of a transfer; `fields` are those of its request."""
    return {
        "run": run,
        "dataset": dataset,
        "source": source,
        "request": TransferRequest(**fields).to_values(),
    }


def source_payload(*, source: str, name: str = "mine", **values: Any) -> dict[str, Any]:
    """Return the payload of a training; values that are no fields of its request stay outside."""
    fields = {name: values.pop(name) for name in list(values) if name in SourceRequest.model_fields}
    return {
        "source": source,
        "name": name,
        **values,
        "request": SourceRequest(**fields).to_values(),
    }
