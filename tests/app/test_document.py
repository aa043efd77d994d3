"""The HTML document of the pages."""

import asyncio
from pathlib import Path

import httpx
import streamlit as st
from starlette.applications import Starlette

from bandgap.jobs.dashboard import app_folder


def test_every_page_gets_the_document_of_streamlit_with_the_styles_in_its_head() -> None:
    from app.document import RESERVED_CSS, ROUTES

    index = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    views = [path.stem for path in (app_folder() / "views").glob("*.py")]
    assert len(views) > 8

    async def answers() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=Starlette(routes=ROUTES))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return [await client.get(f"/{path}?ws=x") for path in ("", *views)]

    for answer in asyncio.run(answers()):
        head, _, body = answer.text.partition("</head>")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert head.endswith(f"{RESERVED_CSS}</style>")
        assert body == index.partition("</head>")[2]
