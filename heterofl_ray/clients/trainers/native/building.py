"""Native code made into a library that compiled steps are linked with, and so contain."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from heterofl_ray.clients.trainers.native.operators import CALLED, NAMESPACE

SOURCE = "convolution.cpp"
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC")


@contextmanager
def linked(graph: torch.fx.GraphModule, compiler: str, library: Path) -> Iterator[dict[str, Any]]:
    """What to tell torch's compiler while it makes ``graph`` a package.

    ``library`` is where our code is, or will be, as this machine runs it: a lib….a of any name.
    """
    if not any(_is_ours(node.target) for node in graph.graph.nodes):
        yield {}
        return
    if not library.exists():
        _build(compiler, library)
    declarations = {operator: [function] for operator, function in CALLED.items()}
    places = os.pathsep.join(filter(None, (str(library.parent), os.environ.get("LIBRARY_PATH"))))
    with patch.dict(os.environ, LIBRARY_PATH=places):
        yield {
            "aot_inductor.custom_ops_to_c_shims": declarations,
            "aot_inductor.custom_op_libs": [library.stem.removeprefix("lib")],
        }


def _is_ours(target: object) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target.namespace == NAMESPACE


def _build(compiler: str, library: Path) -> None:
    """Whole or not at all; of several processes that come to it at once, the last one counts."""
    from torch.utils.cpp_extension import include_paths

    includes = [f"-I{path}" for path in include_paths()]
    with (
        resources.as_file(resources.files(__package__) / SOURCE) as source,
        tempfile.TemporaryDirectory(dir=library.parent, prefix="making-") as folder,
    ):
        code, made = Path(folder) / "code.o", Path(folder) / library.name
        _run(compiler, *FLAGS, *includes, "-c", str(source), "-o", str(code))
        _run("ar", "rcs", str(made), str(code))
        made.replace(library)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} cannot compile {SOURCE}:\n{done.stderr[-2000:]}")
