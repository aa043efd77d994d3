"""The web server of the dashboard, which `bandgap app` runs.

It adds access rules and limits to Streamlit's application. It is used instead of `streamlit run`,
which asks an internet service for the external address of the machine when it starts.
"""

import asyncio
import contextlib
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

from bandgap.jobs import connections
from bandgap.jobs.access import VARIABLE, AccessMiddleware, AccessRules, read_login

MAIN = Path(__file__).resolve().parent / "main.py"
# Options of Streamlit. They override `.streamlit/config.toml` of this folder and of the user.
OPTIONS = {
    "logger.level": "warning",
    "browser.gatherUsageStats": False,
    "server.headless": True,
    "server.fileWatcherType": "none",
    "server.baseUrlPath": "",  # of other applications of the user; the addresses here have none
    "secrets.files": [],  # of other applications of the user
}
CLEANING_S = 30.0
# Time to finish open responses when the server is stopped.
GRACE_S = 5
# Interval between pings of a WebSocket, and the time limit for the answer.
PING_S = 30.0


def main() -> None:
    """Serve until SIGINT or SIGTERM.

    The command-line argument is JSON with the fields of AccessRules except the token.
    """
    settings = json.loads(sys.argv[1])
    settings["host_names"] = tuple(settings["host_names"])
    rules = AccessRules(**settings, token=os.environ.pop(VARIABLE, None))
    server_of(rules).run()


def server_of(rules: AccessRules) -> uvicorn.Server:
    """Return the server of the pages."""
    # `app` can be imported only after `import_app_package` where the package is installed
    from app.components.structures.picture_route import ROUTE
    from app.document import ROUTES
    from app.download_time import keep_downloads
    from app.late_fragments import correct_late_fragments
    from app.upload_limits import limit_uploads
    from app.visitors import NAME

    correct_late_fragments()
    keep_downloads()
    limit_uploads()
    app = st.App(
        MAIN,
        lifespan=cleaning,
        routes=[ROUTE, *ROUTES],
        middleware=[Middleware(AccessMiddleware, rules=rules)],
        secrets={"auth": read_login(Path(rules.login))} if rules.login else None,
    )
    headers = {rules.user_header: NAME} if rules.user_header else {}
    options = {"server.port": rules.port, "server.trustedUserHeaders": headers}
    bootstrap.load_config_options({**OPTIONS, **options})
    config = uvicorn.Config(
        app,
        host=rules.host,
        port=rules.port,
        access_log=False,
        ws="websockets-sansio",
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_max_size=get_max_message_size_bytes(),
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=GRACE_S,
        **connections.OPTIONS,
    )
    return uvicorn.Server(config)


@contextlib.asynccontextmanager
async def cleaning(app: st.App) -> AsyncIterator[None]:
    """Free memory every `CLEANING_S` seconds while the server runs."""
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
    """Free the memory of ended sessions and script runs.

    Streamlit removes an ended session and its uploads only when a later session ends.
    """
    from app.memory import collect_garbage  # imported late, as in `server_of`

    server = runtime.get_instance()
    sessions = {info.session.id for info in server._session_mgr.list_sessions()}
    uploads = server.uploaded_file_mgr
    assert isinstance(uploads, MemoryUploadedFileManager)  # the type that st.App creates
    for session_id in set(uploads.file_storage) - sessions:
        uploads.remove_session_files(session_id)
    server.media_file_mgr.remove_orphaned_files()
    collect_garbage()


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
