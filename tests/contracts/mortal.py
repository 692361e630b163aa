"""Run by `test_faults` in a process of its own: a run that kills itself at a random moment.

python -m tests.contracts.mortal CONFIG.yaml SEED
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from pathlib import Path

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.progress import Silent
from heterofl_ray.runner import run
from heterofl_ray.settings import load_yaml
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking.history import Row


class Mortal(Silent):
    """Dies within the two rounds that follow the second, however long they take.

    By then the first one's checkpoint is on disk; and the last round is never begun.
    """

    def __init__(self, seed: int) -> None:
        self.moment = random.Random(seed).uniform(0, 2)

    def start(self, config: ExperimentConfig, folder: Path, done: int, moved: float) -> None:
        self.last = config.rounds

    def update(self, record: RoundRecord, row: Row) -> None:
        if record.round_number == 2:
            threading.Timer(self.moment * record.seconds, die).start()
        if record.round_number == self.last - 1:
            die()


def die() -> None:
    """With all that was started: this process leads a group of its own."""
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    config = ExperimentConfig.from_dict(load_yaml(Path(sys.argv[1])))
    run(config, progress=Mortal(int(sys.argv[2])))
