"""Ray's token: who makes it, who may read it, and to whom it is shown."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.execution import authentication, cluster
from heterofl_ray.execution.authentication import ensure_token, find_token, is_refused


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_is_made_once_for_its_owner_alone(home: Path) -> None:
    before = os.umask(0)
    try:
        ensure_token()
    finally:
        os.umask(before)
    file = home / ".ray" / "auth_token"
    first = file.read_text()
    assert re.fullmatch("[0-9a-f]{64}", first)
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    ensure_token()
    assert file.read_text() == first == find_token()
    assert list(file.parent.iterdir()) == [file]


def test_all_who_start_at_once_get_the_same_token() -> None:
    def start(_: int) -> str | None:
        ensure_token()
        return find_token()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(32)))) == 1


def test_a_token_of_rays_making_is_made_private(home: Path) -> None:
    file = home / ".ray" / "auth_token"
    file.parent.mkdir()
    file.write_text("rays")
    file.chmod(0o644)
    ensure_token()
    assert (file.read_text(), mode(file)) == ("rays", 0o600)


@pytest.mark.parametrize(
    "given", [{"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": "mine"}], ids=str
)
def test_none_is_made_where_none_is_needed(
    given: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    ensure_token()
    assert not (home / ".ray").exists()


def test_a_named_file_must_be_there_and_private(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    with pytest.raises(ConfigError, match=r"RAY_AUTH_TOKEN_PATH='.*' is not valid: there is no"):
        ensure_token()
    file.write_text("named\n")
    file.chmod(0o640)
    for look in (ensure_token, find_token):
        with pytest.raises(ConfigError, match=f"others may read it; 'chmod 600 {file}'"):
            look()
    assert mode(file) == 0o640
    file.chmod(0o400)
    ensure_token()
    assert find_token() == "named"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "first")
    assert find_token() == "first"


def test_a_home_that_takes_no_file_is_one_line(home: Path) -> None:
    (home / ".ray").write_text("not a folder")
    with pytest.raises(ConfigError, match=r"no token can be kept in .*/\.ray \(File exists\)"):
        ensure_token()


def test_a_run_sees_to_the_token_before_it_starts_ray(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr(cluster.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster.ray, "init", lambda **_: seen.append(find_token()))
    cluster.connect(ExperimentConfig.from_dict({"execution": {"address": "local", "workers": 1}}))
    assert seen[0] is not None


# ---- a Ray that asks for a token -----------------------------------------------------------


@pytest.fixture
def head() -> Iterator[str]:
    """Answers like Ray's head: only those who show the token 'right'."""

    class Guard(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            assert details.method == authentication._QUESTION

            def answer(request: bytes, context: Any) -> bytes:
                if dict(context.invocation_metadata()).get("authorization") != "Bearer right":
                    context.abort(grpc.StatusCode.UNAUTHENTICATED, "InvalidAuthToken")
                return b""

            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(ThreadPoolExecutor(1), handlers=[Guard()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({}, True),
        ({"RAY_AUTH_MODE": "token"}, True),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "wrong"}, True),
        ({"RAY_AUTH_TOKEN": "right"}, True),  # Ray would not show it either
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "right"}, False),
    ],
    ids=str,
)
def test_only_the_right_token_is_let_in(
    given: dict[str, str], refused: bool, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert is_refused(head, 3.0) is refused


def test_a_refusal_is_one_line_that_says_what_to_set(
    head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.ray, "is_initialized", lambda: False)
    config = ExperimentConfig.from_dict({"execution": {"address": head}})
    with pytest.raises(ConfigError, match="set RAY_AUTH_MODE=token") as error:
        cluster.connect(config)
    assert f"execution.address='{head}' is not valid: the Ray there asks" in str(error.value)
    assert "\n" not in str(error.value)
