"""Jobs as users submit them: to a real Ray head, and by the submit command to one of its own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from heterofl_ray.cli import main

from .knocking import answer_to_a_job
from .watching import below, never_said, open_to_others, words_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nodes")]

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SMALL = [
    *("--set", "rounds=1", "--set", "fraction=0.04", "--set", "mix=a-b"),
    *("--set", "network.embedding=16", "--set", "network.heads=2", "--set", "network.layers=1"),
]


@dataclass(frozen=True)
class Head:
    url: str
    environment: dict[str, str]
    folder: Path
    token: str


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> list[psutil.Process]:
    """Ask a process to end; those it had below it that are left after that."""
    if process.poll() is not None:
        return []
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    process.wait(300)
    _, alive = psutil.wait_procs(below, timeout=120)
    return alive


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    """A Ray head as an operator starts it, with a token of its own."""
    folder = Path(tempfile.mkdtemp(prefix="r"))  # sockets have short names: pytest's is too long
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "HETEROFL_MLFLOW": "0",
    }
    environment.pop("RAY_ADDRESS", None)
    dashboard, agent, client = free_ports(3)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *(str(BIN / "ray"), "start", "--head", "--block", "--port=0", "--num-cpus=2"),
                *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"),
                f"--dashboard-agent-listen-port={agent}",
                f"--ray-client-server-port={client}",
                f"--object-store-memory={200 * 1024**2}",
                f"--temp-dir={folder}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            text=True,
            start_new_session=True,
        )
    try:
        limit = time.monotonic() + 600
        while socket.socket().connect_ex(("127.0.0.1", dashboard)):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < limit
            time.sleep(0.3)
        yield Head(f"http://127.0.0.1:{dashboard}", environment, folder, token.read_text())
    finally:
        end(process)
        shutil.rmtree(folder, ignore_errors=True)


def last_json(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        [line for line in text.splitlines() if line.startswith("{")][-1]
    )
    return found


def test_ray_job_submit_gives_the_run_commands_bytes(
    head: Head, tmp_path: Path, data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ray job submit --working-dir .` from the repository, as the README says."""
    runs = tmp_path / "runs"
    with never_said(head.token):
        done = subprocess.run(
            [
                *(str(BIN / "ray"), "job", "submit", "--address", head.url, "--working-dir", "."),
                *("--runtime-env-json", '{"env_vars": {"HETEROFL_MLFLOW": "1"}}'),
                *("--", "python", "jobs/wikitext_dynamic.py", "--smoke", "--json"),
                *("--set", f"tracking.root={runs}", "--data-dir", str(data_root), *SMALL),
            ],
            cwd=REPOSITORY,
            env=head.environment,
            capture_output=True,
            text=True,
            timeout=900,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "embedded data (pydocs) in place of wikitext2" in done.stdout
    job = last_json(done.stdout)
    assert Path(str(job["run_dir"])).parent == runs
    assert Path(str(job["report"])).is_file()

    smoke = ["--set", "evaluate_every=2"]
    assert main(["run", "pydocs-dynamic", *smoke, *SMALL, "--quiet", "--json"]) == 0
    assert job["model_sha256"] == last_json(capsys.readouterr().out)["model_sha256"]

    assert (runs / "mlflow.db").stat().st_size > 0
    assert head.token not in done.stdout + done.stderr
    assert files_with(head.token, runs) == []
    assert files_with(head.token, head.folder) == [head.folder / "token"]


def files_with(secret: str, folder: Path) -> list[Path]:
    """Results, checkpoints, databases, logs: every file below ``folder`` that has it."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("token", "status"),
    [(None, 401), ("0" * 64, 403), ("right", 200)],
    ids=["none", "wrong", "right"],
)
def test_no_job_is_taken_without_the_token(head: Head, token: str | None, status: int) -> None:
    assert answer_to_a_job(head.url, head.token if token == "right" else token) == status


def test_submit_says_in_one_line_that_the_token_is_missing(head: Head) -> None:
    open_minded = {**head.environment, "RAY_AUTH_MODE": "disabled"}
    done = submit(
        replace(head, environment=open_minded), "jobs/mnist_dynamic.py", "--address", head.url
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("heterofl-ray: error: --address=")
    assert "the Ray there asks for a token" in done.stderr
    assert "Traceback" not in done.stderr


def submit(head: Head, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "heterofl-ray"), "submit", *words],
        cwd=REPOSITORY,
        env=head.environment,
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_a_jobs_exit_code_and_its_one_line_come_through(head: Head, tmp_path: Path) -> None:
    done = submit(
        head, "jobs/mnist_dynamic.py", "--address", head.url, "--", "--data-dir", str(tmp_path)
    )
    assert done.returncode == 2
    assert "mnist is not there yet" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_ctrl_c_stops_the_job_and_the_ray_that_was_started_for_it(
    head: Head, tmp_path: Path, data_root: Path
) -> None:
    """While another Ray runs on this machine, which is left alone. Nobody else can reach ours.

    Nothing around it asks for a token or has one: that ours does is our doing.
    """
    log = tmp_path / "log"
    plain = {name: value for name, value in head.environment.items() if "RAY_AUTH" not in name}
    plain |= {"HOME": str(tmp_path)}
    # so many rounds would be worth a compiler's minutes, which a run that is stopped has no use for
    settings = ["rounds=500", "evaluate_every=1", "execution.trainer=plain"]
    rounds = [word for setting in settings for word in ("--set", setting)]
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                *(str(BIN / "heterofl-ray"), "submit", "jobs/wikitext_dynamic.py"),
                *("--address", "local", "--", "--smoke", "--set", f"tracking.root={tmp_path}"),
                *("--data-dir", str(data_root), *SMALL, *rounds),
            ],
            cwd=REPOSITORY,
            env=plain,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        limit = time.monotonic() + 600
        while "round 2/500" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < limit, log.read_text()
            time.sleep(0.5)
        started = below(process.pid)
        assert open_to_others(started) == []
        assert answer_to_a_job(job_server_of(started), None) == 401
        with never_said(head.token, token_of(started)):
            assert end(process, signal.SIGINT) == []
    finally:
        end(process)  # which a mistake above would leave
    told = log.read_text()
    assert process.returncode == 130, told
    assert "go on with: heterofl-ray resume" in told
    assert "Traceback" not in told
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.1", int(head.url.rpartition(":")[2]))) == 0


def job_server_of(processes: list[psutil.Process]) -> str:
    """Of the Ray that was started by one of them."""
    option = "--dashboard-port="
    words = [word for process in processes for word in words_of(process)]
    (port,) = {word.removeprefix(option) for word in words if word.startswith(option)}
    return f"http://127.0.0.1:{port}"


def token_of(processes: list[psutil.Process]) -> str:
    """Of the Ray whose head is one of them."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # some come and go
            if process.name() == "gcs_server":
                return Path(process.environ()["RAY_AUTH_TOKEN_PATH"]).read_text()
    raise AssertionError("no head among them")


def test_a_series_runs_as_plain_python_on_one_ray(tmp_path: Path, data_root: Path) -> None:
    short = [*("--set", "rounds=1"), *("--set", "local_epochs=1"), *("--set", "clients=20")]
    done = subprocess.run(
        [
            *(sys.executable, str(REPOSITORY / "jobs" / "interpolation.py"), "--smoke", "--json"),
            *(*short, "--address", "local"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert Path(told["report"]).is_file()
    assert len(list((tmp_path / "runs").glob("*/result.json"))) == len(told["runs"]) == 2
