"""Workers of a Ray that was started here: copies of one process which has imported torch.

Imports take a worker seconds and most of its memory. So one process, the template, imports the
libraries once, and forks whenever Ray wants a worker: the copy has them already, and shares their
memory with the others. Neither Ray nor this package is among them: Ray reads settings while it is
imported, and a job may bring a package of its own.

Three parts, in the order of events. `start` is called by the driver before it starts Ray.
`be_template` is the process that it starts. `launch` is what Ray runs in place of its own worker
file: it hands its arguments, environment and standard files over to the template, and ends. Where
no template answers, it becomes the worker itself, as it would have been without all this.

The latter two run this file as a script, which therefore imports nothing of ours.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import resource
import runpy
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

# What takes a worker longest to import: torch and Arrow, and libraries that Ray needs.
LIBRARIES = ("torch", "pyarrow", "jsonschema", "requests")
# A copy has but the thread that made it, so the template should have no others.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}

SOCKET = "HETEROFL_WORKER_TEMPLATE"
"""Of the environment: where the template is asked for a copy."""
AS_TEMPLATE = "--be-the-template"
WAITING = 128
"""Workers that may ask while libraries are still being imported."""
PATIENCE = 5
"""Seconds for one that asks to say what it wants, while others wait."""
STANDARD_FILES = (0, 1, 2)
SIZE_BYTES = 8

Request = dict[str, Any]
Copy = tuple[Request, list[int]]
"""What a copy shall become, and its standard files."""


class Template(NamedTuple):
    worker_file: Path
    """What Ray shall run for each worker."""
    process: subprocess.Popen[bytes]
    folder: Path

    def end(self) -> None:
        """At once, where there is no Ray whose end it would wait for."""
        self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(libraries: Sequence[str] = LIBRARIES) -> Template | None:
    """Start the template. None: it cannot be here, and Ray's workers must start by themselves.

    The template ends with this process, or with the last Ray that asked it for a worker.
    """
    if not hasattr(os, "pidfd_open"):  # not on Linux, where copies cannot use every library
        return None
    folder = Path(tempfile.mkdtemp(prefix="hfl-workers-"))  # of this user alone
    place = str(folder / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(place)
        except OSError:  # a path that is too long for a socket
            shutil.rmtree(folder)
            return None
        listener.listen(WAITING)
        numbers = (str(listener.fileno()), str(os.getpid()))
        process = subprocess.Popen(
            [sys.executable, "-P", __file__, AS_TEMPLATE, *numbers, *libraries],
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the driver
            env={**os.environ, **ONE_THREAD},
        )
    threading.Thread(target=process.wait, daemon=True).start()  # that it leaves nothing behind
    os.environ[SOCKET] = place
    return Template(Path(__file__), process, folder)


def main(arguments: list[str]) -> None:
    if arguments[:1] == [AS_TEMPLATE]:
        listening, driver, *libraries = arguments[1:]
        be_template(int(listening), int(driver), libraries)
    else:
        launch(arguments)


# ---- the template


def be_template(listening: int, driver: int, libraries: list[str]) -> None:
    listener = socket.socket(fileno=listening)
    folder = Path(listener.getsockname()).parent
    copy = None
    try:
        for library in libraries:
            importlib.import_module(library)
        gc.collect()
        gc.freeze()  # a collection in a copy would write to every page, and so copy it
        copy = serve(listener, driver)
    finally:
        if copy is None:
            shutil.rmtree(folder)
    if copy:
        request, files = copy
        _take_place(request, files)
        become_worker(request["arguments"])


def serve(listener: socket.socket, driver: int) -> Copy | None:
    """Make copies until nobody is left to ask for one. In a copy: what it was asked to become."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # copies that end leave nothing behind
    with selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ)
        _watch(driver, waiting)
        living: dict[int, bool] = {}  # those who asked, and whether they still are
        while os.getppid() == driver:
            for key, _ in waiting.select():
                if key.fileobj is listener:
                    copy = _answer(listener, waiting, living)
                    if copy:
                        return copy
                else:
                    waiting.unregister(key.fileobj)
                    os.close(key.fd)
                    living[key.data] = False
                if living and not any(living.values()):
                    return None
    return None


def _watch(process: int, waiting: selectors.BaseSelector) -> None:
    """Be told when a process ends."""
    waiting.register(os.pidfd_open(process), selectors.EVENT_READ, process)


def _answer(
    listener: socket.socket, waiting: selectors.BaseSelector, living: dict[int, bool]
) -> Copy | None:
    """Fork for a process that asks; only the copy is told what for."""
    asking, _ = listener.accept()
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PATIENCE, 0))
    files: list[int] = []
    try:
        size, files, *_ = socket.recv_fds(asking, SIZE_BYTES, len(STANDARD_FILES))
        text = asking.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
        request: Request = json.loads(text)
        raylet = request["raylet"]
        if not living.get(raylet):
            living[raylet] = False  # until it is seen to live
            _watch(raylet, waiting)
            living[raylet] = True
        if os.fork() == 0:
            for key in waiting.get_map().values():
                os.close(key.fd)
            listener.detach()
            asking.close()
            return request, files
        asking.sendall(b"1")
    except (OSError, ValueError):
        pass  # whoever asked has gone, or there is no room for a copy: it helps itself
    asking.close()
    for file in files:
        os.close(file)
    return None


def _take_place(request: Request, files: list[int]) -> None:
    """Be what the process that asked was, but for what is imported already."""
    os.setsid()  # a group of its own: Ray ends a worker's whole group with it
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for standard, file in zip(STANDARD_FILES, files, strict=True):
        os.dup2(file, standard)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[:] = request["path"]
    os.nice(max(0, request["niceness"] - os.getpriority(os.PRIO_PROCESS, 0)))
    resource.setrlimit(resource.RLIMIT_NOFILE, tuple(request["open_files"]))


# ---- what Ray runs


def launch(arguments: list[str]) -> None:
    here, there = str(Path(__file__).parent), str(_ray_worker().parent)
    sys.path[:] = [there if place == here else place for place in sys.path]
    if not _handed_over(arguments):
        become_worker(arguments)


def _handed_over(arguments: list[str]) -> bool:
    """Whether a copy of the template is the worker now."""
    request: Request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "path": sys.path,
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "raylet": os.getppid(),
    }
    text = json.dumps(request).encode()
    try:
        with socket.socket(socket.AF_UNIX) as template:
            template.connect(os.environ[SOCKET])
            socket.send_fds(template, [len(text).to_bytes(SIZE_BYTES, "big")], STANDARD_FILES)
            template.sendall(text)
            return bool(template.recv(1))
    except (OSError, KeyError):
        return False


def become_worker(arguments: list[str]) -> None:
    file = str(_ray_worker())
    sys.argv = [file, *arguments]
    runpy.run_path(file, run_name="__main__")


def _ray_worker() -> Path:
    """The file that Ray would have run. (To import Ray here would take most of a second.)"""
    spec = importlib.util.find_spec("ray")
    if spec is None or spec.origin is None:
        raise ImportError("Ray is not installed where its workers run")
    return Path(spec.origin).parent / "_private" / "workers" / "default_worker.py"


if __name__ == "__main__":
    main(sys.argv[1:])
