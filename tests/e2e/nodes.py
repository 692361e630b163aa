"""Ray nodes on one machine, started with the files of ``cluster/local``.

Where the kernel lets us, each node has a network namespace with an address of its own, and is
cut off by taking its cable out; elsewhere nodes are processes that share the machine's address
and are killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import psutil

LOCAL = Path(__file__).parents[2] / "cluster" / "local"
BIN = Path(sys.executable).parent
PORT = 6379


class Network(Protocol):
    """Where nodes live."""

    def address(self, node: int) -> str: ...
    def enter(self, node: int) -> list[str]: ...
    def cut(self, node: int, process: subprocess.Popen[bytes]) -> None: ...


class Namespaces:
    """Namespaces joined by a bridge that we have an address on, too."""

    def __init__(self) -> None:
        self._name = f"hf{os.getpid() % 10**7}"
        self._net = f"10.213.{os.getpid() % 250}"
        self._nodes: list[int] = []
        _ip("link", "add", self._name, "type", "bridge")
        _ip("addr", "add", f"{self._net}.1/24", "dev", self._name)
        _ip("link", "set", self._name, "up")

    def address(self, node: int) -> str:
        return f"{self._net}.{10 + node}"

    def enter(self, node: int) -> list[str]:
        space, cable = f"{self._name}n{node}", f"{self._name}v{node}"
        self._nodes.append(node)
        _ip("netns", "add", space)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", cable, "master", self._name, "up")
        _ip("-n", space, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "route", "add", "default", "via", f"{self._net}.1")
        return ["ip", "netns", "exec", space]

    def cut(self, node: int, process: subprocess.Popen[bytes]) -> None:
        _ip("link", "set", f"{self._name}v{node}", "down")

    def close(self) -> None:
        for node in self._nodes:
            space = f"{self._name}n{node}"
            inside = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True)
            for pid in inside.stdout.split():  # nobody but those we started is in there
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "link", "del", f"{self._name}v{node}"], capture_output=True)
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
        subprocess.run(["ip", "link", "del", self._name], capture_output=True)


class Processes:
    """All nodes at the address of the machine."""

    def address(self, node: int) -> str:
        return "127.0.0.1"

    def enter(self, node: int) -> list[str]:
        return []

    def cut(self, node: int, process: subprocess.Popen[bytes]) -> None:
        first = psutil.Process(process.pid)
        for each in [*first.children(recursive=True), first]:
            with contextlib.suppress(psutil.Error):
                each.kill()

    def close(self) -> None:
        return None


class Cluster:
    """A head that is node 0, and workers that come and go."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self.token = folder / "token"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "HETEROFL_MLFLOW": "0",
            # a node that does not answer for three seconds is gone
            "RAY_health_check_initial_delay_ms": "1000",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_timeout_ms": "1000",
            "RAY_health_check_failure_threshold": "3",
        }
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._lost: list[int] = []
        dashboard, agent, client, port = free_ports(4)
        own = isinstance(network, Namespaces)
        self.port = PORT if own else port
        self.url = f"http://{network.address(0)}:{8265 if own else dashboard}"
        ports = [
            f"--port={port}",
            f"--dashboard-port={dashboard}",
            f"--dashboard-agent-listen-port={agent}",
            f"--ray-client-server-port={client}",
        ]
        options = [f"--dashboard-host={network.address(0)}", *([] if own else ports)]
        self._start(0, "head.sh", *options)

    def add(self, *nodes: int) -> None:
        for node in nodes:
            self._start(node, "worker.sh", f"{self.network.address(0)}:{self.port}")

    def cut(self, node: int) -> None:
        self.network.cut(node, self._processes[node])
        self._lost.append(node)

    def nodes(self) -> list[dict[str, Any]]:
        return self._ask("nodes")

    def actors(self) -> list[dict[str, Any]]:
        return self._ask("actors")

    def living(self) -> int:
        return sum(node["state"] == "ALIVE" for node in self.nodes())

    def log(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))

    def close(self) -> None:
        for node, process in reversed(self._processes.items()):
            if node in self._lost:  # it would look for its head for a long time
                process.kill()
            else:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, node: int, script: str, *options: str) -> None:
        with (self.folder / f"{node}.log").open("w") as log:
            self._processes[node] = subprocess.Popen(
                [
                    *self.network.enter(node),
                    *(str(LOCAL / script), *options),
                    *("--num-cpus=1", f"--object-store-memory={100 * 1024**2}"),
                    f"--temp-dir={self.folder}/{node}",
                ],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _ask(self, what: str) -> list[dict[str, Any]]:
        """What Ray's dashboard knows; nothing while it is not there yet."""
        try:
            question = urllib.request.Request(
                f"{self.url}/api/v0/{what}",
                headers={"Authorization": f"Bearer {self.token.read_text()}"},
            )
            with urllib.request.urlopen(question, timeout=10) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]["result"]
                return found
        except (OSError, TypeError):
            return []


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """A head of one CPU; whatever happens, nothing is left of it."""
    network: Namespaces | Processes = Namespaces() if can_make_namespaces() else Processes()
    folder = Path(tempfile.mkdtemp(prefix="n"))  # sockets have short names
    made: Cluster | None = None
    try:
        made = Cluster(network, folder)
        wait_until(lambda: made.living() == 1, 90, made.log)
        yield made
    finally:
        if made is not None:
            made.close()
        network.close()
        shutil.rmtree(folder, ignore_errors=True)


def can_make_namespaces() -> bool:
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    name = f"hf{os.getpid()}try"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True)
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return done.returncode == 0


def wait_until(condition: Callable[[], bool], seconds: float, tell: Callable[[], str]) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, tell()
        time.sleep(0.2)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
