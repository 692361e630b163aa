"""The submit command: what is refused at once, and what it hands to Ray's job server."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from heterofl_ray.cli import main
from heterofl_ray.commands.submit import _Log
from heterofl_ray.execution import job_submission
from heterofl_ray.execution.job_submission import JobServer


@pytest.fixture
def job() -> str:
    Path("jobs").mkdir()
    Path("jobs/one.py").write_text("print('hello')\n")
    return "jobs/one.py"


@pytest.fixture
def other_server() -> Iterator[str]:
    """Something that answers, and is no Ray."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: Any) -> None:
            return None

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def guarded_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Answers like Ray's dashboard: a version to those who show the token 'right'."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            token = self.headers.get("Authorization")
            if self.path == "/api/authentication_mode":
                self.reply(200, {"authentication_mode": "token"})
            elif token is None or token != "Bearer right":
                self.reply(401 if token is None else 403, {})
            else:
                self.reply(200, {"ray_version": "2.60.0"})

        def reply(self, code: int, answer: dict[str, str]) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            return None

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    try:
        code = main(["submit", *words])
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    output = capsys.readouterr()
    assert (code, output.out, output.err.count("\n")) == (2, "", 1)
    return output.err


def test_a_job_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "jobs/nothing.py: no such job file" in refused(["jobs/nothing.py"], capsys)


def test_a_job_elsewhere(
    job: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("deeper").mkdir()
    monkeypatch.chdir("deeper")
    assert "must lie below" in refused([f"../{job}"], capsys)


def test_an_option_of_the_job_without_the_dashes(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "unrecognized arguments: --smoke" in refused([job, "--smoke"], capsys)


@pytest.mark.parametrize("address", ["http://127.0.0.1", "ray://127.0.0.1:10001", "nonsense"])
def test_an_address_of_the_wrong_form(
    address: str, job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "must be like http://HOST:8265" in refused([job, "--address", address], capsys)


def test_an_address_where_nothing_is(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused([job, "--address", f"127.0.0.1:{closed_port()}"], capsys)
    assert "no Ray job server answers there (Connection refused)" in told


def test_an_address_of_something_else(
    other_server: str, job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", job, "--address", other_server]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[0] == f"submitting {job} to Ray at {other_server}"
    assert "no Ray job server answers there" in error[1]
    assert len(error) == 2


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_ray_that_asks_for_a_token_we_do_not_have(
    token: str,
    guarded_server: str,
    job: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    assert main(["submit", job, "--address", guarded_server]) == 2
    told = capsys.readouterr().err.splitlines()[1:]
    assert len(told) == 1
    assert "the Ray there asks for a token, and has not seen its own: set RAY_AUTH_MODE" in told[0]


def test_a_ray_of_this_machine_is_shown_the_token_unasked(
    guarded_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ray does for a cluster it finds by itself; never to another machine."""
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("right")
    server = job_submission.running_server(guarded_server)
    assert server is not None
    server.client()
    monkeypatch.setattr(JobServer, "on_this_machine", False)
    elsewhere = job_submission.running_server(guarded_server)
    assert elsewhere is not None
    assert elsewhere.headers == {}


# ---- what is handed over -------------------------------------------------------------------


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Takes the place of Ray: notes what it is given, prints two lines, ends with code 3."""
    seen: dict[str, Any] = {}

    def run_job(
        server: JobServer, entrypoint: str, folder: Path, environment: Mapping[str, str], show: Any
    ) -> int:
        seen.update(server=server, entrypoint=entrypoint, folder=folder, environment=environment)
        show("2026 INFO job_manager.py:1 -- Runtime env is setting up.")
        show("a line of progress")
        show('{"rounds": 1}')
        return 3

    @contextmanager
    def local_ray() -> Iterator[JobServer]:
        seen["began"] = True
        yield JobServer("http://127.0.0.1:1")
        seen["ended"] = True

    monkeypatch.setattr(job_submission, "run_job", run_job)
    monkeypatch.setattr(job_submission, "local_ray", local_ray)
    return seen


def test_the_job_its_words_and_its_exit_code(
    job: str, handed: dict[str, Any], capsys: pytest.CaptureFixture[str], data_root: Path
) -> None:
    words = ["--set", "mix=a b", "--smoke"]
    assert main(["submit", job, "--address", "local", "--", *words]) == 3
    assert handed["entrypoint"] == f"python {job} --set 'mix=a b' --smoke"
    assert handed["folder"] == Path.cwd()
    assert handed["environment"] == {
        "HETEROFL_BASE_DIR": str(Path.cwd()),
        "HETEROFL_DATA_DIR": str(data_root),
    }
    assert handed["began"]
    assert handed["ended"]
    assert capsys.readouterr().out == 'a line of progress\n{"rounds": 1}\n'


def test_json_is_all_of_standard_output(
    job: str, handed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", job, "--json", "--address", "local"]) == 3
    assert handed["entrypoint"] == f"python {job} --json"
    output = capsys.readouterr()
    assert json.loads(output.out) == {"rounds": 1}
    assert "a line of progress" in output.err
    assert "job_manager" not in output.err


def test_a_cluster_elsewhere_is_not_told_our_folders(
    job: str, handed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    far = JobServer("http://10.0.0.1:8265")
    monkeypatch.setattr(job_submission, "running_server", lambda address: far)
    assert main(["submit", job, "--address", "10.0.0.1:8265"]) == 3
    assert handed["environment"] == {}
    assert handed["server"] is far
    assert "began" not in handed


def test_lines_that_only_look_like_json_stay(capsys: pytest.CaptureFixture[str]) -> None:
    log = _Log(as_json=False)
    log('{"a": 1}')
    log("{not json")
    log.finish()
    assert capsys.readouterr().out == '{"a": 1}\n{not json\n'


def test_a_token_is_not_shown() -> None:
    server = JobServer("http://127.0.0.1:1", {"Authorization": "Bearer secret"})
    assert "secret" not in repr(server)
