"""The token a Ray asks for: made once, in a file only its owner can read, and found again.

Ray looks for it in RAY_AUTH_TOKEN, then in the file that RAY_AUTH_TOKEN_PATH names, then in
``~/.ray/auth_token``; so do we. A Ray started by a run asks for one unless RAY_AUTH_MODE says
otherwise.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from pathlib import Path

import grpc

from heterofl_ray.errors import ConfigError

MODE = "RAY_AUTH_MODE"
TOKEN = "RAY_AUTH_TOKEN"
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"

WANTS_TOKEN = (
    f"asks for a token, and has not seen its own: set {MODE}=token, "
    f"and {TOKEN_PATH} to its file if that is not ~/.ray/auth_token"
)

# Any call that Ray's head answers would do; this one is its first with every driver.
_QUESTION = "/ray.rpc.NodeInfoGcsService/GetClusterId"


def ensure_token() -> None:
    """See to a token before a Ray is started.

    Ray would make one itself, in a file that everybody on the machine can read.
    """
    if os.environ.get(MODE, "token").lower() != "token" or os.environ.get(TOKEN):
        return
    place = _file()
    if not place.exists():
        _write_token(place)


def find_token() -> str | None:
    """The token this user has, if any."""
    given = os.environ.get(TOKEN)
    if given:
        return given.strip()
    place = _file()
    return (place.read_text().strip() or None) if place.exists() else None


def headers(token: str) -> dict[str, str]:
    """What shows the token to Ray's dashboard."""
    return {"Authorization": f"Bearer {token}"}


def is_refused(address: str, seconds: float) -> bool:
    """Whether the Ray whose head is at 'host:port' wants a token that is not ours.

    As Ray does, we show ours to an address the user named only where RAY_AUTH_MODE is 'token'.
    """
    token = find_token() if os.environ.get(MODE, "").lower() == "token" else None
    shown = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(address) as channel:
        try:
            channel.unary_unary(_QUESTION)(b"", metadata=shown, timeout=seconds)
        except grpc.RpcError as error:
            return bool(error.code() == grpc.StatusCode.UNAUTHENTICATED)
    return False


def _file() -> Path:
    """Where the token lies, or is to lie: nobody else's to read.

    Ray's own file is made so; one that the user named is not touched, but spoken of.
    """
    named = os.environ.get(TOKEN_PATH)
    place = Path(named) if named else Path.home() / ".ray" / "auth_token"
    if named and not place.is_file():
        raise ConfigError.of(TOKEN_PATH, named, "there is no such file")
    if place.exists() and _others_may_read(place):
        if named:
            raise ConfigError.of(
                TOKEN_PATH, named, f"others may read it; 'chmod 600 {named}' makes it yours alone"
            )
        place.chmod(0o600)
    return place


def _others_may_read(place: Path) -> bool:
    """Of a file of ours; one that a cluster has put there is the cluster's matter."""
    found = place.stat()
    return found.st_uid == os.geteuid() and bool(found.st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def _write_token(place: Path) -> None:
    """A new token in a file of its own; one that is there by now is left as it is."""
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent)  # which is its owner's alone
        try:
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_hex(32))
            os.link(name, place)  # whole, or not at all
        except FileExistsError:
            pass
        finally:
            Path(name).unlink()
    except OSError as error:
        raise ConfigError.of(
            TOKEN_PATH, "", f"no token can be kept in {place.parent} ({error.strerror})"
        ) from None
