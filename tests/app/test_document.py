"""The HTML document of the pages."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from bandgap.jobs.dashboard import app_folder

UNKNOWN = "nosuch"


def answers(paths: Sequence[str]) -> list[httpx.Response]:
    """Return the answers of the routes; "other" where none of them answers."""
    from app.document import ROUTES

    server = Starlette(routes=[*ROUTES, Mount("/", PlainTextResponse("other"))])

    async def collected() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=server)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return [await client.get(path) for path in paths]

    return asyncio.run(collected())


def test_every_address_of_a_page_gets_the_document_with_the_styles_in_its_head() -> None:
    from app.document import RESERVED_CSS

    index = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    views = [path.stem for path in (app_folder() / "views").glob("*.py")]
    assert len(views) > 8
    for answer in answers([f"/{name}?ws=x" for name in ("", *views, UNKNOWN)]):
        head, _, body = answer.text.partition("</head>")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert head.endswith(f"{RESERVED_CSS}</style>")
        assert body == index.partition("</head>")[2]


@pytest.mark.parametrize(
    "path",
    [
        "/index.html",
        "/favicon.png",
        "/static/js/index.js",
        "/_stcore/health",
        "/media/figure.html",
        "/oauth2callback",
    ],
)
def test_files_and_paths_of_streamlit_are_not_pages(path: str) -> None:
    (answer,) = answers([path])
    assert answer.text == "other"
