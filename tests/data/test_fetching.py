"""Downloads, from a server on this machine: whole files with the right checksum, or none."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from heterofl_ray.data import catalog
from heterofl_ray.data.catalog import Remote, Source
from heterofl_ray.data.intake import fetching
from heterofl_ray.data.sources import load
from heterofl_ray.errors import ConfigError, DataError

TRAIN, TEST = b"a b c\n" * 50_000, b"c d\n"


class Handler(BaseHTTPRequestHandler):
    """Serves files from memory; of those named 'short…' only half, of 'wrong…' something else."""

    def __init__(self, asked: list[str], *args: object) -> None:
        self.asked = asked
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        kind, _, name = self.path.strip("/").partition("/")
        content = {"ptb.train.txt": TRAIN, "ptb.test.txt": TEST}.get(name)
        if content is None or kind == "gone":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if kind == "short":
            self.wfile.write(content[: len(content) // 2])
        else:
            self.wfile.write(bytes(len(content)) if kind == "wrong" else content)

    def log_message(self, *args: object) -> None:
        return None


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def server(asked: list[str]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, asked)) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def offer(monkeypatch: pytest.MonkeyPatch, *bases: str) -> None:
    """A data set 'ptb' that is to be had at these addresses."""
    remote = tuple(
        Remote(name, hashlib.md5(content).hexdigest(), tuple(f"{base}/{name}" for base in bases))
        for name, content in (("ptb.train.txt", TRAIN), ("ptb.test.txt", TEST))
    )
    source = Source(task="text", about="a text", files="both files", remote=remote)
    monkeypatch.setitem(catalog.SOURCES, "ptb", source)


def test_files_are_fetched_and_then_converted(
    root: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, f"{server}/good")
    files = fetching.fetch("ptb", root)
    assert files == [root / "raw/ptb/ptb.train.txt", root / "raw/ptb/ptb.test.txt"]
    assert [path.read_bytes() for path in files] == [TRAIN, TEST]
    assert sorted((root / "raw/ptb").iterdir()) == sorted(files)
    assert load("ptb", root).info.vocabulary == 5


def test_files_that_are_there_are_not_fetched_again(
    root: Path, server: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, f"{server}/good")
    fetching.fetch("ptb", root)
    (root / "raw/ptb/ptb.test.txt").write_bytes(b"something else")
    asked.clear()
    fetching.fetch("ptb", root)
    assert asked == ["/good/ptb.test.txt"]
    assert (root / "raw/ptb/ptb.test.txt").read_bytes() == TEST


@pytest.mark.parametrize("first", ["gone", "short", "wrong"])
def test_the_next_address_is_tried(
    first: str, root: Path, server: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, f"{server}/{first}", f"{server}/good")
    assert [path.read_bytes() for path in fetching.fetch("ptb", root)] == [TRAIN, TEST]
    assert asked[:2] == [f"/{first}/ptb.train.txt", "/good/ptb.train.txt"]


@pytest.mark.parametrize(
    ("kind", "says"), [("gone", "Not Found"), ("short", "md5 differs"), ("wrong", "md5 differs")]
)
def test_nothing_half_written_is_left(
    kind: str, says: str, root: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, f"{server}/{kind}")
    with pytest.raises(DataError, match=says):
        fetching.fetch("ptb", root)
    assert list((root / "raw/ptb").iterdir()) == []
    offer(monkeypatch, f"{server}/good")
    assert fetching.fetch("ptb", root)[0].read_bytes() == TRAIN


def test_offline_one_sentence_says_what_to_put_where(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:  # a port on which nobody listens
        taken.bind(("127.0.0.1", 0))
        offer(monkeypatch, f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(DataError) as caught:
            fetching.fetch("ptb", root)
    said = str(caught.value)
    assert f"put ptb.train.txt, ptb.test.txt into {root / 'raw/ptb'} yourself" in said
    assert "refused" in said
    assert "\n" not in said
    assert list((root / "raw/ptb").iterdir()) == []


def test_a_file_that_is_there_but_not_as_published_is_told_of(
    root: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, f"{server}/gone")
    mine = root / "raw/ptb/ptb.train.txt"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"packed again")
    with pytest.raises(DataError) as caught:
        fetching.fetch("ptb", root)
    said = str(caught.value)
    assert "is not as published, its md5 differs" in said
    assert f"data import {mine.parent} --name ptb" in said
    assert "yourself" not in said
    assert mine.read_bytes() == b"packed again"


def test_what_cannot_be_fetched(root: Path) -> None:
    with pytest.raises(DataError, match="digits is embedded: there is nothing to download"):
        fetching.fetch("digits", root)
    with pytest.raises(DataError, match="femnist is published nowhere as ready files; put"):
        fetching.fetch("femnist", root)
    with pytest.raises(ConfigError, match="did you mean 'mnist'"):
        fetching.fetch("mnits", root)
    assert not root.exists()


def test_every_published_file_has_a_checksum_and_an_address() -> None:
    for source in catalog.SOURCES.values():
        for remote in source.remote:
            assert len(remote.md5) == 32
            assert all(url.endswith(f"/{remote.name}") for url in remote.urls)
            assert remote.urls
