"""Looking at processes while they run: what their commands say, whom they listen to."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

LOOK_SECONDS = 0.2


@contextmanager
def never_said(*secrets: str) -> Iterator[None]:
    """No command on this machine may have a secret among its words, at any time in the block."""
    assert all(secrets)
    over = threading.Event()
    heard: set[str] = set()

    def listen() -> None:
        while True:
            for process in psutil.process_iter():
                words = words_of(process)
                if any(secret in word for secret in secrets for word in words):
                    heard.add(f"{process.pid}: {words[:2]}")
            if over.wait(LOOK_SECONDS):
                return

    with meanwhile(listen, over):
        yield
    assert not heard


@contextmanager
def meanwhile(work: Callable[[], None], over: threading.Event) -> Iterator[None]:
    """Have another thread do ``work``, which ends when ``over`` is set."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def below(pid: int) -> list[psutil.Process]:
    """A process and all that it started."""
    first = psutil.Process(pid)
    return [first, *first.children(recursive=True)]


def open_to_others(processes: list[psutil.Process]) -> list[str]:
    """Ports that more than this machine can reach; a closed house has some, all on loopback."""
    found = [
        f"{connection.laddr.ip}:{connection.laddr.port}"
        for process in processes
        for connection in _listening(process)
        if not _is_loopback(connection.laddr.ip)
    ]
    assert any(_listening(process) for process in processes), "nobody listens at all"
    return found


def _listening(process: psutil.Process) -> list[psutil._common.pconn]:
    try:
        every = process.net_connections("tcp")
    except psutil.Error:
        return []
    return [connection for connection in every if connection.status == psutil.CONN_LISTEN]


def _is_loopback(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    inner = getattr(parsed, "ipv4_mapped", None)
    return (inner or parsed).is_loopback
