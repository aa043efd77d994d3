"""The texts of the OpenAPI description, and an HTML page of it that loads no other files."""

from collections.abc import Mapping
from html import escape
from typing import Any, Final

from bandgap.jobs.service.requests import NUMBERS, OPTIONS
from bandgap.predictions.interval_kinds import INTERVAL_KINDS
from bandgap.structures.formats import NAMES

ABOUT: Final = (
    "Band gaps of crystals with intervals, from stored runs. POST /predict takes structures as a "
    f"bare file ({NAMES}; also gzipped or zipped), as an upload of several, or as JSON "
    "(a request, or what a file may contain), and answers with the fields of the CSV of `bandgap "
    "predict`: one row for every structure, refused ones with the reason. Numbers are those of "
    "`bandgap predict` on the same structures, to the last digit. The code is 422, with the rows, "
    "where no structure can be used. A gap is not negative: a lower end of 0 means that the model "
    "cannot rule out a gap of zero."
)
_STRUCTURE: Final = {
    "type": "object",
    "description": 'A file ("content", "name"), or a structure as in a file of JSON: as ASE has it '
    '("numbers" or "symbols", "positions" in angstrom, "cell", "pbc"), as pymatgen writes it '
    '("lattice", "sites"), and others. "id" names it; "baseline_eV" is for models with a baseline.',
}
_WATER: Final = {
    "id": "water",
    "symbols": ["O", "H", "H"],
    "positions": [[0, 0, 0], [0.76, 0, 0.5], [-0.76, 0, 0.5]],
}
_REQUEST: Final = {
    "type": "object",
    "required": ["structures"],
    "properties": {
        "structures": {"type": "array", "items": _STRUCTURE},
        **{name: {"type": "number" if name in NUMBERS else "string"} for name in OPTIONS},
        "interval": {"type": "string", "enum": list(INTERVAL_KINDS)},
    },
}
_FILE: Final = {
    "type": "object",
    "description": "Any JSON that a file may contain, such as a response of OPTIMADE. Model, level,"
    " interval, window, changed intervals and baseline_eV are then in the address.",
}
BODY: Final[dict[str, Any]] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "anyOf": [_REQUEST, {"type": "array", "items": _STRUCTURE}, _STRUCTURE, _FILE]
            },
            "example": {"structures": [_WATER], "level": 0.95, "interval": "prediction"},
        },
        "text/plain": {
            "schema": {
                "type": "string",
                "description": "One file; its name may be given by `name`.",
            }
        },
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {
                    "files": {"type": "array", "items": {"type": "string", "format": "binary"}}
                },
            }
        },
    },
}
EXAMPLE: Final = (
    "curl --data-binary @benzene.cif 'ADDRESS/predict?name=benzene.cif&level=0.9'\n"
    "curl -F files=@a.cif -F files=@b.extxyz 'ADDRESS/predict?interval=credible'\n"
    "curl -H 'Authorization: Bearer TOKEN' ADDRESS/models"
)
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70ch;margin:2rem auto;padding:0 1rem;"
    "color:#1B1F24}"
    "pre{background:#f4f5f6;padding:.7rem;white-space:pre-wrap}"
    "pre,p,td,h2{overflow-wrap:anywhere}"
    "h2{margin-top:2rem}"
    "td{padding:.1rem .8rem .1rem 0;vertical-align:top}td code{overflow-wrap:normal}"
)


def documentation_page(schema: Mapping[str, Any]) -> str:
    """Return an HTML page of an OpenAPI description: addresses, parameters and codes."""
    parts = []
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2>{escape(method.upper())} {escape(path)}</h2>")
            parts.append(f"<p>{escape(operation.get('description', ''))}</p>")
            parts.append(
                _table(
                    {
                        f"?{p['name']}": p.get("description", "")
                        for p in operation.get("parameters", ())
                    }
                )
            )
            parts.append(
                _table(
                    {code: answer["description"] for code, answer in operation["responses"].items()}
                )
            )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>bandgap</title><meta "
        f"name='viewport' content='width=device-width, initial-scale=1'><style>{_STYLE}</style>"
        "<h1>bandgap "
        f"{escape(schema['info']['version'])}</h1><p>{escape(schema['info']['description'])}</p>"
        f"<pre>{escape(EXAMPLE)}</pre><p>The whole description for programs is at <a "
        f"href='openapi.json'>openapi.json</a>.</p>{''.join(parts)}</html>"
    )


def _table(rows: Mapping[str, str]) -> str:
    cells = "".join(
        f"<tr><td><code>{escape(a)}</code></td><td>{escape(b)}</td></tr>" for a, b in rows.items()
    )
    return f"<table>{cells}</table>" if cells else ""
