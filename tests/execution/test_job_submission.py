"""Handing a job to Ray's job server that is not ready for it yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heterofl_ray.errors import RunFailed
from heterofl_ray.execution import job_submission

NOT_YET = "Request failed with status code 500: No available agent to submit job, please try again."


class Client:
    """Answers as it is told to, one answer for each time that it is asked."""

    def __init__(self, *answers: str, known: bool = False) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.known = known

    def submit_job(self, **request: Any) -> str:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if answer:
            raise RuntimeError(answer)
        return str(request["submission_id"])

    def get_job_status(self, job: str) -> str:
        if not self.known:
            raise RuntimeError(f"Job {job} does not exist")
        return "PENDING"


def submit(client: Any) -> str:
    return job_submission._submit(client, "python job.py", Path("/jobs"), {"A": "1"})


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_submission, "RETRY_SECONDS", 0.0)


def test_a_job_is_offered_again_under_its_name_while_nobody_takes_it() -> None:
    client = Client(NOT_YET, NOT_YET, "")
    assert submit(client) == client.asked[0]["submission_id"]
    assert len(client.asked) == 3
    assert all(request == client.asked[0] for request in client.asked)


def test_a_job_that_was_taken_after_all_is_not_offered_again() -> None:
    client = Client(NOT_YET, known=True)
    assert submit(client) == client.asked[0]["submission_id"]


def test_names_differ() -> None:
    assert submit(Client("")) != submit(Client(""))


def test_another_mistake_is_told_at_once() -> None:
    with pytest.raises(RunFailed, match="the job was not taken: the folder is too large"):
        submit(Client("the folder is too large"))


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_submission, "START_SECONDS", -1.0)
    with pytest.raises(RunFailed, match="No available agent"):
        submit(Client(NOT_YET))
