"""Repair of a fault of Streamlit: a late request of a fragment leaves an empty page.

A fragment that redraws itself, or a component in one, sends a request with the page that the
browser shows. The user may have followed a link just before, and the server may not have answered
yet. Then the request names the old page. Streamlit (1.67) merges it with the request of the link,
which is lost. Or it runs the fragment after the new page and tells the browser that the page has
changed; the browser then removes everything that the new page has drawn. Under load this is a
matter of seconds.
"""

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession


class PageRequests:
    """The requests of a session, and the page that it shows or will show next."""

    def __init__(self) -> None:
        self._requested_page = ""
        self._shown_before = ""

    def is_wanted(self, request: ClientState, *, shown_page: str) -> bool:
        """Return whether to carry out a request, which is corrected if it is late.

        A late request of a timer is not carried out. Another one becomes a request for the newest
        page, with what it says of widgets.

        Parameters
        ----------
        request
            A request for a run of the script or of one of its fragments; changed in place.
        shown_page
            Page of the newest run that has begun.
        """
        if request.fragment_id:
            newest_page = self._newest_page(shown_page)
            if newest_page in ("", request.page_script_hash) or not request.page_script_hash:
                return True
            if request.is_auto_rerun:
                return False
            request.fragment_id = ""
            request.page_script_hash = newest_page
        self._requested_page = request.page_script_hash
        self._shown_before = shown_page
        return True

    def _newest_page(self, shown_page: str) -> str:
        """Return the page of the newest request, or the one that its run has switched to.

        It is "" after the first request of a session, which names its page by the address alone.
        """
        has_begun = shown_page != self._shown_before
        return shown_page if has_begun and self._requested_page else self._requested_page


def correct_late_fragments() -> None:
    """Let every session correct the requests of its fragments from now on."""
    if getattr(AppSession.request_rerun, "corrects_late_fragments", False):
        return
    request_rerun = AppSession.request_rerun

    def request_corrected(session: AppSession, client_state: ClientState | None) -> None:
        if client_state is not None:
            requests = vars(session).setdefault("bandgap_page_requests", PageRequests())
            if not requests.is_wanted(client_state, shown_page=session.page_script_hash):
                return
        request_rerun(session, client_state)

    request_corrected.corrects_late_fragments = True  # type: ignore[attr-defined]
    AppSession.request_rerun = request_corrected  # type: ignore[assignment, method-assign]
