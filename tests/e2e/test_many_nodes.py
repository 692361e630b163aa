"""The main job on three Ray nodes, submitted from outside; one is lost in mid-run, one comes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from heterofl_ray.cli import main

from .nodes import BIN, Cluster, Namespaces, cluster, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nodes")]

REPOSITORY = Path(__file__).parents[2]
ROUNDS = 150
SETTINGS = {
    "rounds": ROUNDS,
    "evaluate_every": 0,
    "text.rows": 400,
    "clients": 400,
    "fraction": 0.005,
    "mix": "a-b",
    "network.embedding": 16,
    "network.heads": 2,
    "network.layers": 1,
}
SMALL = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with cluster() as made:
        made.add(1, 2)
        wait_until(lambda: made.living() == 3, 90, made.log)
        yield made


def test_a_node_cut_off_and_one_added_in_mid_run_leave_the_bytes_alone(
    three: Cluster, tmp_path: Path, data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with log.open("w") as output:
        job = subprocess.Popen(
            [
                *(str(BIN / "heterofl-ray"), "submit", "jobs/wikitext_dynamic.py"),
                *("--address", three.url, "--", "--smoke", "--data-dir", str(data_root)),
                *("--set", f"tracking.root={tmp_path}/runs", *SMALL),
            ],
            cwd=REPOSITORY,
            env=three.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: rounds_kept(tmp_path) >= 3, 120, log.read_text)
        places = {node["node_id"]: node["node_ip"] for node in three.nodes()}
        lost = next(
            actor["node_id"]
            for actor in three.actors()
            if actor["class_name"] == "Worker" and not is_head(three, actor["node_id"])
        )
        if isinstance(three.network, Namespaces):
            assert sorted(places.values()) == [three.network.address(node) for node in range(3)]
            three.cut([three.network.address(node) for node in range(3)].index(places[lost]))
        else:
            three.cut(1)
        three.add(3)
        wait_until(lambda: states(three) == ["ALIVE"] * 3 + ["DEAD"], 60, three.log)
        assert job.poll() is None, "the run was over before the change\n" + log.read_text()
        assert job.wait(120) == 0, log.read_text()
    finally:
        job.terminate()
        job.wait(60)
    (result,) = (tmp_path / "runs").glob("*/result.json")
    found = json.loads(result.read_text())

    assert main(["run", "pydocs-dynamic", *SMALL, "--quiet", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["model_sha256"] == alone["model_sha256"]
    assert found["levels"] == alone["levels"]
    rows = pq.read_table(result.parent / "history.parquet").to_pylist()
    assert [row["round"] for row in rows] == list(range(1, ROUNDS + 1))


def rounds_kept(place: Path) -> int:
    kept = [path.name for path in place.glob("runs/*/checkpoints/round-*")]
    return max((int(name.removeprefix("round-")) for name in kept), default=0)


def is_head(made: Cluster, node_id: str) -> bool:
    return any(node["node_id"] == node_id and node["is_head_node"] for node in made.nodes())


def states(made: Cluster) -> list[str]:
    return sorted(node["state"] for node in made.nodes())
