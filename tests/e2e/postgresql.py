"""A PostgreSQL that is made for a test and thrown away: on loopback, for one user."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from .nodes import SECONDS, free_ports

USER, NAME = "mlflow", "postgres"


def programs() -> Path | None:
    """Where its programs are: Debian has them apart from those that everybody runs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    beside = shutil.which("initdb")
    return found[-1].parent if found else Path(beside).parent if beside else None


def servant() -> str | None:
    """Whom it runs as: ourselves, but root, whom it refuses, sends another."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


@contextlib.contextmanager
def database(password: str) -> Iterator[str]:
    """Its address, as SQLAlchemy has it."""
    folder, where, user = Path(tempfile.mkdtemp(prefix="pg")), programs(), servant()
    assert where is not None
    (port,) = free_ports(1)
    secret, log, data = folder / "password", folder / "log", folder / "data"
    secret.write_text(password)
    if user is not None:
        for path in (folder, secret):
            shutil.chown(path, user)
    making = [
        *(str(where / "initdb"), f"--pgdata={data}", f"--username={USER}", f"--pwfile={secret}"),
        *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"),
    ]
    done = subprocess.run(making, user=user, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                *(str(where / "postgres"), "-D", str(data), "-p", str(port)),
                *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
                *("-c", "fsync=off"),
            ],
            user=user,
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        limit = time.monotonic() + SECONDS
        while not _listens(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < limit, log.read_text()
            time.sleep(0.1)
        yield f"postgresql+psycopg://{USER}:{quote(password, safe='')}@127.0.0.1:{port}/{NAME}"
    finally:
        process.terminate()
        process.wait(SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _listens(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0
