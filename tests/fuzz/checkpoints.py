"""Checkpoints and run folders that were tampered with, their checksums made to fit."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from hypothesis import strategies as st

from .damage import damaged

Files = dict[str, bytes]

_TENSORS = safetensors.torch.save({"w": torch.arange(6.0).view(2, 3), "b": torch.ones(2)})
_PARAMETERS = "parameters.safetensors"
_CLIENT = "client-000003-000002.safetensors"
_NUMBERS = st.sampled_from([0, 1, -1, 3, 2**31, 2**62, 2**63 - 1, 2**64, 10**30, 1.5, 1e308])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | _NUMBERS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
_NAMES = st.sampled_from(
    [
        *(
            _PARAMETERS,
            _CLIENT,
            "manifest.json",
            "client-1-2.safetensors",
            "client-x-y.safetensors",
        ),
        *(
            "../../bystander.txt",
            "/etc/passwd",
            "client-000003-000002-4.safetensors",
            "",
            ".",
            "\0",
        ),
        *("client-000001-000001.safetensors/../../x", "client--1-000001.safetensors", "a" * 300),
    ]
)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def safetensors_files() -> st.SearchStrategy[bytes]:
    """Files whose headers claim what they like."""
    offsets = st.lists(_NUMBERS | st.integers(0, 40), min_size=2, max_size=2)
    entry = st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(
                ["F32", "F64", "I64", "U8", "BOOL", "BF16", "F8_E4M3", "F8_E8M0", "F4", "C64", "X"]
            ),
            "shape": st.lists(_NUMBERS, max_size=3) | st.just([2, 3]),
            "data_offsets": offsets | st.just([0, 24]),
        }
    )
    header = st.dictionaries(
        st.sampled_from(["w", "b", "__metadata__", "clients/1/w", "clients/x"]),
        entry | _JSON,
        max_size=3,
    )
    made = st.builds(
        lambda head, claim, body: _framed(json.dumps(head).encode(), claim) + body,
        header,
        st.none() | st.sampled_from([0, 8, 2**20, 10**8, 2**40, 2**63, 2**64 - 1]),
        st.binary(max_size=40) | st.just(bytes(32)),
    )
    return made | damaged(_TENSORS) | st.just(_TENSORS)


def _framed(header: bytes, claim: int | None) -> bytes:
    return struct.pack("<Q", len(header) if claim is None else claim) + header


def _manifest(round_number: int) -> dict[str, Any]:
    rows = [{"round": t, "loss": 0.5, "score": None} for t in range(1, round_number + 1)]
    return {
        "format": 1,
        "round": round_number,
        "experiment": "experiment",
        "goodness": None,
        "rows": rows,
        "files": {_PARAMETERS: digest(_TENSORS), _CLIENT: digest(_TENSORS)},
    }


def _sealed(text: str) -> bytes:
    return json.dumps({"sha256": digest(text.encode()), "manifest": text}).encode()


@st.composite
def checkpoints(draw: st.DrawFn) -> Files:
    """The files of one checkpoint, each with a checksum that is right unless damaged."""
    tensors = draw(safetensors_files())
    manifest = _manifest(2)
    manifest["files"][_PARAMETERS] = digest(tensors)
    files = {_PARAMETERS: tensors, _CLIENT: _TENSORS}
    if draw(st.booleans()):
        manifest["files"] = {
            **manifest["files"],
            **draw(st.dictionaries(_NAMES, st.just(digest(_TENSORS)) | _JSON, max_size=2)),
        }
    changes = draw(st.dictionaries(st.sampled_from([*manifest, "x"]), _JSON, max_size=2))
    if draw(st.booleans()):
        manifest |= changes
    for name in draw(st.lists(st.sampled_from(list(manifest)), max_size=1)):
        if draw(st.booleans()):
            del manifest[name]
    text = draw(st.sampled_from([json.dumps(manifest), "[" * 100_000, "[]", "{}", '{"format": 1}']))
    if draw(st.booleans()):
        text = json.dumps(manifest)
    sealed = _sealed(text)
    files["manifest.json"] = draw(
        damaged(sealed, most=2) if draw(st.booleans()) else st.just(sealed)
    )
    return files


@st.composite
def results(draw: st.DrawFn, valid: Files) -> Files:
    """The files of a finished run, some of them changed."""
    files = dict(valid)
    name = draw(st.sampled_from(sorted(files)))
    if name.endswith(".json") and draw(st.booleans()):
        values = json.loads(files[name])
        values |= draw(st.dictionaries(st.sampled_from([*values]), _JSON, min_size=1, max_size=2))
        text = draw(st.sampled_from([json.dumps(values), "[1]", "[" * 100_000]))
        files[name] = text.encode()
    elif name.endswith(".safetensors") and draw(st.booleans()):
        files[name] = draw(safetensors_files())
    elif name.endswith(".yaml") and draw(st.booleans()):
        wide = draw(st.sampled_from(["[1, 1]", "[100000000, 100000000]", "[]", "[-1]", "8"]))
        files[name] = files[name].replace(b"hidden:\n  - 8\n  - 8", f"hidden: {wide}".encode())
        files[name] = files[name].replace(
            b"mix: a-c", draw(st.sampled_from([b"mix: a", b"mix: d"]))
        )
    else:
        files[name] = draw(damaged(files[name]))
    if draw(st.integers(0, 9)) == 0:
        del files[draw(st.sampled_from(sorted(files)))]
    return files


def put(folder: Path, files: Files) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
