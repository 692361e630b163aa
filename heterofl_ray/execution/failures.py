"""What to do when something is lost: a pure policy, tested without a cluster."""

from __future__ import annotations

from enum import Enum, auto

from heterofl_ray.errors import RunFailed


class Loss(Enum):
    """What happened to a job."""

    WORKER_DIED = auto()
    """Its process or node is gone."""
    RESULT_LOST = auto()
    """It was done, but what it returned is gone with the node that held it."""
    OUT_OF_MEMORY = auto()
    """It was ended because the machine ran out of memory."""
    CLIENT_ERROR = auto()
    """Its own code raised an error, and would again: jobs are pure."""


class Decision(Enum):
    RETRY = auto()
    """Run the job again, on any worker."""
    REPLACE = auto()
    """Replace the worker, and run the job again."""
    GIVE_UP = auto()


def decide(loss: Loss, tries: int, most: int) -> Decision:
    """``tries`` is how often the job was started so far, ``most`` how often it may be."""
    if loss is Loss.CLIENT_ERROR or tries >= most:
        return Decision.GIVE_UP
    return Decision.RETRY if loss is Loss.RESULT_LOST else Decision.REPLACE


class ServerLost(RunFailed):
    """The parameter server is gone; the round must be done again from the last committed state."""
