"""The web server of the dashboard, which `bandgap app` runs: Streamlit's application, access rules and limits.

Streamlit's own command for this (`streamlit run`) asks the internet for the external address of the machine at its
start, and limits neither connections nor their time.
"""

import asyncio
import contextlib
import gc
import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import streamlit as st
import uvicorn
from starlette.middleware import Middleware
from streamlit import runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.runtime_util import get_max_message_size_bytes
from streamlit.web import bootstrap

from bandgap.jobs.access import VARIABLE, AccessMiddleware, AccessRules
from bandgap.jobs.connections import ConnectionLimits, server_options
from bandgap.jobs.log_lines import limited_stderr

MAIN = Path(__file__).resolve().parent / "main.py"
OPTIONS = {  # of Streamlit, over those of `.streamlit/config.toml` in this and in the user's folders
    "logger.level": "warning",
    "browser.gatherUsageStats": False,
    "server.headless": True,
    "server.fileWatcherType": "none",
}
CLEANING_S = 30.0
GRACE_S = 5  # for responses on their way when the server is told to end
PING_S = 30.0  # of a WebSocket, and the time in which it must be answered


def main() -> None:
    """Serve until SIGINT or SIGTERM; the argument is JSON with the fields of AccessRules other than the token."""
    settings = json.loads(sys.argv[1])
    settings["host_names"] = tuple(settings["host_names"])
    rules = AccessRules(**settings, token=os.environ.pop(VARIABLE, None))
    with limited_stderr():
        server_of(rules).run()


def server_of(rules: AccessRules, limits: ConnectionLimits = ConnectionLimits()) -> uvicorn.Server:
    """Return the server of the pages."""
    app = st.App(MAIN, lifespan=cleaning, middleware=[Middleware(AccessMiddleware, rules=rules)])
    bootstrap.load_config_options({**OPTIONS, "server.port": rules.port})
    config = uvicorn.Config(
        app,
        host=rules.host,
        port=rules.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="websockets-sansio",
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_max_size=get_max_message_size_bytes(),
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=GRACE_S,
        **server_options(limits),
    )
    return uvicorn.Server(config)


@contextlib.asynccontextmanager
async def cleaning(app: st.App) -> AsyncIterator[None]:
    """Free memory by the clock while the server runs."""
    task = asyncio.create_task(_clean_repeatedly())
    try:
        yield
    finally:
        task.cancel()


async def _clean_repeatedly() -> None:
    while True:
        await asyncio.sleep(CLEANING_S)
        clean()


def clean() -> None:
    """Free what ended sessions and script runs have left behind.

    Streamlit forgets an ended session, and with it the uploads, only when later sessions end.
    """
    server = runtime.get_instance()
    sessions = {info.session.id for info in server._session_mgr.list_sessions()}
    uploads = server.uploaded_file_mgr
    assert isinstance(uploads, MemoryUploadedFileManager)  # as st.App makes it
    for session_id in set(uploads.file_storage) - sessions:
        uploads.remove_session_files(session_id)
    gc.collect()


def import_app_package() -> None:
    """Import the folder of this file under the name `app`, by which the pages import each other.

    The folder is `app` in a checkout and `bandgap/_app` in an installed package, where no package
    `app` is importable. A package of that name elsewhere, such as one in the working directory of
    the user, is not used.
    """
    spec = importlib.util.spec_from_file_location("app", MAIN.parent / "__init__.py")
    assert spec is not None and spec.loader is not None  # the path of a Python file was given
    package = importlib.util.module_from_spec(spec)
    sys.modules["app"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    import_app_package()
    main()
