"""What surrounds a sweep: a Ray to run on, and signals that end it in order."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module

import ray

from heterofl_ray.execution import cluster
from heterofl_ray.tuning.plan import SweepPlan

_TRIALS_MODULE = "heterofl_ray.tuning.trials"


@contextmanager
def on_ray(plan: SweepPlan) -> Iterator[None]:
    """The cluster that the experiment names; one that was started here ends here.

    What a trial imports is imported beside it, and by worker processes while they wait.
    """
    os.environ.setdefault("RAY_preload_python_modules", _TRIALS_MODULE)
    with ThreadPoolExecutor(1) as beside:
        beside.submit(import_module, _TRIALS_MODULE)
        started = cluster.connect(plan.base)
    try:
        yield
    finally:
        if started:
            ray.shutdown()


_TUNE = {
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # objectives are known at a trial's end
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # trials keep their own
    "RAY_AIR_NEW_OUTPUT": "0",
}


@contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM ends a sweep as Ctrl-C does, which Tune sees to; Tune itself keeps silent."""
    os.environ.update(_TUNE)
    logger = logging.getLogger("ray.tune")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1) if main else ()
    before = {number: signal.getsignal(number) for number in numbers}
    if main:
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        logger.setLevel(level)
        for number, handler in before.items():
            signal.signal(number, handler)
