"""Workers as copies of a template: in whose place they stand, and what happens without it."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from heterofl_ray.execution import forked_workers

FILE = forked_workers.__file__
# In place of Ray's worker: tells what it is, then does what Ray's does, that is to say, waits.
WORKER = """
import json, os, resource, sys, time
told = {
    "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgid(0),
    "arguments": sys.argv, "folder": os.getcwd(), "path": sys.path, "name": __name__,
    "colour": os.environ.get("COLOUR"), "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "files": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
    "imported": "this" in sys.modules, "ours": "heterofl_ray" in sys.modules,
}
print(json.dumps(told), flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with what our code takes for Ray."""
    workers = tmp_path / "packages" / "ray" / "_private" / "workers"
    workers.mkdir(parents=True)
    (workers / "default_worker.py").write_text(WORKER)
    (tmp_path / "packages" / "ray" / "__init__.py").touch()
    return tmp_path / "packages"


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> Iterator[psutil.Process]:
    """One that has imported a module which prints, and which nobody else imports."""
    monkeypatch.setenv(forked_workers.SOCKET, "")
    started = forked_workers.start(["this"])
    assert started is not None
    assert started.worker_file == Path(FILE)
    assert started.folder == Path(os.environ[forked_workers.SOCKET]).parent
    yield psutil.Process(started.process.pid)
    started.end()
    wait_until(lambda: started.process.poll() is not None)
    assert not started.folder.exists()


def launch(packages: Path, *arguments: str, **options: Any) -> dict[str, Any]:
    """What the worker tells that Ray would get."""
    with launching(packages, *arguments, **options) as process:
        return told(process)


def launching(packages: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(packages), "COLOUR": "green"}
    command = [sys.executable, FILE, *(arguments or ["0"])]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_copy_is_in_the_place_of_the_process_that_ray_started(
    packages: Path, template: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = packages / "here"
    here.mkdir()
    arguments = ("0", "--node-ip-address=1.2.3.4", "with space")
    found = launch(packages, *arguments, cwd=here, preexec_fn=lambda: os.nice(3))
    template.kill()
    alone = launch(packages, *arguments, cwd=here, preexec_fn=lambda: os.nice(3))
    of_itself = ("pid", "parent", "group", "imported")
    same = [name for name in found if name not in of_itself]
    assert {name: found[name] for name in same} == {name: alone[name] for name in same}
    assert found["parent"] == template.pid
    assert found["imported"]
    assert found["group"] == found["pid"]  # Ray ends a worker with its group
    assert alone["parent"] == os.getpid()
    assert not alone["imported"]
    assert alone["arguments"][1:] == list(arguments)
    assert alone["path"][0] == str(packages / "ray" / "_private" / "workers")
    assert alone["folder"] == str(here)
    assert alone["niceness"] == os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert alone["colour"] == "green"
    assert not alone["ours"]


def test_copies_are_made_while_others_live_and_leave_nothing_behind(
    packages: Path, template: psutil.Process
) -> None:
    with launching(packages, "60") as first, launching(packages, "60") as second:
        workers = [psutil.Process(told(process)["pid"]) for process in (first, second)]
        assert first.wait() == second.wait() == 0  # they have handed over
        assert sorted(template.children(), key=hash) == sorted(workers, key=hash)
        workers[0].kill()
        wait_until(lambda: template.children() == workers[1:])
        assert launch(packages)["parent"] == template.pid
        workers[1].kill()
    wait_until(lambda: not template.children())


@pytest.mark.parametrize("place", [None, "/nowhere/socket"])
def test_without_a_template_it_becomes_the_worker_itself(
    place: str | None, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place is None:
        monkeypatch.delenv(forked_workers.SOCKET, raising=False)
    else:
        monkeypatch.setenv(forked_workers.SOCKET, place)
    assert launch(packages)["parent"] == os.getpid()


def test_a_template_that_dies_while_it_is_asked_is_not_waited_for(
    packages: Path, template: psutil.Process
) -> None:
    template.suspend()
    with launching(packages) as process:
        asking = psutil.Process(process.pid)
        try:
            wait_until(lambda: bool(asking.net_connections("unix")))
            wait_until(lambda: asking.status() == psutil.STATUS_SLEEPING)
        finally:
            template.kill()
        assert told(process)["parent"] == os.getpid()


@pytest.mark.parametrize("said", [b"", b"\0" * 7 + b"\2{", b"\0" * 7 + b"\2{]"])
def test_one_that_says_nothing_or_nonsense_does_not_keep_others_waiting(
    said: bytes, packages: Path, template: psutil.Process
) -> None:
    """Silent: for as long as the template's patience lasts."""
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(os.environ[forked_workers.SOCKET])
        stranger.sendall(said)
        assert launch(packages)["parent"] == template.pid


def test_a_library_that_is_not_there_is_left_to_the_worker(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(forked_workers.SOCKET, "")
    forked_workers.start(["no_such_library"])
    assert launch(packages)["parent"] == os.getpid()
    wait_until(lambda: not Path(os.environ[forked_workers.SOCKET]).parent.exists())


def test_the_template_ends_with_the_last_raylet_that_asked(
    packages: Path, template: psutil.Process
) -> None:
    """Each of these shells is a raylet: the parent of what it launches."""
    folder = Path(os.environ[forked_workers.SOCKET]).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    command = [f"{sys.executable} {FILE} 0; read line"]
    raylets = [
        subprocess.Popen(
            ["bash", "-c", *command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for raylet in raylets:
        assert told(raylet)["parent"] == template.pid
    raylets[0].communicate()
    time.sleep(0.3)
    assert template.is_running()
    assert folder.exists()
    raylets[1].communicate()
    wait_until(lambda: not template.is_running())
    assert not folder.exists()


def test_the_template_ends_with_a_raylet_that_was_gone_before_it_could_answer(
    packages: Path, template: psutil.Process
) -> None:
    """A Ray that is started and ended at once, while the template still imports."""
    template.suspend()
    command = f"PYTHONPATH={packages} {sys.executable} {FILE} 0 & read line"
    raylet = subprocess.Popen(["bash", "-c", command], stdin=subprocess.PIPE)
    try:
        wait_until(lambda: bool(psutil.Process(raylet.pid).children()))
        (asking,) = psutil.Process(raylet.pid).children()
        wait_until(lambda: bool(asking.net_connections("unix")))
        wait_until(lambda: asking.status() == psutil.STATUS_SLEEPING)
        raylet.kill()
        raylet.wait()
    finally:
        template.resume()
    wait_until(lambda: not template.is_running())


def test_the_template_ends_with_its_driver(tmp_path: Path) -> None:
    script = (
        "import os\n"
        "from heterofl_ray.execution import forked_workers\n"
        "forked_workers.start(['this'])\n"
        "print(os.environ[forked_workers.SOCKET], flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        place = Path(driver.stdout.readline().strip())
        (template,) = psutil.Process(driver.pid).children()
        assert os.getpgid(template.pid) != os.getpgid(driver.pid)  # Ctrl-C is for the driver
        driver.kill()
    wait_until(lambda: not place.parent.exists())
    wait_until(lambda: not template.is_running())


def test_where_no_socket_can_be_made_ray_starts_its_own_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert forked_workers.start(["this"]) is None
    assert not list(deep.iterdir())


def test_elsewhere_than_on_linux_ray_starts_its_own_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert forked_workers.start(["this"]) is None
