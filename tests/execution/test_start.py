"""Starting a Ray for a run: what is asked of it, and what is imported meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.sources import load
from heterofl_ray.errors import RunFailed
from heterofl_ray.execution import cluster, own_ray


@pytest.fixture(autouse=True)
def template(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """In place of the one that is started with a Ray."""
    made = SimpleNamespace(worker_file=Path("our/worker.py"), end=Mock())
    monkeypatch.setattr(own_ray.forked_workers, "start", lambda: made)
    return made


@pytest.mark.parametrize(
    ("workers", "cpus", "preloaded"),
    [("auto", 64, True), (2, 2, True), (32, 64, True), (2, 64, False)],
)
def test_worker_processes_preload_only_where_most_get_an_actor(
    workers: int | str, cpus: int, preloaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setenv("RAY_preload_python_modules", "")
    monkeypatch.delenv("RAY_preload_python_modules")
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    monkeypatch.setattr(cluster.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster.ray, "init", lambda **options: asked.update(options))
    config = ExperimentConfig.from_dict({"execution": {"workers": workers, "address": "local"}})
    assert cluster.connect(config)
    assert asked["num_cpus"] == cpus
    assert asked["include_dashboard"] is False
    assert ("RAY_preload_python_modules" in os.environ) is preloaded


def test_torch_is_imported_while_ray_starts() -> None:
    """In another thread: Ray's processes end with the thread that started them."""
    script = (
        "import sys, threading, time\n"
        "from heterofl_ray.config import ExperimentConfig\n"
        "from heterofl_ray.execution import cluster\n"
        "assert 'torch' not in sys.modules\n"
        "def connect(config):\n"
        "    assert threading.current_thread() is threading.main_thread()\n"
        "    while 'torch' not in sys.modules:\n"
        "        time.sleep(0.01)\n"
        "cluster.connect = connect\n"
        "cluster.connect_early(ExperimentConfig())\n"
        "assert 'heterofl_ray.runner' in sys.modules\n"
        "assert 'heterofl_ray.execution.ray_backend' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_a_worker_does_first_imports_neither_a_compiler_nor_pandas(data_root: Path) -> None:
    """Torch and Arrow would, here and there, and let every worker wait for seconds."""
    for name in ("digits", "pydocs"):
        load(name, data_root)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "import torch\n"
        "from heterofl_ray import presets\n"
        "from heterofl_ray.clients.update import client_update\n"
        "from heterofl_ray.clients.workbench import Workbench\n"
        "from heterofl_ray.execution import actors\n"
        "from heterofl_ray.parameter_server import ParameterServer\n"
        "from heterofl_ray.submodels.selectors import Cut\n"
        "for name in ('digits-dynamic', 'pydocs-dynamic'):\n"
        "    config = presets.load(name).override(['local_epochs=1'])\n"
        "    bench = Workbench(config, Path(sys.argv[1]), torch.device('cpu'))\n"
        "    level = config.levels.levels[-1]\n"
        "    client_update(bench, level, 0, 1, 0.1, ParameterServer(bench).cut(Cut(level)))\n"
        "heavy = {'torch._dynamo', 'torch._inductor', 'sympy', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    command = [sys.executable, "-c", script, str(data_root)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_ray_that_does_not_start_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**options: object) -> None:
        raise Exception("The current node timed out during startup.\nA second line.")

    monkeypatch.setattr(cluster.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster.ray, "init", init)
    with pytest.raises(RunFailed) as caught:
        cluster.connect(ExperimentConfig().override(["execution.address=local"]))
    assert str(caught.value) == (
        "Ray could not be started on this machine: The current node timed out during startup."
    )


@pytest.mark.parametrize(("wanted", "steps_back"), [(None, "15"), ("5", None)])
def test_workers_step_back_unless_the_user_has_set_their_priority(
    wanted: str | None, steps_back: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = "RAY_worker_niceness"
    monkeypatch.setattr(os, "environ", {} if wanted is None else {setting: wanted})
    monkeypatch.setattr(cluster.ray, "init", lambda **options: None)
    own_ray.start(2)
    assert os.environ[setting] == (wanted or "0")
    assert os.environ.get(own_ray.STEPS_BACK_TO) == steps_back
    taken: list[int] = []
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    monkeypatch.setattr(os, "setpriority", lambda *given: taken.append(given[-1]))
    own_ray.step_back()
    assert taken == ([] if steps_back is None else [int(steps_back)])


def test_ray_is_as_it_was_after_a_start_with_changed_parts(
    template: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        (own_ray.RayParams, "__init__"),
        (own_ray.Node, "start_api_server"),
        (own_ray.ray_utils, "get_dashboard_dependency_error"),
    ]
    before = [getattr(owner, name) for owner, name in parts]

    def init(**options: object) -> None:
        during = [getattr(owner, name) for owner, name in parts]
        assert not any(one is other for one, other in zip(during, before, strict=True))
        assert own_ray.RayParams().worker_path == "our/worker.py"
        raise RuntimeError("did not start")

    monkeypatch.setattr(os, "environ", {})  # what a start sets is not for the tests after it
    monkeypatch.setattr(cluster.ray, "init", init)
    with pytest.raises(RuntimeError, match="did not start"):
        own_ray.start(2)
    assert [getattr(owner, name) for owner, name in parts] == before
    template.end.assert_called_once()


@pytest.mark.parametrize("wanted", [None, "1000"])
def test_notes_that_nobody_reads_are_not_taken_unless_the_user_wants_them(
    wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = "RAY_task_events_report_interval_ms"
    monkeypatch.setattr(os, "environ", {} if wanted is None else {setting: wanted})
    monkeypatch.setattr(cluster.ray, "init", lambda **options: None)
    own_ray.start(2)
    expected = {**own_ray.UNREAD, setting: wanted or "0"}
    assert {name: os.environ[name] for name in expected} == expected


def test_a_node_that_is_late_is_waited_for_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray itself gives up after half a minute, which a busy machine may need."""
    answers = iter([RuntimeError("not yet"), RuntimeError("not yet"), {"node": 1}])

    def find(*which: object) -> object:
        found = next(answers, RuntimeError("never"))
        if isinstance(found, Exception):
            raise found
        return which, found

    monkeypatch.setattr(own_ray.services, "get_node", find)
    with own_ray.patiently():
        patient = own_ray.services.get_node
        assert patient("address", "id") == (("address", "id"), {"node": 1})
        monkeypatch.setattr(own_ray, "START_SECONDS", 0.2)
        with pytest.raises(RuntimeError, match="never"):
            patient("address", "id")
    assert own_ray.services.get_node is find
