"""Damage to bytes: flips, cuts, repeats, and numbers where readers expect sizes."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

Edit = Callable[[bytes], bytes]

_SIZES = (
    0,
    1,
    0x7F,
    0xFF,
    0x7FFF,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**62,
    2**63 - 1,
    2**64 - 1,
)


def _at(content: bytes, share: float) -> int:
    return min(int(share * len(content)), max(0, len(content) - 1))


def _put(content: bytes, share: float, new: bytes) -> bytes:
    place = _at(content, share)
    return content[:place] + new + content[place + len(new) :]


def _cut(content: bytes, share: float) -> bytes:
    return content[: _at(content, share)]


def _insert(content: bytes, share: float, new: bytes) -> bytes:
    place = _at(content, share)
    return content[:place] + new + content[place:]


def _drop(content: bytes, share: float, count: int) -> bytes:
    place = _at(content, share)
    return content[:place] + content[place + count :]


def _repeat(content: bytes, share: float, count: int, times: int) -> bytes:
    place = _at(content, share)
    return content[:place] + content[place : place + count] * times + content[place + count :]


def _flip(content: bytes, share: float, mask: int) -> bytes:
    if not content:
        return content
    place = _at(content, share)
    return _put(content, share, bytes((content[place] ^ mask,)))


_SHARES = st.floats(0, 1) | st.sampled_from([0.0, 0.001, 0.01, 0.5, 0.99, 1.0])


def _sized() -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda value, width, order: (value % 256**width).to_bytes(width, order),
        st.sampled_from(_SIZES),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from(["little", "big"]),
    )


EDITS: st.SearchStrategy[Edit] = st.one_of(
    st.builds(lambda s, m: lambda c: _flip(c, s, m), _SHARES, st.integers(1, 255)),
    st.builds(lambda s, n: lambda c: _put(c, s, n), _SHARES, _sized() | st.binary(max_size=8)),
    st.builds(lambda s, n: lambda c: _insert(c, s, n), _SHARES, st.binary(min_size=1, max_size=16)),
    st.builds(lambda s: lambda c: _cut(c, s), _SHARES),
    st.builds(lambda s, k: lambda c: _drop(c, s, k), _SHARES, st.integers(1, 64)),
    st.builds(
        lambda s, k, t: lambda c: _repeat(c, s, k, t),
        _SHARES,
        st.integers(1, 64),
        st.integers(2, 9),
    ),
    st.builds(lambda n: lambda c: n, st.binary(max_size=64)),
)


def damaged(content: bytes, most: int = 4) -> st.SearchStrategy[bytes]:
    """``content`` after a few edits; sometimes as it was."""

    def apply(edits: list[Edit]) -> bytes:
        found = content
        for edit in edits:
            found = edit(found)
        return found

    return st.lists(EDITS, max_size=most).map(apply)
