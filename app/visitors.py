"""Who a visitor is: a person whom the proxy names or who has logged in, or the local user.

Streamlit reads the header of the proxy (`server.trustedUserHeaders`, set by `server.py`) and the
cookie of the login when a session starts. Another visitor cannot join the session.
"""

import json
from collections.abc import Mapping
from typing import Any

import streamlit as st
from starlette.requests import Request
from streamlit.auth_util import get_secrets_auth_section
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME
from streamlit.web.server.starlette.starlette_websocket import (
    _get_signed_cookie_with_chunks,
    gather_user_info,
)

NAME = "person"  # key of the proxy's header in st.user


def person() -> str | None:
    """Return the visitor of this session, "" for the local user, None without a login."""
    return _person(st.user.to_dict())


def sender_of(request: Request) -> str | None:
    """Return the visitor who sends a request, as `person` does."""
    user = gather_user_info(request.headers)
    if get_secrets_auth_section():
        cookie = _get_signed_cookie_with_chunks(request.cookies, USER_COOKIE_NAME)
        user = {"is_logged_in": False, **json.loads(cookie or "{}")}
    return _person(user)


def _person(user: Mapping[str, Any]) -> str | None:
    if st.get_option("server.trustedUserHeaders"):
        name = user.get(NAME)
    elif "is_logged_in" in user:
        # some providers do not say it, some say it as a text
        is_verified = user.get("email_verified") in (None, True, "true")
        verified = user.get("is_logged_in") and is_verified
        name = user.get("email") if verified else None
    else:
        return ""
    return str(name or "").strip().lower() or None
