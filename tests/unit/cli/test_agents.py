"""`bandgap mcp`: an agent calls the tools through the client of the SDK, over stdio."""

import csv
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.unit.cli.conftest import Run, commands_in, write_eight_waters

mcp = pytest.importorskip("mcp")

SERVER = ["-m", "bandgap", "mcp"]


@pytest.fixture(scope="module")
def folder(source_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that an agent may read: structures, one of them broken, and a run made from them."""
    path = tmp_path_factory.mktemp("project")
    waters = write_eight_waters(path)
    (path / "broken.cif").write_text("data_broken\n")
    words = "--label gap_eV --level-of-theory PBE --method kernel_ridge --n-test 3".split()
    with commands_in(path) as run:
        data = ("--source", source_folder, "--structures", waters)
        assert run("transfer", *data, *words, "--out", path / "run").exit_code == 0
    return path


def talk(readable: Path, *calls: tuple[str, dict[str, Any]]) -> tuple[Any, list[Any]]:
    """Return the tools of the server, and the answers to calls."""

    async def session() -> tuple[Any, list[Any]]:
        words = [*SERVER, str(readable)]
        server = mcp.StdioServerParameters(
            command=sys.executable, args=words, env=dict(os.environ), cwd=readable
        )
        async with mcp.Client(server) as client:
            tools = (await client.list_tools()).tools
            return tools, [await client.call_tool(*call) for call in calls]

    with ThreadPoolExecutor(1) as pool:  # the tests in a browser run an event loop in this thread
        return pool.submit(anyio.run, session).result()


def texts_of(answer: Any) -> list[str]:
    assert not answer.is_error, answer.content
    return [content.text for content in answer.content]


def rows_of(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(texts_of(answer)[0].splitlines()))


def test_tools_have_the_settings_of_the_requests_and_write_nothing(folder: Path) -> None:
    tools, _ = talk(folder)
    names = {tool.name: [*tool.input_schema["properties"]] for tool in tools}
    assert names == {
        "check": ["paths"],
        "predict": [
            *("model", "structures", "baselines", "probability", "interval", "window"),
            *("withhold_below_p", "widen_below_p", "widen_factor", "features"),
        ],
        "explain": [
            *("run", "new", "count", "baselines", "features", "labelled_features", "structures"),
            *("label", "labels", "unit", "column", "id_column"),
        ],
        "compute_next": [
            *("model", "structures", "count", "rank_by", "window", "spread", "baselines"),
            "features",
        ],
        "describe_run": ["run"],
    }
    predict = next(tool for tool in tools if tool.name == "predict")
    assert predict.input_schema["required"] == ["model", "structures"]
    assert predict.input_schema["properties"]["interval"]["enum"][0] == "prediction"


def test_answers_have_intervals_reasons_and_notes(folder: Path) -> None:
    files = ["waters.extxyz", "broken.cif"]
    water = str(folder / "waters.extxyz")
    _, answers = talk(
        folder,
        ("check", {"paths": files}),
        ("predict", {"model": "run", "structures": files, "probability": 0.9}),
        ("explain", {"run": "run", "new": [water], "count": 2}),
        ("compute_next", {"model": "run", "structures": [water], "window": "7:7.3"}),
        ("describe_run", {"run": "run"}),
    )
    checked, predicted, explained, ranked, described = answers
    verdicts = [json.loads(line) for line in texts_of(checked)[0].splitlines()]
    assert [row["status"] for row in verdicts].count("refused") == 1
    rows = rows_of(predicted)
    assert len(rows) == 9 and {row["level"] for row in rows} == {"0.9"}
    for row in rows:
        if row["status"] == "refused":
            assert row["problem"] and not row["lower_eV"]
        else:
            assert float(row["lower_eV"]) <= float(row["mean_eV"]) <= float(row["upper_eV"])
    assert "1 refused" in texts_of(predicted)[1]
    assert [row["part"] for row in rows_of(explained)].count("label") == 16
    assert "learned from" in texts_of(ranked)[1]
    assert "## Not for" in texts_of(described)[0]


def test_paths_outside_are_refused_also_through_links(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.cif"
    secret.write_text("secret\n")
    linked = folder / "linked"
    linked.mkdir()
    (linked / "link.cif").symlink_to(secret)
    (folder / "elsewhere").symlink_to(tmp_path)
    elsewhere = folder / "stranger"
    elsewhere.mkdir()
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    manifest["inputs"]["structures"] = [str(secret)]
    (elsewhere / "manifest.json").write_text(json.dumps(manifest))
    inside = {"structures": ["waters.extxyz"]}
    _, answers = talk(
        folder,
        ("check", {"paths": [str(secret)]}),
        ("check", {"paths": ["waters.extxyz", str(tmp_path)]}),
        ("check", {"paths": ["linked"]}),
        ("check", {"paths": ["elsewhere/secret.cif"]}),
        ("check", {"paths": ["run/../../secret.cif"]}),
        ("predict", {"model": "run", **inside, "features": str(secret)}),
        ("describe_run", {"run": str(tmp_path)}),
        ("explain", {"run": "stranger", "new": ["waters.extxyz"]}),
        ("explain", {"run": "run", "new": ["waters.extxyz"], "structures": [str(secret)]}),
    )
    for answer in answers:
        assert answer.is_error
        assert answer.content[0].text.endswith(f", in what may be read here: {folder}.")


def test_unknown_tools_arguments_and_outputs_are_refused(folder: Path) -> None:
    data = {"model": "run", "structures": ["waters.extxyz"]}
    _, answers = talk(
        folder,
        ("transfer", {}),
        ("predict", {**data, "out": "gaps.csv"}),
        ("describe_run", {"run": "hf://owner/run"}),
    )
    messages = ("no tool 'transfer'", "no argument 'out'", "no such folder")
    for answer, message in zip(answers, messages, strict=True):
        assert answer.is_error and message in answer.content[0].text


def test_stdout_has_nothing_but_the_protocol(folder: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "test", "version": "1"}
    call = {"name": "check", "arguments": {"paths": [str(folder / "broken.cif")]}}
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    with subprocess.Popen(
        [sys.executable, *SERVER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
        assert server.stdout.read() == ""
    assert "refused" in answers[1]["result"]["content"][0]["text"]


def test_server_without_its_package_says_what_to_install(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    refused = run("mcp", folder)
    assert refused.exit_code == 1 and "'.[mcp]'" in refused.stderr
