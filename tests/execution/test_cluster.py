"""Addresses: a place where no Ray answers, and a Ray that is not the one asked for."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest
import ray

from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.execution import cluster


def asking(address: str) -> ExperimentConfig:
    return ExperimentConfig().override([f"execution.address={address}", "execution.backend=ray"])


def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.fixture(autouse=True)
def _no_ray_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests have started in this process."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def test_a_port_where_nothing_listens_is_one_line_at_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    address = f"127.0.0.1:{closed_port()}"
    started = time.monotonic()
    assert main(["run", "digits-dynamic", "--address", address]) == 2
    assert time.monotonic() - started < 10  # Ray itself tries for twenty seconds
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err == (
        f"heterofl-ray: error: execution.address='{address}' is not valid: "
        "no Ray cluster answers there (Connection refused)\n"
    )


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", "no-such-host.invalid:6379"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ConfigError, match="no Ray cluster answers there"):
        cluster.connect(asking(address))


def test_the_environments_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"127.0.0.1:{closed_port()}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError, match=f"execution.address='{address}'"):
        cluster.connect(asking("auto"))


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A process that has a Ray, at port 6379 of this machine, which somebody else started."""
    context = SimpleNamespace(
        gcs_address=f"{ray.util.get_node_ip_address()}:6379", namespace="somebody's"
    )
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    return context


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:6379", "localhost:6379"])
def test_the_cluster_this_process_has_is_used(address: str, connected: SimpleNamespace) -> None:
    assert cluster.connect(asking(address)) is False


@pytest.mark.parametrize("address", ["127.0.0.1:6380", "10.1.2.3:6379", "local"])
def test_another_one_is_refused(address: str, connected: SimpleNamespace) -> None:
    with pytest.raises(ConfigError, match="this process is connected to the Ray at"):
        cluster.connect(asking(address))


def test_the_one_started_here_is_local(connected: SimpleNamespace) -> None:
    connected.namespace = cluster.OWN
    assert cluster.connect(asking("local")) is False
