"""Checkpoints: whole or not there, and never believed when damaged."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from heterofl_ray import checkpoint, keeping, presets, run
from heterofl_ray.checkpoint import Progress, newest, write
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import DataError
from heterofl_ray.runner import make_backend, make_bench, resume
from heterofl_ray.simulation import Simulation
from heterofl_ray.state import ClientState, load, save

PARAMETERS = {"w": torch.arange(6.0).view(2, 3), "b": torch.tensor([1.5])}


def put(folder: Path, round_number: int, goodness: float | None = None, keep: int = 9) -> Path:
    rows = [{"round": t, "loss": 0.5, "score": None} for t in range(1, round_number + 1)]
    values = {name: tensor + round_number for name, tensor in PARAMETERS.items()}
    write(values, folder, Progress(round_number, "experiment", rows, goodness), keep, True)
    return folder / f"round-{round_number:06d}"


def kept(folder: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in folder.iterdir())


def test_what_was_written_is_read(tmp_path: Path) -> None:
    put(tmp_path, 1)
    put(tmp_path, 2, goodness=90.0)
    found = newest(tmp_path)
    assert found.progress.round_number == 2
    assert found.progress.goodness == 90.0
    assert [row["round"] for row in found.progress.rows] == [1, 2]
    assert all(torch.equal(found.parameters[n], t + 2) for n, t in PARAMETERS.items())


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    for round_number, goodness in enumerate([50.0, 80.0, 70.0, None, 60.0], start=1):
        put(tmp_path, round_number, goodness, keep=2)
    assert kept(tmp_path) == [2, 4, 5]


def test_the_best_may_be_left_out(tmp_path: Path) -> None:
    for round_number in (1, 2, 3):
        write(PARAMETERS, tmp_path, Progress(round_number, "x", [], 9.0 - round_number), 1, False)
    assert kept(tmp_path) == [3]


def test_a_score_that_is_not_a_number_is_not_the_best(tmp_path: Path) -> None:
    for round_number, goodness in enumerate([float("nan"), 80.0, 70.0, 60.0], start=1):
        put(tmp_path, round_number, goodness, keep=1)
    assert kept(tmp_path) == [2, 4]


def test_the_same_round_can_be_written_again(tmp_path: Path) -> None:
    put(tmp_path, 3)
    put(tmp_path, 3)
    assert kept(tmp_path) == [3]


def flip(path: Path, place: int = -3) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(bytes(content))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a byte of the parameters": lambda place: flip(place / "parameters.safetensors"),
    "a byte of the manifest": lambda place: flip(place / "manifest.json", 80),
    "cut off": lambda place: (place / "parameters.safetensors").write_bytes(b"\x00" * 10),
    "no parameters": lambda place: (place / "parameters.safetensors").unlink(),
    "no manifest": lambda place: (place / "manifest.json").unlink(),
    "an empty manifest": lambda place: (place / "manifest.json").write_text(""),
    "another manifest": lambda place: (place / "manifest.json").write_text("[1]"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_passed_over_with_a_warning(tmp_path: Path, damage: str) -> None:
    put(tmp_path, 1)
    DAMAGES[damage](put(tmp_path, 2))
    with pytest.warns(UserWarning, match="the checkpoint before it is used"):
        assert newest(tmp_path).progress.round_number == 1


def test_nothing_to_resume_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no checkpoint yet"):
        newest(tmp_path / "nowhere")
    DAMAGES["no manifest"](put(tmp_path, 1))
    with (
        pytest.warns(UserWarning, match="manifest"),
        pytest.raises(DataError, match="every checkpoint is damaged"),
    ):
        newest(tmp_path)


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, 1)

    def full(path: Path, parameters: object) -> None:
        path.write_bytes(b"some of it")
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint.state, "save", full)
    with pytest.raises(OSError, match="no space left"):
        put(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["round-000001"]
    assert newest(tmp_path).progress.round_number == 1


DIGEST = "0" * 64
WRONG: dict[str, dict[str, Any]] = {
    "a round that is no number": {"round": "2"},
    "a round of true": {"round": True},
    "another round": {"round": 3},
    "no rows": {"rows": None},
    "rows that are no rows": {"rows": [1]},
    "a row of texts": {"rows": [{"round": 1, "loss": "x"}]},
    "a score that is no number": {"goodness": "good"},
    "no name": {"experiment": 3},
    "no files": {"files": {}},
    "files that are no files": {"files": [1]},
    "a checksum that is none": {"files": {"parameters.safetensors": 3}},
    **{
        f"a file {name!r}": {"files": {"parameters.safetensors": DIGEST, name: DIGEST}}
        for name in (
            "../../x",
            "/etc/passwd",
            "client-1-2.safetensors",
            "client-x-y.safetensors",
            "",
        )
    },
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_manifest_with_the_right_checksum_is_not_believed_either(
    tmp_path: Path, wrong: str
) -> None:
    put(tmp_path, 1)
    path = put(tmp_path, 2) / "manifest.json"
    manifest = json.loads(json.loads(path.read_text())["manifest"])
    text = json.dumps(manifest | WRONG[wrong])
    sealed = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "manifest": text}
    path.write_text(json.dumps(sealed))
    with pytest.warns(UserWarning, match=r"manifest.json is damaged: .*the checkpoint before it"):
        assert newest(tmp_path).progress.round_number == 1
    assert len(checkpoint.rows(tmp_path)) == 1


@pytest.mark.parametrize("text", ["[" * 100_000, '{"manifest": "' + "[" * 100_000 + '"}'])
def test_a_manifest_nested_without_end(tmp_path: Path, text: str) -> None:
    (put(tmp_path, 1) / "manifest.json").write_text(text)
    with (
        pytest.warns(UserWarning, match="manifest.json is"),
        pytest.raises(DataError, match="every checkpoint is damaged"),
    ):
        newest(tmp_path)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path, 1)
    for name in ("parameters.safetensors", "manifest.json"):
        place = put(tmp_path, 2)
        (place / name).unlink()
        os.mkfifo(place / name)
        with pytest.warns(UserWarning, match="is not a file"):
            assert newest(tmp_path).progress.round_number == 1


def test_tensors_that_claim_more_than_their_file_holds(tmp_path: Path) -> None:
    header = b'{"w": {"dtype": "F32", "shape": [1000000000], "data_offsets": [0, 4000000000]}}'
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(DataError, match="cannot be read as safetensors"):
        load(tmp_path / "x.safetensors")


def test_tensors_of_more_than_the_machines_memory(tmp_path: Path) -> None:
    with (tmp_path / "x.safetensors").open("wb") as file:
        file.truncate(psutil.virtual_memory().total + 1)  # holes take no space
    with pytest.raises(DataError, match="more than this machine's memory"):
        load(tmp_path / "x.safetensors")


# ---- a disk that fails ----------------------------------------------------------------------


@pytest.fixture
def warnings_said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of checkpoints, whatever other tests in this process did to logging."""
    said: list[str] = []
    monkeypatch.setattr(keeping.logger, "warning", lambda text, *values: said.append(text % values))
    return said


class Full:
    """`state.save` on a disk that is full in some rounds, as they are tried."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rounds: set[int]) -> None:
        self.tried = 0
        self.rounds = rounds
        self.plain = checkpoint.state.save
        monkeypatch.setattr(checkpoint.state, "save", self)

    def __call__(self, path: Path, parameters: Any) -> None:
        if ".partial-" in str(path):
            self.tried += 1
            if self.tried in self.rounds:
                path.write_bytes(b"some of it")
                raise OSError(errno.ENOSPC, "No space left on device")
        self.plain(path, parameters)


def test_a_checkpoint_that_cannot_be_written_is_tried_again_and_the_run_goes_on(
    tiny: ExperimentConfig, monkeypatch: pytest.MonkeyPatch, warnings_said: list[str]
) -> None:
    config = tiny.override(["rounds=6", "checkpoint.every=2", "checkpoint.keep=9"])
    expected = run(config).summary["model_sha256"]
    Full(monkeypatch, {1, 2})  # of round 2, and of round 3, which is another try
    result = run(config)
    said = [line for line in warnings_said if "could not be written" in line]
    assert len(said) == 1
    assert "the checkpoint of round 2 could not be written: No space left on device" in said[0]
    assert result.summary["model_sha256"] == expected
    assert kept(Path(result.summary["run_dir"]) / "checkpoints") == [4, 6]


def test_a_run_ends_well_on_a_disk_that_never_takes_a_checkpoint(
    tiny: ExperimentConfig, monkeypatch: pytest.MonkeyPatch, warnings_said: list[str]
) -> None:
    Full(monkeypatch, set(range(99)))
    result = run(tiny)
    assert any("the checkpoint of round 1 could not be written" in line for line in warnings_said)
    assert list((Path(result.summary["run_dir"]) / "checkpoints").iterdir()) == []


def test_a_full_disk_is_told_as_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be written"):
        save(tmp_path / "nowhere" / "x.safetensors", PARAMETERS)


# ---- what clients keep ----------------------------------------------------------------------


def put_clients(folder: Path, round_number: int, changed: dict[int, int], keep: int = 9) -> list:  # type: ignore[type-arg]
    """Clients that last changed in these rounds; the list tells whose tensors were asked for."""
    asked = []

    def fetch(client_and_round: tuple[int, int]) -> dict[str, torch.Tensor]:
        asked.append(client_and_round)
        return {"w": torch.tensor(client_and_round)}

    clients = {client: ClientState(t, (client, t)) for client, t in changed.items()}
    progress = Progress(round_number, "x", [])
    write(PARAMETERS, folder, progress, keep, False, clients, fetch)
    return asked


def test_only_clients_that_changed_are_written(tmp_path: Path) -> None:
    assert put_clients(tmp_path, 1, {3: 1, 7: 1}) == [(3, 1), (7, 1)]
    assert put_clients(tmp_path, 2, {3: 2, 7: 1, 9: 2}, keep=1) == [(3, 2), (9, 2)]
    assert kept(tmp_path) == [2]
    found = newest(tmp_path).clients
    assert {client: state.round_number for client, state in found.items()} == {3: 2, 7: 1, 9: 2}
    assert {client: state.tensors["w"].tolist() for client, state in found.items()} == {
        3: [3, 2],
        7: [7, 1],
        9: [9, 2],
    }


def test_a_damaged_clients_file_is_a_damaged_checkpoint_and_not_taken_over(tmp_path: Path) -> None:
    put_clients(tmp_path, 1, {3: 1})
    put_clients(tmp_path, 2, {3: 2})
    flip(tmp_path / "round-000002" / "client-000003-000002.safetensors")
    with pytest.warns(UserWarning, match="the checkpoint before it is used"):
        assert newest(tmp_path).progress.round_number == 1
    assert put_clients(tmp_path, 2, {3: 2}) == [(3, 2)]
    assert newest(tmp_path).clients[3].tensors["w"].tolist() == [3, 2]


def test_a_file_system_without_links_has_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(old: Path, new: Path) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(checkpoint.os, "link", refuse)
    put_clients(tmp_path, 1, {3: 1})
    assert put_clients(tmp_path, 2, {3: 1}) == [(3, 1)]
    assert newest(tmp_path).clients[3].round_number == 1


# ---- resuming -------------------------------------------------------------------------------


def stopped_after(config: ExperimentConfig, round_number: int) -> Path:
    """The folder of a run whose later checkpoints never came to be."""
    folder = Path(run(config.override(["checkpoint.keep=99"])).summary["run_dir"])
    for place in sorted((folder / "checkpoints").iterdir())[round_number:]:
        for file in place.iterdir():
            file.unlink()
        place.rmdir()
    for name in ("result.json", "model.safetensors", "history.parquet"):
        (folder / name).unlink()
    return folder


PERSONAL = ["method=lg-fedavg", "server.optimizer=adam", "fraction=0.5"]


@pytest.mark.parametrize(
    ("round_number", "overrides"),
    [(1, []), (3, []), (4, []), (2, ["server.optimizer=yogi"]), (2, PERSONAL), (4, PERSONAL)],
)
def test_a_resumed_run_is_the_uninterrupted_one(
    tiny: ExperimentConfig, round_number: int, overrides: list[str]
) -> None:
    config = tiny.override(["rounds=4", "evaluate_every=2", *overrides])
    whole = run(config)
    resumed = resume(stopped_after(config, round_number))
    assert resumed.summary["model_sha256"] == whole.summary["model_sha256"]
    assert resumed.summary["levels"] == whole.summary["levels"]
    names = whole.history.column_names
    columns = [name for name in names if not name.startswith(("seconds", "worker_"))]
    assert resumed.history.select(columns).equals(whole.history.select(columns))


def test_a_state_stays_what_it_was_when_the_next_round_is_committed(
    tiny: ExperimentConfig, data_root: Path
) -> None:
    bench = make_bench(tiny, data_root)
    backend = make_backend(bench)
    simulation = Simulation(bench, backend)
    first = simulation.train(1).state.server
    before = {name: tensor.clone() for name, tensor in first.items()}
    simulation.train(2)
    backend.close()
    assert all(torch.equal(first[name], tensor) for name, tensor in before.items())


def test_a_runs_own_config_can_be_run_again(tiny: ExperimentConfig) -> None:
    first = run(tiny)
    again = run(presets.load(str(Path(first.summary["run_dir"]) / "config.yaml")))
    assert again.summary["model_sha256"] == first.summary["model_sha256"]


def test_a_checkpoint_of_another_experiment_is_refused(tiny: ExperimentConfig) -> None:
    folder = stopped_after(tiny, 1)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("lr: 0.1", "lr: 0.2"))
    with pytest.raises(DataError, match="its checkpoint is of"):
        resume(folder)


def test_a_checkpoint_whose_tensors_are_not_the_models_is_refused(tiny: ExperimentConfig) -> None:
    folder = stopped_after(tiny, 1)
    place = folder / "checkpoints"
    last = newest(place)
    for wrong in ({"w": torch.ones(2)}, {next(iter(last.parameters)): torch.ones(2)}):
        merged = {**dict(list(last.parameters.items())[:2]), **wrong}
        write(merged, place, last.progress, 1, False)
        with pytest.raises(DataError, match=r"its checkpoint has no .* of shape"):
            resume(folder)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no config\.yaml"):
        resume(tmp_path)
