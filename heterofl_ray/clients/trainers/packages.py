"""Compiled training steps, kept on disk: made once per machine, loaded in milliseconds after that.

A package is native code, made ahead of time by torch's own compiler, for one recipe: a model's
shape, a batch's shape, the optimiser's settings and the kind of machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heterofl_ray.clients.trainers.convolutions import AS_PRODUCTS
from heterofl_ray.clients.trainers.lanes import IN_LANES
from heterofl_ray.clients.trainers.norms import WORKED_OUT_ONCE
from heterofl_ray.clients.trainers.pooling import COMPARED, library_backward
from heterofl_ray.clients.trainers.sums import IN_STAGES
from heterofl_ray.errors import ConfigError
from heterofl_ray.private_folders import make_private

Flat = Callable[..., Tensor]


def load(path: Path) -> Callable[[list[Tensor]], list[Tensor]]:
    """The compiled function; loading it imports nothing of the compiler."""
    loader = torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, -1)
    run: Callable[[list[Tensor]], list[Tensor]] = loader.boxed_run
    return run


def place() -> Path:
    """The folder of packages, which only its owner may write to: what lies there is executed."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("HETEROFL_CACHE") or Path(root) / "heterofl-ray") / "steps"
    try:
        private = make_private(folder)
    except OSError as error:
        raise ConfigError.of(
            "HETEROFL_CACHE", str(folder.parent), f"{folder} cannot be made: {error.strerror}"
        ) from None
    if not private:
        raise ConfigError.of(
            "HETEROFL_CACHE",
            str(folder.parent),
            f"{folder} holds code that is executed, and is not yours alone: remove it, or name a "
            "folder of yours",
        )
    return folder


def path_of(recipe: str, threads: int) -> Path:
    """Where the package for a recipe is, or will be, on this kind of machine."""
    machine = (
        f"{torch.__version__} {platform.machine()} {torch.backends.cpu.get_cpu_capability()} "
        f"{platform.python_implementation()} threads={threads}"
    )
    name = hashlib.sha256(f"{machine}\n{_sources()}\n{recipe}".encode()).hexdigest()
    return place() / f"{name[:32]}.pt2"


@cache
def _sources() -> str:
    """Names the package's own code that a step is made of."""
    digest = hashlib.sha256()
    package = resources.files("heterofl_ray")
    rooms = [package / "models", package / "clients", package / "clients" / "trainers"]
    files = [file for room in rooms for file in room.iterdir()]
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith(".py"):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def compiler() -> str | None:
    """The C++ compiler that torch's compiler calls."""
    return shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")


def make(function: Flat, example: Sequence[Tensor], path: Path, threads: int) -> None:
    """Compile ``function`` for tensors like ``example`` into ``path``, unless it is there by then.

    Several processes may ask for the same at once: one compiles, the others wait for it.
    """
    if compiler() is None:
        raise ConfigError.of(
            "execution.trainer", "compiled", "needs a C++ compiler (g++ or clang++) on every node"
        )
    with _alone(path):
        if path.exists():
            return
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-") as folder:
            package = _compile(trace(function, example), example, Path(folder), threads)
            package.replace(path)


def trace(function: Flat, example: Sequence[Tensor]) -> torch.fx.GraphModule:
    """All that ``function`` computes, gradients included, as one graph of torch's operators."""
    from torch._decomp import get_decompositions
    from torch._functorch.compile_utils import fx_graph_cse
    from torch.fx.experimental.proxy_tensor import make_fx

    aten = torch.ops.aten
    norms = [aten.native_group_norm, aten.native_group_norm_backward]
    ours = {**AS_PRODUCTS, **COMPARED, **IN_STAGES, **IN_LANES, **WORKED_OUT_ONCE}
    replaced = {**get_decompositions(norms), **ours}
    # Changes in place wait until the end, so that equal expressions may be taken together:
    # forward and backward need the same taps.
    pure = torch.func.functionalize(function, remove="mutations")
    traced = make_fx(pure, decomposition_table=replaced, tracing_mode="fake")(*example)
    return torch.fx.GraphModule(traced, fx_graph_cse(traced.graph))


class _Module(nn.Module):
    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, *tensors: Tensor) -> Any:
        return self.graph(*tensors)


def _compile(
    graph: torch.fx.GraphModule, example: Sequence[Tensor], folder: Path, threads: int
) -> Path:
    from torch._inductor import aoti_compile_and_package, config

    settings = {
        "cpp.threads": threads,
        "aot_inductor.compile_wrapper_opt_level": "O0",  # it only calls the kernels: 5 s, not 30
    }
    with warnings.catch_warnings(), torch.no_grad(), config.patch(settings), library_backward():
        warnings.simplefilter("ignore")  # about the compiler's own use of torch
        program = torch.export.export(_Module(graph), tuple(example), strict=False)
        made = aoti_compile_and_package(program, package_path=str(folder / "step.pt2"))
    return Path(made)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
