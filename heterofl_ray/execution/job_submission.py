"""Submitting a job to Ray's job server, following it, and a Ray of its own when none runs.

A Ray that is started here has its own folder, ports and token, so that it meets no other Ray on
the machine, and it is ended by the process it was started as.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus, JobSubmissionClient

from heterofl_ray.errors import ConfigError, RunFailed
from heterofl_ray.execution.authentication import MODE, TOKEN, TOKEN_PATH, WANTS_TOKEN, find_token
from heterofl_ray.execution.authentication import headers as showing

DEFAULT_SERVER = "http://127.0.0.1:8265"
OBJECT_STORE_BYTES = 512 * 1024**2
START_SECONDS = 120.0
STOP_SECONDS = 30.0
RETRY_SECONDS = 1.0
NOBODY_THERE = "No available agent"
"""What Ray's job server says while no node of its cluster can take a job."""


@dataclass(frozen=True)
class JobServer:
    """Where jobs are submitted to."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def on_this_machine(self) -> bool:
        host = self.url.partition("://")[2].rpartition(":")[0]
        return host in ("127.0.0.1", "localhost", "[::1]", socket.gethostname())

    def client(self) -> JobSubmissionClient:
        try:
            return JobSubmissionClient(self.url, headers=dict(self.headers))
        except AuthenticationError:
            raise ConfigError.of("--address", self.url, f"the Ray there {WANTS_TOKEN}") from None
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError.of(
                "--address", self.url, f"no Ray job server answers there ({reason})"
            ) from None


def running_server(address: str | None) -> JobServer | None:
    """The job server at ``address``, or the one of a Ray that runs here; None: there is none."""
    given = address or os.environ.get("RAY_API_SERVER_ADDRESS")
    url = given or DEFAULT_SERVER
    if "://" not in url:
        url = f"http://{url}"
    host, colon, port = url.partition("://")[2].rstrip("/").rpartition(":")
    if not (url.startswith(("http://", "https://")) and colon and host and port.isdigit()):
        raise ConfigError.of("--address", given, "must be like http://HOST:8265")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 3.0).close()
    except (OSError, OverflowError) as error:
        if given is None:
            return None
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError.of(
            "--address", given, f"no Ray job server answers there ({reason})"
        ) from None
    server = JobServer(url.rstrip("/"))
    if server.on_this_machine and MODE not in os.environ and _asks_for_token(server.url):
        return JobServer(server.url, showing(find_token() or ""))
    return server


def _asks_for_token(url: str) -> bool:
    """What Ray tells everybody. Its own client shows a token only where RAY_AUTH_MODE is set."""
    try:
        with urllib.request.urlopen(f"{url}/api/authentication_mode", timeout=3.0) as answer:
            return bool(json.load(answer)["authentication_mode"] == "token")
    except (OSError, ValueError, TypeError, LookupError):
        return False  # whatever it is, it will be asked again


@contextmanager
def local_ray() -> Iterator[JobServer]:
    """A Ray on this machine with a job server, ended together with the block."""
    folder = Path(tempfile.mkdtemp(prefix="hfl-ray-"))
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    dashboard, agent, client = _free_ports(3)
    log = folder / "start.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "heterofl_ray.execution.ray_start"),
                *("--head", "--block"),
                *("--port=0", f"--ray-client-server-port={client}"),
                *("--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"),
                f"--dashboard-agent-listen-port={agent}",
                f"--temp-dir={folder}",
                f"--num-cpus={os.cpu_count()}",
                f"--object-store-memory={OBJECT_STORE_BYTES}",
                *("--include-dashboard=true", "--disable-usage-stats"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for us: the job is stopped before its Ray
            env=_environment(token),
        )
    try:
        server = JobServer(f"http://127.0.0.1:{dashboard}", showing(token.read_text()))
        _wait_until_ready(server, process, log)
        yield server
    finally:
        _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _environment(token: Path) -> dict[str, str]:
    """Ours without what names another Ray, with this Python first and the token's place."""
    others = ("RAY_ADDRESS", TOKEN)
    kept = {name: value for name, value in os.environ.items() if name not in others}
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
        MODE: "token",
        TOKEN_PATH: str(token),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback alone, as is usual elsewhere
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _wait_until_ready(server: JobServer, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            server.client()
            return
        except ConfigError as error:
            if process.poll() is not None or time.monotonic() > end:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise RunFailed(f"Ray could not be started: {error}; {' '.join(last)}") from None
        time.sleep(0.3)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the Ray that ``process`` is: it ends its parts itself when asked to."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_job(
    server: JobServer,
    entrypoint: str,
    working_dir: Path,
    environment: Mapping[str, str],
    show: Callable[[str], None],
) -> int:
    """Submit, show the log as it comes, and give the job's exit code; stopped when we are."""
    for handler in logging.getLogger("ray").handlers:
        handler.setLevel(logging.ERROR)  # what it packs and uploads is of no interest
    client = server.client()
    job = _submit(client, entrypoint, working_dir, environment)
    shown = 0

    def count(line: str) -> None:
        nonlocal shown
        shown += 1
        show(line)

    try:
        asyncio.run(_follow(client, job, count))
        _wait_until_over(client, job, math.inf)
    except BaseException:
        with contextlib.suppress(RuntimeError, ConnectionError):
            client.stop_job(job)
            _wait_until_over(client, job, STOP_SECONDS)
            for line in client.get_job_logs(job).splitlines()[shown:]:  # how to go on with it
                show(line)
        raise
    details = client.get_job_info(job)
    if details.status == JobStatus.SUCCEEDED:
        return 0
    if details.driver_exit_code is None:  # it never came to run
        raise RunFailed(f"the job could not be run: {(details.message or '').strip()}")
    return int(details.driver_exit_code)


def _submit(
    client: JobSubmissionClient, entrypoint: str, working_dir: Path, environment: Mapping[str, str]
) -> str:
    """Asked again while a Ray that has only just started, or is busy, has nobody to take it."""
    job = f"heterofl-{secrets.token_hex(8)}"
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            client.submit_job(
                entrypoint=entrypoint,
                submission_id=job,
                runtime_env={
                    "working_dir": str(working_dir),
                    # time to keep a checkpoint when the job is stopped
                    "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "20", **environment},
                },
            )
            return job
        except RuntimeError as error:
            if NOBODY_THERE not in str(error) or time.monotonic() > end:
                raise RunFailed(f"the job was not taken: {error}") from None
        time.sleep(RETRY_SECONDS)
        with contextlib.suppress(RuntimeError):  # it may have been taken, and the answer too late
            client.get_job_status(job)
            return job


async def _follow(client: JobSubmissionClient, job: str, show: Callable[[str], None]) -> None:
    """Pass on whole lines."""
    rest = ""
    async for text in client.tail_job_logs(job):
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            show(line)
    if rest:
        show(rest)


def _wait_until_over(client: JobSubmissionClient, job: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not client.get_job_status(job).is_terminal() and time.monotonic() < end:
        time.sleep(0.2)
