"""Starting a Ray on this machine: lean, its workers copies of one process.

Ray has no options for most of it, so functions of its own are changed, most while it starts: the
one place where something private of Ray's is touched.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any

import ray
from ray._private import services
from ray._private import utils as ray_utils
from ray._private import worker as ray_worker
from ray._private.node import Node
from ray._private.parameter import RayParams

from heterofl_ray.execution import forked_workers

# A run keeps few and small objects there; Ray spills to disk beyond it.
OBJECT_STORE_BYTES = 2 * 1024**3
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
START_SECONDS = 120.0
# The namespace of a Ray that was started here, by which it is known again.
OWN = "heterofl-ray"

# Ray's workers let everything else go first, which makes them import for seconds longer. Those of a
# Ray started here begin at an ordinary priority, and take Ray's when they are ready.
LAST = 15
STEPS_BACK_TO = "HETEROFL_WORKER_NICENESS"

# Without a dashboard nobody reads Ray's notes on every task, nor its metrics.
UNREAD = {"RAY_task_events_report_interval_ms": "0", "RAY_enable_metrics_collection": "false"}


def start(cpus: int) -> None:
    """A Ray that ends with this process."""
    if "RAY_worker_niceness" not in os.environ:  # else it is as the user wants it
        os.environ.update({"RAY_worker_niceness": "0", STEPS_BACK_TO: str(LAST)})
    for setting, value in UNREAD.items():
        os.environ.setdefault(setting, value)
    with copying_workers(), patiently(), fewer_parts():
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            namespace=OWN,
            object_store_memory=OBJECT_STORE_BYTES,
            **QUIET,
        )


_say = ray_worker.print_worker_logs


def _say_on_stderr(data: Any, _: Any, ignore_prefix: bool = False) -> None:
    _say(data, sys.stderr, ignore_prefix)


def keep_stdout_clean() -> None:
    """Have Ray say to stderr what it says of workers that died: results are on stdout."""
    ray_worker.print_worker_logs = _say_on_stderr


def step_back() -> None:
    """Let others go first from now on, where workers started before their turn."""
    if STEPS_BACK_TO in os.environ:
        now = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, max(now, int(os.environ[STEPS_BACK_TO])))


@contextmanager
def copying_workers() -> Iterator[None]:
    """Have the Rays that this process starts meanwhile make workers by copying, where they can."""
    template = forked_workers.start()
    if template is None:
        yield
        return
    try:
        with _changed((RayParams, "__init__", _with(worker_path=str(template.worker_file)))):
            yield
    except BaseException:
        template.end()
        raise


@contextmanager
def patiently() -> Iterator[None]:
    """Have the Rays that this process starts meanwhile take their time on a busy machine.

    Ray gives its node half a minute, in which two more of its processes must start.
    """
    find = services.get_node

    def find_in_time(*which: Any, **named: Any) -> Any:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                return find(*which, **named)
            except RuntimeError:  # it is not known yet
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)

    with _changed((services, "get_node", find_in_time)):
        yield


@contextmanager
def fewer_parts() -> Iterator[None]:
    """Have Ray start nothing that a run on one machine has no use for.

    No autoscaler and no copier of logs: nothing grows here, and logs stay files. No dashboard, of
    which `ray.init` would start the half that counts users, and wait for it; and of each node's
    agent only what Ray's plain installation has. `ray start` has options for some of it,
    `ray.init` for none.
    """
    with _changed(
        (RayParams, "__init__", _with(no_monitor=True, include_log_monitor=False)),
        (Node, "start_api_server", _no_dashboard),
        (ray_utils, "get_dashboard_dependency_error", lambda: ImportError("not wanted")),
    ):
        yield


def _with(**parameters: Any) -> Any:
    """How a Ray's parameters are made, with these among them."""
    return partialmethod(RayParams.__init__, **parameters)


def _no_dashboard(node: Node, **options: object) -> None:
    node._webui_url = ""


@contextmanager
def _changed(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    before = [getattr(owner, name) for owner, name, _ in changes]
    for owner, name, changed in changes:
        setattr(owner, name, changed)
    try:
        yield
    finally:
        for (owner, name, _), original in zip(changes, before, strict=True):
            setattr(owner, name, original)
