"""What the simulation asks of the place where a run's work is done.

A backend holds the parameter server and runs jobs. Slices, states and updates are handles: in one
process they are the tensors themselves, on a cluster references to them. What clients keep to
themselves is part of a round's state: it counts from the round's commit on, and is kept, restored
and recovered with the server's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from heterofl_ray.clients.jobs import CalibrateJob, ClientReport, EvaluateJob
from heterofl_ray.clients.private import ClientTestJob
from heterofl_ray.state import ClientState
from heterofl_ray.submodels.selectors import Cut

Slice = Any
TrainWork = tuple[Any, ...]
"""A `TrainJob`, its slice, and a state (or None) for each client of which it keeps one."""
TestWork = (
    tuple[CalibrateJob, Slice] | tuple[EvaluateJob, Slice, Any] | tuple[ClientTestJob, Slice, Any]
)
Clients = Mapping[int, ClientState]
Kept = tuple[int, Mapping[str, Tensor], Clients]
"""A round, the server's state after it, and what clients kept."""


@dataclass(frozen=True)
class State:
    """The outcome of a round, as handles."""

    server: Any
    clients: Clients = field(default_factory=dict)


class Batch(Protocol):
    """Jobs under way."""

    def done(self) -> bool:
        """Whether `results` would answer at once, be it with an error."""

    def abandon(self) -> None:
        """Nobody wants the results any more."""

    def results(self) -> list[Any]:
        """In the order of the jobs, whatever order they were finished in; waits for them."""


class Backend(Protocol):
    committed: int
    """The last round whose outcome is the global model; 0 at the start."""
    state: State
    """The handle of that round's outcome."""
    fallback: Callable[[], Kept | None] | None
    """Where to find an older state when the last one is lost."""

    @property
    def workers(self) -> int:
        """How many jobs can run side by side."""

    def cut(self, cut: Cut) -> Slice:
        """A sub-model of the global model."""

    def train(
        self, work: Sequence[TrainWork], meanwhile: Callable[[], None] | None = None
    ) -> list[ClientReport]:
        """Run the jobs and add their sums to the server's, in the order of ``work``.

        ``meanwhile`` is called now and then while that is going on.
        """

    def commit(self, round_number: int) -> State:
        """Make the means of what was added the global model, and clients' new states theirs."""

    def test(self, work: Sequence[TestWork]) -> Batch:
        """Start calibration or evaluation jobs."""

    def pool(self, moments: Sequence[Any]) -> Any:
        """The sum of calibration jobs' results."""

    def fetch(self, handle: Any) -> Any:
        """What a handle stands for."""

    def keep(self, state: State, write: Callable[..., None], *arguments: Any) -> None:
        """Call ``write(parameters, *arguments, clients, fetch)``, perhaps in passing.

        Of a committed state: the server's tensors, and the clients' `ClientState`s, of which
        ``fetch`` gets the tensors. Waits for the one before; `kept` tells what became of it.
        """

    def kept(self, wait: bool) -> str | None:
        """Why the last `keep` could not be done; empty: it could. None: it is not done yet.

        What is wrong with the disk, or with the state. Anything else is raised.
        """

    def restore(
        self, round_number: int, parameters: Mapping[str, Tensor], clients: Clients
    ) -> None:
        """Go on from a checkpoint."""

    def recover(self) -> None:
        """After `ServerLost`: a new server with the last state that is left."""

    def parameters(self) -> dict[str, Tensor]:
        """The global model's."""

    def clients(self) -> dict[int, Mapping[str, Tensor]]:
        """What clients keep to themselves, by client."""

    def close(self) -> None:
        """Finish what was begun in passing and free what the backend took."""
