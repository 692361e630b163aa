"""The contracts for servers that compare clients, or add noise: the same bytes on any backend."""

from __future__ import annotations

import pytest

from heterofl_ray import run

from .conftest import killing_after, make_config

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("methods")]

LONGER = ("rounds=8", "evaluate_every=0", "execution.trainer=plain")
SERVERS = {
    "robust": (
        "server.robust=trimmed",
        "server.norm_bound=2",
        "server.optimizer=avgm",
        "attack.kind=noise",
        *LONGER,
    ),
    "private": ("privacy.noise=0.5", "network.norm=ln", *LONGER),
}


@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("kind", SERVERS)
def test_two_workers_two_shards_and_a_killed_server_change_nothing(kind: str) -> None:
    expected = run(make_config("conv", *SERVERS[kind]))
    where = ("execution.backend=ray", "execution.workers=2", "server.shards=2")
    with killing_after("Server", 2, 4) as killed:
        found = run(make_config("conv", *SERVERS[kind], *where, "execution.tries=20"))
    assert killed
    assert found.summary["model_sha256"] == expected.summary["model_sha256"]
    for name in ("bounded", "rejected", *(["epsilon"] if kind == "private" else [])):
        assert found.history[name].to_pylist() == expected.history[name].to_pylist()
