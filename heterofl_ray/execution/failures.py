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
    GPU_FULL = auto()
    """There was no memory left on the GPU that it shared with others."""


class Decision(Enum):
    RETRY = auto()
    """Run the job again, on any worker."""
    REPLACE = auto()
    """Replace the worker, and run the job again."""
    GIVE_UP = auto()


def decide(loss: Loss, tries: int, most: int) -> Decision:
    """``tries`` is how often the job was started so far, ``most`` how often it may be."""
    if tries >= most:
        return Decision.GIVE_UP
    lives = loss in (Loss.RESULT_LOST, Loss.GPU_FULL)
    return Decision.RETRY if lives else Decision.REPLACE


class ServerLost(RunFailed):
    """The parameter server is gone; the round must be done again from the last committed state."""


class ObjectsLost(ServerLost):
    """What was to be read went down with its node, or cannot be had in time."""
