"""The report of a run as PDF, printed by an installed browser."""

import re
import socket
from pathlib import Path

import pytest

from bandgap.foundation.browsers import find_browser
from bandgap.foundation.errors import InputError
from bandgap.runs.html_report import write_report
from bandgap.runs.pdf_report import pdf_bytes
from tests.unit.runs.brief_transfer import transfer


def test_report_is_printed_with_its_figures(source_folder, world, tmp_path: Path) -> None:
    if find_browser() is None:
        pytest.skip("no browser is installed")
    run = transfer(source_folder, world, tmp_path / "run", n_test=6)
    file = write_report(run, tmp_path / "new" / "report.pdf")
    content = file.read_bytes()
    assert content.startswith(b"%PDF-")
    empty = pdf_bytes("<!doctype html><p>A page.</p>")
    assert len(content) > 3 * len(empty)
    assert content.count(b"/Type /Page\n") >= 2 or content.count(b"/Type /Page") >= 3


def test_printed_page_reads_no_file_and_reaches_no_server(tmp_path: Path) -> None:
    if find_browser() is None:
        pytest.skip("no browser is installed")
    secret = tmp_path / "secret.html"
    secret.write_text("<script>parent.postMessage('read', '*')</script>")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        datagrams.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        page = f"""<!doctype html><title>nothing ran</title>
            <script>
            document.title = "ran";
            onmessage = (event) => {{ document.title = event.data; }};
            new Image().src = "http://{address}/picture";
            fetch("http://{address}/data").catch(() => 0);
            new WebSocket("ws://{address}/socket");
            const peer = new RTCPeerConnection(
              {{iceServers: [{{urls: "stun:127.0.0.1:{datagrams.getsockname()[1]}"}}]}});
            peer.createDataChannel("data");
            peer.createOffer().then((offer) => peer.setLocalDescription(offer));
            </script>
            <iframe src="{secret.as_uri()}"></iframe><iframe src="http://{address}/frame"></iframe>
        """
        assert re.findall(rb"/Title \((.*)\)", pdf_bytes(page)) == [b"ran"]
        for listener in (server, datagrams):
            listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
        with pytest.raises(BlockingIOError):
            datagrams.recv(1)


def test_without_a_browser_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert find_browser() is None
    with pytest.raises(InputError, match=r"Write the report as \.html"):
        pdf_bytes("<p>")
