"""The main job on three Ray nodes, submitted from outside; in mid-run one comes, one is lost."""

from __future__ import annotations

import json
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from heterofl_ray.cli import main

from .knocking import answer_to_a_job
from .nodes import BIN, LOCAL, SECONDS, Cluster, Namespaces, cluster, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nodes")]

REPOSITORY = Path(__file__).parents[2]
JOB = "jobs/wikitext_dynamic.py"
ROUNDS = 50
SETTINGS = {
    "rounds": ROUNDS,
    "evaluate_every": 0,
    "text.rows": 400,
    "clients": 400,
    "fraction": 0.01,  # a client for each of four workers
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
        wait_for(lambda: made.joined(1, 2), made.log)
        yield made


def test_each_has_an_address_of_its_own(three: Cluster) -> None:
    if not isinstance(three.network, Namespaces):
        pytest.skip("network namespaces cannot be made here: all nodes share an address")
    expected = {three.network.address(node) for node in range(3)}
    wait_for(lambda: {node["node_ip"] for node in three.nodes()} == expected, three.log)


def test_the_head_has_made_a_token_and_asks_for_it(three: Cluster) -> None:
    assert stat.S_IMODE(three.token.stat().st_mode) == 0o600
    assert stat.S_IMODE(three.token.parent.stat().st_mode) == 0o700
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(f"{three.url}/api/v0/nodes", timeout=SECONDS)
    assert refusal.value.code == 401
    assert answer_to_a_job(three.url, None) == 401
    assert answer_to_a_job(three.url, "0" * 64) == 403


def test_a_worker_that_has_no_token_is_not_started(three: Cluster, tmp_path: Path) -> None:
    worker = str(LOCAL / "worker.sh")
    assert three.stranger(7, worker, three.address, HOME=str(tmp_path)) == 2
    assert f"no token in {tmp_path}/.ray/auth_token" in three.log(7)


@pytest.mark.parametrize(
    ("node", "shown"),
    [(8, {"RAY_AUTH_MODE": "disabled"}), (9, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "x"})],
    ids=["none", "wrong"],
)
def test_a_node_without_the_right_token_does_not_join(
    node: int, shown: dict[str, str], three: Cluster
) -> None:
    join = (str(BIN / "ray"), "start", "--block", f"--address={three.address}")
    once = {"RAY_NUM_REDIS_GET_RETRIES": "1"}  # Ray would knock twenty times
    assert three.stranger(node, *join, **shown, **once) != 0
    assert "InvalidAuthToken" in three.log(node)
    assert not three.joined(node)
    assert three.joined(0, 1, 2)


def test_a_node_added_and_one_cut_off_in_mid_run_leave_the_bytes_alone(
    three: Cluster, tmp_path: Path, data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with log.open("w") as output:
        job = subprocess.Popen(
            [
                *(str(BIN / "heterofl-ray"), "submit", JOB),
                *("--address", three.url, "--", "--smoke", "--data-dir", str(data_root)),
                *("--set", f"tracking.root={tmp_path}/runs", *SMALL),
            ],
            cwd=REPOSITORY,
            env=three.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def story() -> str:
        return log.read_text() + three.log()

    def is_over() -> bool:
        return job.poll() is not None

    try:
        wait_for(lambda: rounds_kept(tmp_path) or is_over(), story)
        with three.slowed(JOB):
            three.add(3)
            wait_for(lambda: three.joined(3) or is_over(), story)
            wait_for(lambda: 3 in worker_nodes(three) or is_over(), story)
            assert not is_over(), "the run was over before the change\n" + story()
            lost = worker_nodes(three)[0]
            three.cut(lost)
            kept = rounds_kept(tmp_path)
        assert 0 < kept < ROUNDS - 10, f"hardly a round was left to be cut off: {kept}"
        assert job.wait(2 * SECONDS) == 0, story()
        wait_for(lambda: three.is_dead(lost), story)
        assert lost != 3
        assert three.trained(3) >= (ROUNDS - kept) // 2, "the node that came got hardly any work"
    finally:
        job.terminate()
        job.wait(SECONDS)
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


def worker_nodes(made: Cluster) -> list[int]:
    """Nodes with a worker of the run, but for the head."""
    workers = [actor for actor in made.actors() if actor["class_name"] == "Worker"]
    places = {actor["node_id"] for actor in workers if actor["state"] == "ALIVE"}
    return [node for node, node_id in made.ids.items() if node and node_id in places]
