"""The parameter server's actors: started, asked, felt for and replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError

from heterofl_ray.errors import RunFailed
from heterofl_ray.execution.actors import Place
from heterofl_ray.execution.failures import ObjectsLost, ServerLost
from heterofl_ray.execution.ray_waiting import LOOK_SECONDS, Every, is_gone, ready

PULSE_SECONDS = 3.0

Parts = list[ray.ObjectRef]
"""One reference for each server."""
Turn = Callable[[Sequence[ray.ObjectRef], str], list[ray.ObjectRef]]


class Servers:
    """One actor for each part of the model; ``start`` makes them.

    While they are waited for the pool's ``turn`` goes on. A server that does not answer within
    ``patience`` seconds is as lost as one that died.
    """

    def __init__(self, start: Callable[[], list[Any]], turn: Turn, patience: float) -> None:
        self.actors: list[Any] = []
        self.places: list[Place] = []
        self._start = start
        self._turn = turn
        self._patience = patience
        self._pulse: Parts = []
        self._asked = 0.0
        self._beat = Every(PULSE_SECONDS)

    def replace(self) -> None:
        """New ones, in place of those there are."""
        self.close()
        self.actors = self._start()

    def close(self) -> None:
        for actor in self.actors:
            ray.kill(actor)
        self.actors, self._pulse = [], []

    def keep_up(self, use: Callable[[], None], tries: int) -> None:
        """Have living servers and ``use`` them; they may die while they start, too."""
        for _ in range(1 + tries):
            try:
                self.find()
                use()
                return
            except ServerLost as error:
                reason = error
                self.replace()
        raise RunFailed(f"the parameter server cannot be kept up: {reason}")

    def find(self) -> None:
        self.places = self.ask("the parameter server", lambda server: server.place.remote())

    # ---- questions --------------------------------------------------------------------------

    def ask(
        self, what: str, call: Callable[[Any], ray.ObjectRef], needs: Sequence[Any] = ()
    ) -> list[Any]:
        """Answers of all servers; ``needs`` are the objects they have to read for it."""
        return self._taken([call(server) for server in self.actors], what, needs)

    def ask_for_parts(self, what: str, call: Callable[[Any], Sequence[ray.ObjectRef]]) -> Parts:
        """References to what each server returns behind its small answer."""
        answers = [call(server) for server in self.actors]
        self._taken([answer for answer, _ in answers], what)
        return [part for _, part in answers]

    def _taken(self, answers: Parts, what: str, needs: Sequence[Any] = ()) -> list[Any]:
        self.wait_for(answers, what, needs)
        try:
            return list(ray.get(answers))
        except RayActorError as error:
            raise ServerLost(str(error)) from None

    def wait_for(self, answers: Parts, what: str, needs: Sequence[Any] = ()) -> None:
        """Until all are there, be it with an error; in vain: `ServerLost`."""
        waiting, started, look = set(answers), time.monotonic(), Every(LOOK_SECONDS)
        lost = ObjectsLost if needs else ServerLost
        while waiting:
            waiting -= set(self._turn(list(waiting), what))
            if waiting and time.monotonic() - started > self._patience:
                raise lost(f"waited for {what} {self._patience:.0f} s, which is execution.patience")
            if waiting and look.is_due() and is_gone(needs):
                raise lost(f"what {what} needs is on no living node")

    # ---- life -------------------------------------------------------------------------------

    def feel(self) -> None:
        """Notice a server that died or hangs though nothing is asked of it just now."""
        for answer in ready(self._pulse, len(self._pulse), 0) if self._pulse else ():
            self._pulse.remove(answer)
            try:
                ray.get(answer)
            except RayActorError as error:
                raise ServerLost(str(error)) from None
        if self._pulse and time.monotonic() - self._asked > self._patience:
            raise ServerLost(
                f"the parameter server does not answer in {self._patience:.0f} s, "
                "which is execution.patience"
            )
        if not self._pulse and self._beat.is_due():
            self._asked = time.monotonic()
            self._pulse = [server.place.remote() for server in self.actors]
