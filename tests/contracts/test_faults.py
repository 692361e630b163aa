"""With faults = without: the same bytes, whoever dies."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
import torch

from heterofl_ray import checkpoint, register_model, run
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ClientError, RunFailed
from heterofl_ray.execution import forked_workers, ray_backend
from heterofl_ray.execution.authentication import MODE, is_refused
from heterofl_ray.execution.own_ray import LAST
from heterofl_ray.execution.ray_servers import Servers
from heterofl_ray.keeping import CHECKPOINTS
from heterofl_ray.models import registry
from heterofl_ray.progress import Silent
from heterofl_ray.runner import resume
from heterofl_ray.simulation import RoundRecord
from heterofl_ray.tracking.history import Row

from ..e2e.watching import words_of
from .conftest import actor_processes, killing_after, local_digest, make_config, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize(
    ("model", "assignment"),
    [("conv", "dynamic"), ("preresnet18", "fix"), ("transformer", "dynamic")],
)
def test_workers_and_servers_that_are_killed_do_not_change_the_model(
    model: str, assignment: str
) -> None:
    longer = ("rounds=5", f"assignment={assignment}")
    where = ("execution.backend=ray", "execution.workers=2", "execution.tries=20")
    with killing_after("Worker", 1, 3) as workers, killing_after("Server", 2) as servers:
        result = run(make_config(model, *longer, *where))
    assert workers
    assert servers
    assert result.summary["model_sha256"] == local_digest(model, *longer)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("overlap", [False, True])
def test_a_server_that_is_killed_is_rebuilt_from_the_last_committed_round(overlap: bool) -> None:
    longer = ("rounds=7", "evaluate_every=1", "assignment=fix", f"evaluation.overlap={overlap}")
    where = ("execution.backend=ray", "execution.workers=2", f"server.shards={1 + overlap}")
    with killing_after("Server", 2, 4) as killed:
        result = run(make_config("conv", *longer, *where))
    assert killed
    assert result.summary["model_sha256"] == local_digest("conv", *longer)
    assert result.history["round"].to_pylist() == list(range(1, 8))


@pytest.mark.usefixtures("ray_cluster")
def test_servers_that_may_wait_for_a_lost_update_are_not_asked_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They answer in order, so only when Ray gives that update up: after ten minutes, at worst."""
    gone, asked = iter([True]), []
    find = Servers.find

    def noted(servers: Servers) -> None:
        asked.append({actor._actor_id.hex() for actor in servers.actors})
        find(servers)

    monkeypatch.setattr(Servers, "find", noted)
    monkeypatch.setattr(ray_backend, "LOOK_SECONDS", 0)
    monkeypatch.setattr(ray_backend, "is_gone", lambda late: any(late) and next(gone, False))
    result = run(make_config("conv", "execution.backend=ray", "execution.workers=2"))
    at_first, then = asked
    assert not at_first & then
    assert result.summary["model_sha256"] == local_digest("conv")


class Blocked(Silent):
    """For three rounds a file stands where checkpoints go."""

    def start(self, config: ExperimentConfig, folder: Path, done: int, moved: float) -> None:
        self.place = folder / "checkpoints"

    def update(self, record: RoundRecord, row: Row) -> None:
        aside = self.place.with_name("aside")
        if record.round_number == 3:
            self.place.rename(aside)
            self.place.write_text("in the way")
        if record.round_number == 6:
            self.place.unlink()
            aside.rename(self.place)


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_checkpoints_that_cannot_be_written_do_not_end_the_run(
    backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    where = (f"execution.backend={backend}", "execution.workers=1")
    config = make_config("conv", "rounds=10", *where)
    result = run(config, progress=Blocked())
    assert "could not be written" in caplog.text
    assert result.summary["model_sha256"] == local_digest("conv", "rounds=10")
    kept = Path(result.summary["run_dir"]) / "checkpoints"
    assert sorted(path.name for path in kept.iterdir())[-1] == "round-000010"


def without_a_token() -> dict[str, str]:
    """An environment that says nothing of tokens: what a Ray asks for then is our doing."""
    return {name: value for name, value in os.environ.items() if "RAY_AUTH" not in name}


def start(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(Path(sys.executable).parent / "heterofl-ray"), *arguments],
        cwd=folder,
        env={**without_a_token(), "RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_checkpoint(folder: Path, process: subprocess.Popen[str]) -> Path:
    """The run's folder, once it has something to resume from."""
    end = time.monotonic() + 600
    over = False
    while time.monotonic() < end and not over:
        over = process.poll() is not None  # first: it may end while we look
        for found in folder.glob("runs/*/checkpoints/round-*"):
            return found.parents[1]
        time.sleep(0.05)
    raise AssertionError(f"no checkpoint: {process.communicate()[1]}")


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize(
    ("model", "assignment", "backend"),
    [("conv", "fix", "ray"), ("preresnet18", "dynamic", "ray"), ("transformer", "fix", "local")],
)
def test_resumed_after_kill_9_equals_uninterrupted(
    model: str, assignment: str, backend: str, tmp_path: Path
) -> None:
    settings = ("rounds=5", f"assignment={assignment}")
    where = (f"execution.backend={backend}", "execution.workers=2", f"tracking.root={tmp_path}/x")
    ours = ray.get_runtime_context().gcs_address
    mortal = make_config(model, *settings, *where, f"execution.address={ours}")
    (tmp_path / "config.yaml").write_text(mortal.to_yaml())
    seed = random.randrange(10**6)
    print(f"killed at the moment of seed {seed}")
    died = subprocess.run(
        [sys.executable, "-m", "tests.contracts.mortal", str(tmp_path / "config.yaml"), str(seed)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=600,
        start_new_session=True,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    (folder,) = (tmp_path / "x").iterdir()
    assert not (folder / "result.json").exists()
    assert 1 <= checkpoint.newest(folder / CHECKPOINTS).progress.round_number < 5
    result = resume(folder, overrides=["execution.address=auto"])
    assert result.summary["model_sha256"] == local_digest(model, *settings)
    assert result.history["round"].to_pylist() == [1, 2, 3, 4, 5]


def niceness(processes: list[psutil.Process], title: str) -> set[int]:
    return {each.nice() for each in processes if any(title in word for word in words_of(each))}


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_how_to_go_on_and_leaves_no_process(
    signal_number: signal.Signals, tmp_path: Path
) -> None:
    config = make_config("conv", "rounds=200", "checkpoint.every=7")
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    process = start(["run", "config.yaml", "--address", "local"], tmp_path)
    folder = wait_for_checkpoint(tmp_path, process)
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("raylet" in child.name() for child in children)
    words = [word for child in children for word in words_of(child)]
    assert not any(part in word for word in words for part in ("monitor.py", "dashboard.py"))
    (head,) = {word for word in words if word.startswith("--gcs-address=")}
    with pytest.MonkeyPatch.context() as stranger:
        stranger.delenv(MODE, raising=False)  # else the token would be shown
        assert is_refused(head.removeprefix("--gcs-address="), 60)
    (template,) = (child for child in children if forked_workers.AS_TEMPLATE in words_of(child))
    copies = [child for child in children if "ray::Worker" in " ".join(words_of(child))]
    assert {copy.ppid() for copy in copies} == {template.pid}
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    assert niceness(children, "ray::Worker") == {max(LAST, ours)}
    assert niceness(children, "ray::Server") == {ours}
    if signal_number == signal.SIGINT:
        os.killpg(process.pid, signal_number)  # as a terminal's Ctrl-C: to the whole group
    else:
        process.send_signal(signal_number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal_number
    assert "Traceback" not in errors
    assert f"heterofl-ray resume {folder.relative_to(tmp_path)}" in errors
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive
    kept = int(errors.split("stopped after round ")[1].split(";")[0])
    assert (folder / "checkpoints" / f"round-{kept:06d}").is_dir()


def test_workers_start_by_themselves_when_the_process_they_are_copies_of_is_killed(
    tmp_path: Path,
) -> None:
    settings = ("rounds=40", "execution.tries=20")
    config = make_config("conv", *settings, "execution.workers=2", f"tracking.root={tmp_path}/runs")
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    process = start(["run", "config.yaml", "--address", "local", "--json"], tmp_path)
    wait_for_checkpoint(tmp_path, process)
    children = psutil.Process(process.pid).children(recursive=True)
    (template,) = (child for child in children if forked_workers.AS_TEMPLATE in words_of(child))
    workers = [child for child in children if "ray::Worker" in " ".join(words_of(child))]
    assert workers
    template.kill()
    for worker in workers:
        worker.kill()
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    # what Ray says of the dead is no part of the result
    assert json.loads(output)["model_sha256"] == local_digest("conv", *settings)
    assert "A worker died" in errors


@pytest.fixture
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))
    return None


class Broken(torch.nn.Module):
    """A user's model with a mistake that shows only in training."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            raise ZeroDivisionError("the user's own mistake")
        return self.layer(x.flatten(1))  # type: ignore[no-any-return]


@pytest.mark.usefixtures("ray_cluster", "_own_registry")
@pytest.mark.parametrize("backend", ["local", "ray"])
def test_a_clients_own_error_is_shown_with_its_id_level_and_round(backend: str) -> None:
    register_model("broken", lambda rate: Broken())
    where = (f"execution.backend={backend}", "execution.workers=1")
    config = make_config("conv", "model=broken", *where)
    with pytest.raises(ClientError) as caught:
        run(config)
    message = str(caught.value)
    assert "client " in message
    assert "at level " in message
    assert "failed in round 1: ZeroDivisionError: the user's own mistake" in message
    assert "in forward" in caught.value.trace


class Deadly(torch.nn.Module):
    """A model whose training ends the process it is in, unless that is ``spared``."""

    def __init__(self, spared: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)
        self.spared = spared

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and os.getpid() != self.spared:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.layer(x.flatten(1))  # type: ignore[no-any-return]


@pytest.mark.usefixtures("ray_cluster", "_own_registry")
def test_a_job_that_kills_every_worker_ends_the_run_with_a_clear_error() -> None:
    here = os.getpid()
    register_model("deadly", lambda rate: Deadly(here))
    config = make_config(
        "conv", "model=deadly", "execution.backend=ray", "execution.workers=1", "execution.tries=2"
    )
    with pytest.raises(RunFailed, match=r"was lost 2 times \(worker_died\)"):
        run(config)


@pytest.mark.usefixtures("ray_cluster")
def test_resources_that_can_never_be_had_are_named(caplog: pytest.LogCaptureFixture) -> None:
    config = make_config(
        "conv", "execution.backend=ray", "execution.worker_cpus=64", "execution.patience=3"
    )
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(RunFailed, match=r"no worker became ready in 3 s.*of 4 CPUs"),
    ):
        run(config)


@pytest.mark.usefixtures("ray_cluster")
def test_a_ray_that_was_running_is_left_running_and_clean() -> None:
    run(make_config("conv", "rounds=1", "execution.backend=ray", "execution.workers=1"))
    assert ray.is_initialized()
    for kind in ("Worker", "Server"):
        wait_until(lambda kind=kind: not actor_processes(kind), 120, f"there still is a {kind}")
