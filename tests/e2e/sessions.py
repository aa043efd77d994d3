"""Sessions of the dashboard without a browser, over the connection that a browser uses."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

PATIENCE_S = 120.0
MAX_BYTES = 200_000_000


@dataclass(frozen=True)
class Visit:
    """One page from the server: its time in seconds, how its script ended, and its elements."""

    seconds: float
    ended: str
    elements: list[Any]

    @property
    def titles(self) -> list[str]:
        return [
            e.heading.body
            for e in self.elements
            if e.WhichOneof("type") == "heading" and e.heading.tag == "h1"
        ]

    @property
    def errors(self) -> list[str]:
        """Return the exceptions of the script and the error boxes of the page."""
        kinds = [(e.WhichOneof("type"), e) for e in self.elements]
        raised = [e.exception.message for kind, e in kinds if kind == "exception"]
        return raised + [
            e.alert.body for kind, e in kinds if kind == "alert" and e.alert.format == e.alert.ERROR
        ]


class Session:
    """One visitor's connection; `with connected(address) as session`."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def visit(self, page: str, **choices: str) -> Visit:
        """Ask for a page, as following a link does, and read until its script has ended."""
        question = BackMsg()
        question.rerun_script.query_string = urlencode(choices)
        question.rerun_script.page_name = page
        started = time.perf_counter()
        elements = []
        self._connection.send(question.SerializeToString())
        while True:
            answer = ForwardMsg.FromString(self._connection.recv(timeout=PATIENCE_S))
            kind = answer.WhichOneof("type")
            if kind == "delta" and answer.delta.WhichOneof("type") == "new_element":
                elements.append(answer.delta.new_element)
            if kind == "script_finished":
                ended = ForwardMsg.ScriptFinishedStatus.Name(answer.script_finished)
                if ended != "FINISHED_EARLY_FOR_RERUN":
                    return Visit(time.perf_counter() - started, ended, elements)


@contextmanager
def connected(address: str) -> Iterator[Session]:
    """Connect to the dashboard as its page in a browser does."""
    stream = f"{address.replace('http://', 'ws://')}/_stcore/stream"
    with connect(stream, subprotocols=[Subprotocol("streamlit")], max_size=MAX_BYTES) as connection:
        yield Session(connection)
