"""Refusals of the service: a code and a message, without an effect on other requests."""

import socket
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from bandgap.foundation.errors import ConfigError
from bandgap.jobs.service.limits import ServiceLimits
from bandgap.jobs.service.models import ServedModel
from bandgap.jobs.service.tokens import VARIABLE, check_host, token_of
from tests.unit.jobs.service.conftest import LIMITS, Runs, serving
from tests.unit.jobs.service.test_predict import WATER, as_cif, crystal

TOKEN = "a-token-of-twenty-four-c"
FRAME = b"3\n\nO 0 0 0.1\nH 0.76 0 -0.5\nH -0.76 0 -0.5\n"


def refusal_message(answer: httpx.Response, code: int) -> str:
    """Return the message of a refusal with this code."""
    assert answer.status_code == code, answer.text
    text = answer.json()["detail"]
    assert isinstance(text, str) and len(text) > 10 and "Traceback" not in answer.text
    return text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"positions": [[0, 0], [0, 1], [1, 1]]}, "positions has the shape (3, 2)"),
        ({"baseline_eV": "1.5"}, "baseline_eV is '1.5', which is no band gap"),
        ({"content": 3}, "content must be the text of a file"),
        ({"content": "x", "name": "../../a"}, "'../../a' is not accepted as a file's name"),
        ({"content": "x", "name": "C:\\a.cif"}, "Send a plain name such as benzene.cif"),
        (
            {"positions": {"__ndarray__": [[3, 3], "float64", [1.0]]}},
            "an array of ASE (__ndarray__) has the wrong shape",
        ),
        ({"sites": [{"species": [{"element": "C"}]}]}, "xyz of site 1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_structure_of_a_wrong_shape_is_its_own_refused_row(
    client: httpx.Client, change: dict, expected: str
) -> None:
    for entries in ([{**WATER, **change}, WATER], {"structures": [{**WATER, **change}, WATER]}):
        answer = client.post("/predict", json=entries)
        assert answer.status_code == 200, answer.text
        bad, good = answer.json()["rows"]
        assert bad["status"] == "refused" and expected in bad["problem"]
        assert good["status"] != "refused"


@pytest.mark.parametrize(
    ("body", "code", "expected"),
    [
        ('{"structures": [', 400, "The body is not JSON that can be read"),
        ('{"a": NaN}', 422, "It has no atoms with positions"),
        ('[{"positions": [[-Infinity]], "symbols": ["C"]}]', 422, "positions has the shape"),
        ("[" * 100_000, 400, "it is nested deeper than"),
        ("[" + "9" * 5000 + "]", 400, "The body is not JSON that can be read"),
        ('{"structures": [1], "level": ' + "9" * 400 + "}", 422, "Accepted: a number such as"),
        ('{"id": 1, "id": 2}', 400, "The JSON has the key 'id' twice"),
        (b"\xff\xfe\x00", 400, "The body is not JSON: it is not UTF-8"),
        ("[]", 422, "It has no atoms with positions"),
        ('{"structures": {}}', 422, '"structures" must be a list of at least one structure'),
        (
            '{"structures": [], "lever": 1}',
            422,
            "The body has the field 'lever'. Accepted: structures, model",
        ),
        ('"text"', 422, "It has no atoms with positions; compositions alone are not enough"),
        ('{"structures": [1]}', 422, "an entry without a structure. Accepted: lattice and sites"),
        (
            '{"structures": [], "level": "much"}',
            422,
            "level is 'much'. Accepted: a number such as 0.95.",
        ),
        (
            '{"structures": [' + ",".join(["{}"] * 51) + "]}",
            413,
            "More than 50 structures in one request, the limit",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_body_that_is_no_request_is_refused(
    client: httpx.Client, body: str, code: int, expected: str
) -> None:
    assert expected in refusal_message(
        client.post("/predict", content=body, headers={"content-type": "application/json"}), code
    )


@pytest.mark.parametrize(
    ("params", "code", "expected"),
    [
        (
            {"model": "../bayesian"},
            404,
            "There is no such model. Served here: bayesian, conformal, cheap.",
        ),
        (
            {"level": "95"},
            422,
            "level is 95. Accepted: 0.01 to 0.99, such as 0.95. For 95 % write 0.95.",
        ),
        ({"level": "nan"}, 422, "level is nan"),
        ({"level": "high"}, 422, "level: "),
        ({"interval": "wide"}, 422, "interval is 'wide'. Accepted: prediction"),
        ({"interval": "conformal"}, 422, "conformal"),
        ({"name": "a/../../b.cif"}, 422, "is not accepted as a file's name"),
        ({"baseline_eV": "1,x"}, 422, "baseline_eV is 'x', which is no band gap"),
        ({"baseline_eV": "1,2"}, 422, "baseline_eV holds 2 numbers for 1 structures"),
        (
            {"baseline_eV": "-1"},
            422,
            "baseline_eV is '-1', which is no band gap. Accepted: 0 to 100; is the unit eV?",
        ),
        (
            {"baseline_eV": "1e300", "model": "cheap"},
            422,
            "baseline_eV is '1e300', which is no band gap",
        ),
        ({"interval": "wide\n" * 500}, 422, "interval is 'wide?wide?"),
    ],
    ids=str,
)
def test_address_that_makes_no_sense_is_refused(
    client: httpx.Client, params: dict, code: int, expected: str
) -> None:
    assert expected in refusal_message(client.post("/predict", params=params, content=FRAME), code)


def test_disorder_and_nonsense_keep_their_rows_with_the_reason(client: httpx.Client) -> None:
    disordered = as_cif(crystal()).replace(b"1.0000", b"0.5000")
    site = {
        "species": [{"element": "C", "occu": 0.5}, {"element": "N", "occu": 0.5}],
        "abc": [0, 0, 0],
        "label": "C1",
    }
    mixed = [
        {"lattice": {"matrix": np.eye(3).tolist()}, "sites": [site]},
        {**WATER, "symbols": ["O", "Q", "H"]},
        WATER,
    ]
    assert "has occupancy 0.5" in refusal_message(client.post("/predict", content=disordered), 422)
    answer = client.post("/predict", json=mixed)
    assert answer.status_code == 200
    assert [row["status"] for row in answer.json()["rows"]][:2] == ["refused", "refused"]
    problem = answer.json()["rows"][0]["problem"]
    assert "site 1 contains 'C 0.5, N 0.5'. Disordered structures" in problem
    none = client.post("/predict", json=mixed[:2])
    assert (
        "None of 2 structures can be used: site 1" in refusal_message(none, 422)
        and len(none.json()["rows"]) == 2
    )


def test_body_over_the_limit_is_refused_announced_or_not(client: httpx.Client) -> None:
    large = b" " * (LIMITS.max_body_bytes + 1)
    assert "larger than 200,000 bytes" in refusal_message(
        client.post("/predict", content=large), 413
    )
    chunks = (large[start : start + 10_000] for start in range(0, len(large), 10_000))
    assert "larger than 200,000 bytes" in refusal_message(
        client.post("/predict", content=chunks), 413
    )
    assert "More than 50 structures" in refusal_message(
        client.post("/predict", content=FRAME * 51), 413
    )
    many = [{"content": (FRAME * 51).decode(), "name": "a.xyz"}, "never read"]
    assert "More than 50 structures" in refusal_message(client.post("/predict", json=many), 413)
    files = [("files", (f"{k}.xyz", FRAME * 30)) for k in range(2)]
    assert "More than 50 structures" in refusal_message(client.post("/predict", files=files), 413)


def test_uploads_that_make_no_sense_are_refused(client: httpx.Client) -> None:
    boundless = {"content-type": "multipart/form-data"}
    assert "boundary" in refusal_message(
        client.post("/predict", content=b"x", headers=boundless), 400
    )
    torn = {"content-type": "multipart/form-data; boundary=a"}
    refusal_message(client.post("/predict", content=b"--b\r\nnonsense", headers=torn), 400)
    refusal_message(client.post("/predict", content=b"--a--\r\n", headers=torn), 422)
    part = (
        b'--a\r\nContent-Disposition: form-data; name="f"; filename="a.xyz"\r\n\r\n'
        + FRAME
        + b"\r\n"
    )
    assert client.post("/predict", content=part * 2 + b"--a--", headers=torn).status_code == 200
    for cut in (part * 2, part * 2 + b"--a", (part * 2)[:-20]):
        assert "it is cut off, as its closing" in refusal_message(
            client.post("/predict", content=cut, headers=torn), 400
        )
    undefined = {"content-type": "multipart/form-data; boundary=a; charset=undefined"}
    unknown = client.post("/predict", content=part + b"--a--", headers=undefined)
    assert "do not fit its boundary and charset" in refusal_message(unknown, 400)
    mixed = client.post("/predict", files={"f": ("a.xyz", FRAME)}, data={"level": "0.5"})
    assert "Put model, level and interval into the address" in refusal_message(mixed, 422)
    path = client.post("/predict", files={"f": ("../a.xyz", FRAME)})
    assert "is not accepted as a file's name" in refusal_message(path, 422)


def test_unknown_address_method_and_host_are_refused(client: httpx.Client) -> None:
    assert refusal_message(client.get("/../etc/passwd"), 404).startswith(
        "There is no GET of this address."
    )
    assert refusal_message(client.delete("/models"), 405) == (
        "/models does not accept DELETE. Accepted: GET."
    )
    assert client.get("/predict").headers["allow"] == "POST"
    assert client.get("/models", headers={"host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "lvl=0.5",
            "The address has the name 'lvl'. Accepted: model, level, interval, "
            "window, withhold_below_p, widen_below_p, widen_factor, name, baseline_eV.",
        ),
        ("level=0.5&level=0.9", "The address has level 2 times. Give it once."),
    ],
)
def test_unknown_or_repeated_name_in_the_address_is_refused(
    client: httpx.Client, query: str, message: str
) -> None:
    assert refusal_message(client.post(f"/predict?{query}", content=FRAME), 422) == message
    answer = client.get(f"/models?{query}")
    assert "None is accepted." in refusal_message(answer, 422)


def test_token_is_needed_for_models_and_predictions_only(runs: Runs) -> None:
    with (
        serving([runs.conformal], token=TOKEN) as address,
        httpx.Client(base_url=address) as client,
    ):
        assert client.get("/health").json() == {
            "status": "ok",
            "waiting": 0,
            "requests": 0,
            "batches": 0,
        }
        assert client.get("/version").status_code == client.get("/docs").status_code == 200
        for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
            message = refusal_message(client.get("/models", headers=header), 401)
            assert "Authorization: Bearer TOKEN" in message and TOKEN not in message
            refusal_message(client.post("/predict", content=FRAME, headers=header), 401)
        good = {"authorization": f"Bearer {TOKEN}"}
        assert [
            model["name"] for model in client.get("/models", headers=good).json()["models"]
        ] == ["conformal"]
        assert client.post("/predict", content=FRAME, headers=good).status_code == 200


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of Linux")
@pytest.mark.parametrize("token", [None, TOKEN])
def test_header_of_a_person_counts_from_the_proxy_alone(runs: Runs, token: str | None) -> None:
    proxy = httpx.HTTPTransport(local_address="127.0.0.2")
    rules = {"user_header": "X-User", "trusted_proxy": "127.0.0.2"}
    with (
        serving([runs.conformal], token=token, **rules) as address,
        httpx.Client(base_url=address, transport=proxy) as proxied,
        httpx.Client(base_url=address) as client,
    ):
        header = {"X-User": "ann", "X-Forwarded-For": "127.0.0.2"}
        assert proxied.get("/models", headers=header).status_code == 200
        for answer in (client.get("/models", headers=header), proxied.get("/models")):
            refusal_message(answer, 401)
        with_token = client.get("/models", headers={"authorization": f"Bearer {TOKEN}"})
        assert with_token.status_code == (401 if token is None else 200)


def test_token_comes_from_a_file_or_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert token_of(None) is None
    monkeypatch.setenv(VARIABLE, TOKEN)
    file = tmp_path / "token"
    file.write_text("another-token-of-28-characters\n")
    assert (token_of(None), token_of(file)) == (TOKEN, "another-token-of-28-characters")
    for text in ("short", "two words are no token here", ""):
        file.write_text(text)
        with pytest.raises(
            ConfigError, match="not a token. Accepted: one word of at least 16 ASCII characters"
        ):
            token_of(file)
    with pytest.raises(ConfigError, match="the token cannot be read"):
        token_of(tmp_path / "missing")


def test_other_machines_need_a_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        check_host(host, None)
    check_host("0.0.0.0", TOKEN)
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.org"):
        with pytest.raises(
            ConfigError, match=rf"--host {host} lets other machines in, and there is no token"
        ):
            check_host(host, None)


def test_busy_and_slow_service_answers_429_and_503(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one request at most and one second, a slow one gets 503 and the next one 429."""
    answer = ServedModel.answer

    def slowly(model: ServedModel, *arguments: object) -> object:
        time.sleep(2)
        return answer(model, *arguments)

    monkeypatch.setattr(ServedModel, "answer", slowly)
    limits = ServiceLimits(max_waiting=1, seconds=1.0)
    with (
        serving([runs.conformal], limits=limits) as address,
        httpx.Client(base_url=address) as client,
    ):
        slow: list[httpx.Response] = []
        thread = threading.Thread(
            target=lambda: slow.append(httpx.post(f"{address}/predict", content=FRAME))
        )
        thread.start()
        while not client.get("/health").json()["waiting"]:
            time.sleep(0.01)
        busy = client.post("/predict", content=FRAME)
        assert (
            "Busy with 1 requests" in refusal_message(busy, 429)
            and busy.headers["retry-after"] == "1"
        )
        thread.join()
        assert "No answer within 1 s. Send fewer structures at once" in refusal_message(
            slow[0], 503
        )
        monkeypatch.setattr(ServedModel, "answer", answer)
        time.sleep(1.5)
        assert client.post("/predict", content=FRAME).status_code == 200


def test_body_that_does_not_arrive_gets_408(runs: Runs) -> None:
    with serving([runs.conformal], limits=ServiceLimits(seconds=1.0)) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            sock.sendall(
                b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc"
            )
            assert b" 408 " in sock.recv(4096).splitlines()[0]


def test_unexpected_error_is_a_message_without_a_traceback(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(model: ServedModel, *arguments: object) -> object:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(ServedModel, "answer", broken)
    with serving([runs.conformal]) as address:
        answer = httpx.post(f"{address}/predict", content=FRAME)
        assert "An error inside the service" in refusal_message(answer, 500)
        assert "secret" not in answer.text and "RuntimeError" not in answer.text
        monkeypatch.undo()
        assert httpx.post(f"{address}/predict", content=FRAME).status_code == 200
