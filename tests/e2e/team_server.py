"""The tracking server of ``cluster/mlflow``, started and asked as its users would."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .nodes import SECONDS, free_ports

SERVE = Path(__file__).parents[2] / "cluster" / "mlflow" / "serve.sh"


@dataclass(frozen=True)
class Server:
    uri: str
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def password(self) -> str:
        return (self.folder / "admin_password").read_text()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def status(self, path: str, password: str | None = None) -> int:
        """What it answers; 0 when it does not."""
        shown = base64.b64encode(f"admin:{password}".encode()).decode()
        headers = {} if password is None else {"Authorization": f"Basic {shown}"}
        try:
            question = urllib.request.Request(self.uri + path, headers=headers)
            with urllib.request.urlopen(question, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server with its secrets in ``folder``."""
    (port,) = free_ports(1)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [str(SERVE), "--port", str(port), "--workers", "1"],
            env={**os.environ, "MLFLOW_SECRETS": str(folder)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    made = Server(f"http://127.0.0.1:{port}", folder, process)
    try:
        limit = time.monotonic() + SECONDS
        while made.status("/health") != 200:
            assert process.poll() is None, made.log
            assert time.monotonic() < limit, made.log
            time.sleep(0.3)
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # all are of the session made for it
        process.wait()
