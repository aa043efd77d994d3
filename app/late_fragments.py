"""Repair of a fault of Streamlit: a late request of a fragment leaves an empty page.

A fragment that redraws itself, or a component in one, sends a request with the page that the
browser shows. The user may have followed a link just before, or the script may switch to another
page, and the browser does not know it yet. Then the request names the old page. Streamlit (1.67)
merges it with the request of the link, which is lost. Or it runs the fragment after the new page
and tells the browser that the page has changed; the browser then removes everything that the new
page has drawn. Under load this is a matter of seconds.
"""

from dataclasses import replace

from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import (
    RerunData,
    ScriptRequests,
    ScriptRequestType,
)


def corrected(request: RerunData, *, page: str) -> RerunData | None:
    """Return a late request of a fragment as one for the newest page, None for one of a timer.

    What it says of widgets is kept. Another request is returned as it is.

    Parameters
    ----------
    request
        A request for a run of the script or of some of its fragments.
    page
        Hash of the page that is shown or requested, "" before the first one.
    """
    is_of_fragments = bool(request.fragment_id or request.fragment_id_queue)
    requested_page = request.page_script_hash
    if not is_of_fragments or not requested_page or page in ("", requested_page):
        return request
    if request.is_auto_rerun:
        return None
    return replace(request, fragment_id=None, fragment_id_queue=[], page_script_hash=page)


def correct_late_fragments() -> None:
    """Let every session correct the requests of its fragments from now on."""
    if getattr(ScriptRequests.request_rerun, "corrects_late_fragments", False):
        return
    request_rerun = ScriptRequests.request_rerun
    run_script = ScriptRunner._run_script

    def request_corrected(requests: ScriptRequests, request: RerunData) -> bool:
        waiting = requests._rerun_data
        is_for_page = requests._state == ScriptRequestType.RERUN and not waiting.fragment_id_queue
        page = str(waiting.page_script_hash) if is_for_page else ""
        if request.is_auto_rerun and waiting.fragment_id_queue and not waiting.is_auto_rerun:
            request = replace(request, is_auto_rerun=False)  # what a user pressed is not a timer's
        correction = corrected(request, page=page)
        return True if correction is None else request_rerun(requests, correction)

    def run_corrected(runner: ScriptRunner, request: RerunData) -> None:
        correction = corrected(request, page=runner._pages_manager.current_page_script_hash)
        if correction is not None:
            run_script(runner, correction)

    request_corrected.corrects_late_fragments = True  # type: ignore[attr-defined]
    ScriptRequests.request_rerun = request_corrected  # type: ignore[assignment, method-assign]
    ScriptRunner._run_script = run_corrected  # type: ignore[assignment, method-assign]
