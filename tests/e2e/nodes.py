"""Ray nodes on one machine, started with the files of ``cluster/local`` as a user would.

Nothing in their environment speaks of Ray or its token. Where the kernel lets us, each node has a
network namespace with an address of its own, and is cut off by taking its cable out; elsewhere
nodes are processes that share the machine's address and are killed.
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
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil

from .watching import meanwhile, words_of

LOCAL = Path(__file__).parents[2] / "cluster" / "local"
BIN = Path(sys.executable).parent
PORT = 6379
SECONDS = 300.0
"""How long to wait for what is sure to come, on a machine with much else to do."""

T = TypeVar("T")

HEALTH = {
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "4",
}
"""A node that does not answer for a quarter of a minute is gone; a busy one has time to answer."""


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
        home = folder / "home"
        home.mkdir()
        self.token = home / ".ray" / "auth_token"
        self.plain = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "HOME": str(home),
            "HETEROFL_MLFLOW": "0",
        }
        """What nodes are started with."""
        self.environment = {**self.plain, "RAY_AUTH_MODE": "token"}
        """What jobs are submitted with: the token is shown to addresses that are not ours, too."""
        self.ids: dict[int, str] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._lost: list[int] = []
        dashboard, agent, client, port = free_ports(4)
        own = isinstance(network, Namespaces)
        self.address = f"{network.address(0)}:{PORT if own else port}"
        self.url = f"http://{network.address(0)}:{8265 if own else dashboard}"
        ports = [
            f"--port={port}",
            f"--dashboard-port={dashboard}",
            f"--dashboard-agent-listen-port={agent}",
            f"--ray-client-server-port={client}",
        ]
        options = [f"--dashboard-host={network.address(0)}", *([] if own else ports)]
        self._start(0, str(LOCAL / "head.sh"), *options)

    def add(self, *nodes: int) -> None:
        for node in nodes:
            self._start(node, str(LOCAL / "worker.sh"), self.address)

    def stranger(self, node: int, *command: str, **environment: str) -> int:
        """How a node ends that is started in another way; what it says is in its log."""
        self._start(node, *command, **environment)
        return self._processes[node].wait(SECONDS)

    def cut(self, node: int) -> None:
        self.network.cut(node, self._processes[node])
        self._lost.append(node)

    def nodes(self) -> list[dict[str, Any]]:
        return self._ask("nodes")

    def actors(self) -> list[dict[str, Any]]:
        return self._ask("actors")

    def trained(self, node: int) -> int:
        """How many jobs of training were done there."""
        there = f"filter_keys=node_id&filter_predicates=%3D&filter_values={self.ids[node]}"
        found = self._ask(f"tasks?limit=10000&detail=1&{there}")
        return sum(task["name"] == "Worker.train" for task in found if task["state"] == "FINISHED")

    @contextlib.contextmanager
    def slowed(self, script: str) -> Iterator[None]:
        """Let a job's driver, which is on the head, run for a tenth of the time.

        So the run is not over before others are ready, however fast the machine is. It is not held
        all the time: workers that start ask it for what they need.
        """
        below = psutil.Process(self._processes[0].pid).children(recursive=True)
        drivers = [each for each in below if script in words_of(each)]
        assert drivers, f"nobody runs {script}"
        over = threading.Event()

        def signal_all(number: signal.Signals) -> None:
            for each in drivers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.send_signal(number)

        def slow() -> None:
            while not over.wait(0.1):
                signal_all(signal.SIGSTOP)
                over.wait(0.9)
                signal_all(signal.SIGCONT)

        with meanwhile(slow, over):
            yield

    def joined(self, *nodes: int) -> bool:
        """Whether Ray knows them by now; from then on they have an id."""
        for each in self.nodes():
            for node in nodes:
                if _name(node) in each["resources_total"]:
                    self.ids[node] = each["node_id"]
        return all(node in self.ids for node in nodes)

    def is_dead(self, node: int) -> bool:
        states = {each["node_id"]: each["state"] for each in self.nodes()}
        return states.get(self.ids[node]) == "DEAD"

    def log(self, node: int | str = "*") -> str:
        return "\n".join(path.read_text()[-2000:] for path in self.folder.glob(f"{node}.log"))

    def close(self) -> None:
        for node, process in reversed(self._processes.items()):
            if node in self._lost:  # it would look for its head for a long time
                process.kill()
            else:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, node: int, *command: str, **environment: str) -> None:
        with (self.folder / f"{node}.log").open("w") as log:
            self._processes[node] = subprocess.Popen(
                [
                    *self.network.enter(node),
                    *command,
                    *("--num-cpus=1", f"--object-store-memory={100 * 1024**2}"),
                    f"--resources={json.dumps({_name(node): 1})}",
                    f"--temp-dir={self.folder}/{node}",
                ],
                env={**self.plain, **HEALTH, **environment},
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
            with urllib.request.urlopen(question, timeout=30) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]["result"]
                return found
        except (OSError, TypeError, ValueError):
            return []


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """A head of one CPU; whatever happens, nothing is left of it."""
    network: Namespaces | Processes = Namespaces() if can_make_namespaces() else Processes()
    folder = Path(tempfile.mkdtemp(prefix="n"))  # sockets have short names
    made: Cluster | None = None
    try:
        made = Cluster(network, folder)
        wait_for(lambda: made.joined(0), made.log)
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


def wait_for(ask: Callable[[], T], tell: Callable[[], str], seconds: float = SECONDS) -> T:
    """The first answer that is one; ``tell`` is shown when none comes."""
    end = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < end, tell()
        time.sleep(0.2)
    return answer


def _name(node: int) -> str:
    """By which a node is known to Ray: a resource that it alone has."""
    return f"node-{node}"


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
