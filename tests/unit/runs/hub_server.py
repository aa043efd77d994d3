"""A stand-in for the Hugging Face Hub: the addresses that uploads and downloads of models use."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class HubServer(ThreadingHTTPServer):
    """A hub on this machine; `files` are those of its one repository, `reported` false sizes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.reported: dict[str, int] = {}
        self.visibility = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def commit(self) -> str:
        content = repr(sorted(self.files.items())) + repr(self.reported)
        return hashlib.sha1(content.encode()).hexdigest()

    def size(self, name: str) -> int:
        return self.reported.get(name, len(self.files[name]))


@contextmanager
def served_hub() -> Iterator[HubServer]:
    with HubServer() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        action = self.path.partition("?")[0]
        hub = self.server
        if action == "/api/repos/create":
            hub.visibility = json.loads(body)["visibility"]
            self._answer({"url": f"{hub.address}/owner/run"})
        elif action == "/api/validate-yaml":
            assert json.loads(body)["content"].startswith("---\nlibrary_name: bandgap\n")
            self._answer({"errors": [], "warnings": []})
        elif "/preupload/" in action:
            names = [file["path"] for file in json.loads(body)["files"]]
            keys = {"uploadMode": "regular", "shouldIgnore": False}
            self._answer({"files": [{"path": name, **keys} for name in names]})
        elif "/commit/" in action:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    value = line["value"]
                    hub.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "deletedFile":
                    del hub.files[line["value"]["path"]]
            url = f"{hub.address}/owner/run/commit/{hub.commit}"
            self._answer({"commitUrl": url, "commitOid": hub.commit})

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        hub = self.server
        if not path.startswith(("/api/models/owner/run", "/owner/run/resolve/")):
            self._answer({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        elif "/tree/" in path:
            files = [
                {"type": "file", "path": name, "size": hub.size(name), "oid": name}
                for name in hub.files
            ]
            self._answer(files)
        elif "/resolve/" in path:
            name = path.rpartition("/")[2]
            tag = hashlib.sha1(hub.files[name]).hexdigest()
            headers = {"ETag": f'"{tag}"', "X-Repo-Commit": hub.commit}
            self._answer(hub.files[name], 200, headers, size=hub.size(name))
        else:
            siblings = [{"rfilename": name} for name in hub.files]
            self._answer({"id": "owner/run", "sha": hub.commit, "siblings": siblings})

    do_HEAD = do_GET

    def _answer(
        self,
        body: Any,
        code: int = 200,
        headers: dict[str, str] | None = None,
        size: int | None = None,
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if size is None else size))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
