"""What a soak breaks: a cluster of several nodes, a disk of a run's own, an MLflow server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil
import pyarrow.parquet as pq
import ray
from ray.cluster_utils import Cluster

MEGABYTE = 1024**2
_STORE = 80 * MEGABYTE
"""Bytes of each node's object store, about the least that Ray takes."""
_BALLAST = 24 * MEGABYTE
_DISK = 96 * MEGABYTE
_QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
"""Of MLflow's server: no news home, and no processes for jobs that nobody asks for."""
MEASURED = ("seconds", "worker_")
"""How metrics' names begin that are times."""
_PATIENCE = 240
"""Seconds for something to come up."""


class Nodes:
    """A Ray of a head and two more nodes on this machine, one CPU each."""

    def __init__(self, others: int = 2) -> None:
        self._others = others

    def __enter__(self) -> Self:
        self._head = Cluster()
        self._head.add_node(num_cpus=1, include_dashboard=False, object_store_memory=_STORE)
        self._head.connect(namespace="heterofl")
        self._added = [self._add() for _ in range(self._others)]
        until = time.monotonic() + _PATIENCE
        while sum(node["Alive"] for node in ray.nodes()) <= self._others:
            if time.monotonic() > until:
                raise TimeoutError("the Ray nodes do not come up")
            time.sleep(0.5)
            self._mend()
        return self

    def _mend(self) -> None:
        """Nodes that start at once may both take a port that was free; one of them ends then."""
        self._added = [self._add() if n.poll() is not None else n for n in self._added]

    def _add(self) -> subprocess.Popen[bytes]:
        """As on a machine of its own: Ray's classes start nodes in the main thread only."""
        return subprocess.Popen(
            [
                *(str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1"),
                *(f"--address={self._head.address}", f"--object-store-memory={_STORE}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def replace(self, choice: float) -> None:
        """Kill a node with all that is on it, and start another."""
        _kill_tree(self._added.pop(int(choice * len(self._added))))
        self._added.append(self._add())
        self._mend()

    def slow(self, choice: float, seconds: float) -> None:
        """Stop a node's raylet, which is its object store, and give the driver's too much.

        What does not fit is spilled to disk, and read from there.
        """
        raylets = self._processes("raylet")
        chosen = raylets[int(choice * len(raylets))]
        chosen.suspend()
        try:
            time.sleep(seconds)
        finally:
            chosen.resume()
        ballast = [ray.put(np.full(_BALLAST, n, dtype=np.uint8)) for n in range(5)]
        if int(ray.get(ballast[0])[0]) != 0:
            raise RuntimeError("the object store gave back something else")

    def kill(self, kind: str, choice: float) -> bool:
        """Kill one actor of a class; whether there was one."""
        found = self._processes(f"ray::{kind}")
        if not found:
            return False
        with suppress(psutil.Error):
            found[int(choice * len(found))].send_signal(signal.SIGKILL)
        return True

    def _processes(self, begins: str) -> list[psutil.Process]:
        """Of this cluster, which are all below this process, by how their names begin."""
        found = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error, IndexError):
                if process.name().startswith(begins) or process.cmdline()[0].startswith(begins):
                    found.append(process)
        return sorted(found, key=lambda process: process.pid)

    def __exit__(self, *_: object) -> None:
        for node in self._added:
            _kill_tree(node)
        ray.shutdown()
        self._head.shutdown()


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """A process and all that it has started, at once."""
    with suppress(psutil.Error):
        for inner in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                inner.kill()
    process.kill()
    process.wait()


class Disk:
    """A small file system in memory for runs' folders; a plain folder where none can be mounted."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.mounted = False
        self.free = threading.Lock()
        """Held while it is full."""

    def __enter__(self) -> Self:
        self.place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(self.place)]
        done = subprocess.run(command, capture_output=True, check=False)
        self.mounted = done.returncode == 0
        return self

    def fill(self, seconds: float) -> None:
        """Leave no room for so long, also not what others free meanwhile."""
        filler = self.place / "filler"
        with self.free:
            end = time.monotonic() + seconds
            with filler.open("wb", buffering=0) as file:
                while time.monotonic() < end:
                    with suppress(OSError):
                        while file.write(bytes(65536)):
                            pass
                    time.sleep(0.02)
            filler.unlink()

    def __exit__(self, *_: object) -> None:
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.place)], check=False)


class MlflowServer:
    """``mlflow server`` on a port of this machine; may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            self._port = unused.getsockname()[1]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._revival: threading.Timer | None = None
        self.uri = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"),
                *("--port", str(self._port), "--workers", "1"),
                *("--backend-store-uri", f"sqlite:///{self._folder}/server.db"),
                *("--artifacts-destination", str(self._folder / "files")),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **_QUIET},
        )
        until = time.monotonic() + _PATIENCE
        while not self._answers():
            if time.monotonic() > until or self._process.poll() is not None:
                raise TimeoutError("the MLflow server does not come up")
            time.sleep(0.2)

    def kill(self) -> None:
        """The server and its workers, at once; all are of the session that was made for it."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def outage(self, seconds: float) -> None:
        """Kill it, and have it started again after so long, while other things go on."""
        self.whole()
        self.kill()
        self._revival = threading.Timer(seconds, self.start)
        self._revival.start()

    def whole(self) -> None:
        """Wait until it is there again."""
        if self._revival is not None:
            self._revival.join()

    def sync(self, folder: Path) -> bool:
        """Have the rest of a run sent; whether anything was left to send."""
        from heterofl_ray.tracking.sender import unsent

        if not unsent(folder):
            return False
        command = [sys.executable, "-m", "heterofl_ray.cli", "track", "sync", str(folder)]
        subprocess.run(command, capture_output=True, timeout=300, check=False)
        return True

    def runs(self) -> int:
        """How many runs it knows."""
        import mlflow

        client = mlflow.MlflowClient(self.uri)
        experiments = [found.experiment_id for found in client.search_experiments()]
        return len(client.search_runs(experiments))

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def __exit__(self, *_: object) -> None:
        self.whole()
        self.kill()


def exactly_once(uri: str, folder: Path, rounds: int) -> bool:
    """Whether MLflow has each of a run's metrics of each of its rounds, and none twice."""
    import mlflow

    from heterofl_ray.tracking.journal import Sent, journal_path, read

    client, run_id = mlflow.MlflowClient(uri), Sent.read(folder).run_id
    rows = pq.read_table(folder / "history.parquet").to_pylist()
    if not run_id or [row["round"] for row in rows] != list(range(1, rounds + 1)):
        return False
    entries = [entry.event for entry in read(journal_path(folder))]
    told = [event for event in entries if event.get("kind") == "metrics"]
    names = rows[0].keys() - {"round"}
    stored = {
        name: sorted((point.step, point.value) for point in client.get_metric_history(run_id, name))
        for name in names
    }
    wrong = differing(rows, told, stored)
    if wrong:
        print(f"{folder.name}: {', '.join(wrong)} differ in MLflow", file=sys.stderr)
    return not wrong and bool(client.get_run(run_id).info.status == "FINISHED")


def differing(
    rows: Sequence[Mapping[str, Any]],
    told: Sequence[Mapping[str, Any]],
    stored: Mapping[str, Sequence[tuple[int, float]]],
) -> list[str]:
    """Metrics that MLflow has otherwise than the run's history or its journal.

    A round that is done again after a crash is told the first time only. What it computes is the
    same; what it took is not, so times are those of the journal.
    """
    wrong = []
    for name, points in stored.items():
        first = [(event["step"], event["values"].get(name)) for event in told]
        last = [(row["round"], row[name]) for row in rows]
        expected = first if name.startswith(MEASURED) else last
        if list(points) != [(step, value) for step, value in expected if value is not None]:
            wrong.append(name)
    return wrong
