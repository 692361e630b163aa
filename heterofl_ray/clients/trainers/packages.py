"""Compiled training steps, kept on disk: made once per machine, loaded in milliseconds after that.

A package is native code, made ahead of time by torch's own compiler, for one recipe: a model's
shape, a batch's shape, the optimiser's settings and the kind of machine. Beside it lies a note of
what is to be drawn before it runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heterofl_ray.clients.trainers.convolutions import BY_NATIVE_CODE
from heterofl_ray.clients.trainers.dropout import DRAWN, Draw, drawn_before, from_text, to_text
from heterofl_ray.clients.trainers.lanes import IN_LANES
from heterofl_ray.clients.trainers.native.building import linked
from heterofl_ray.clients.trainers.norms import WORKED_OUT_ONCE
from heterofl_ray.clients.trainers.pooling import COMPARED, library_backward
from heterofl_ray.clients.trainers.sums import IN_STAGES
from heterofl_ray.clients.trainers.vectors import taken_at_its_word
from heterofl_ray.errors import ConfigError
from heterofl_ray.private_folders import make_private

Flat = Callable[..., Tensor]
Run = Callable[[list[Tensor]], list[Tensor]]


@dataclass(frozen=True)
class Example:
    """Tensors of the shapes that a function is compiled for."""

    tensors: Sequence[Tensor]
    varying: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By the number of a tensor, its axes that may be of any length."""


@dataclass(frozen=True)
class Traced:
    """A function as a graph, which takes what it would draw as further inputs."""

    graph: torch.fx.GraphModule
    draws: Sequence[Draw]

    def run(self, tensors: list[Tensor]) -> list[Tensor]:
        """Uncompiled."""
        return [self.graph(*tensors, *(draw() for draw in self.draws))]


def load(path: Path) -> Run:
    """The compiled function; loading it imports nothing of the compiler.

    It stays where it lies, so that all workers of a machine share its memory. (Torch's own packages
    are unpacked by each process, into folders that a killed one leaves behind.)
    """
    run: Run = torch._C._aoti.AOTIModelContainerRunnerCpu(str(path), 1).run
    draws = from_text(_note(path).read_text(encoding="utf-8"))
    return (lambda tensors: run([*tensors, *(draw() for draw in draws)])) if draws else run


def _note(path: Path) -> Path:
    return path.with_suffix(".draws")


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
    made_of = f"{machine}\n{_instructions()}\n{_sources()}\n{recipe}"
    return place() / f"{hashlib.sha256(made_of.encode()).hexdigest()[:32]}.so"


@cache
def _instructions() -> str:
    """What the processor knows: nodes that differ in it may share a home, but no native code."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known = [line for line in lines if line.split(":")[0].strip() in ("flags", "Features")]
    return known[0] if known else platform.processor()


@cache
def _sources() -> str:
    """Names the package's own code that a step is made of."""
    digest = hashlib.sha256()
    package = resources.files("heterofl_ray")
    trainers = package / "clients" / "trainers"
    rooms = [package / "models", package / "clients", trainers, trainers / "native"]
    files = [file for room in rooms for file in room.iterdir()]
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith((".py", ".cpp")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def compiler() -> str | None:
    """The C++ compiler that torch's compiler calls."""
    return shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")


def make(function: Flat, example: Example, path: Path, threads: int) -> None:
    """Compile ``function`` for tensors like ``example`` into ``path``, unless it is there by then.

    Several processes may ask for the same at once: one compiles, the others wait for it.
    """
    found = compiler()
    if found is None:
        raise ConfigError.of(
            "execution.trainer", "compiled", "needs a C++ compiler (g++ or clang++) on every node"
        )
    with _alone(path):
        if path.exists():
            return
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-") as folder:
            traced = trace(function, example)
            code = _compile(traced, example, found, Path(folder), threads)
            _note(path).write_text(to_text(traced.draws), encoding="utf-8")
            code.replace(path)  # at last: where it lies, all is there


def trace(function: Flat, example: Example) -> Traced:
    """All that ``function`` computes, gradients included, as one graph of torch's operators.

    Where axes vary, it must have its gradients from autograd; where none does, from torch.func.
    """
    from torch._decomp import get_decompositions
    from torch._functorch.compile_utils import fx_graph_cse
    from torch.fx.experimental.proxy_tensor import make_fx

    if example.varying:
        graph = _open_trace(function, example)
        return Traced(graph, drawn_before(graph))
    aten = torch.ops.aten
    norms = [aten.native_group_norm, aten.native_group_norm_backward]
    ours = {**BY_NATIVE_CODE, **COMPARED, **IN_STAGES, **IN_LANES, **WORKED_OUT_ONCE}
    replaced = {**get_decompositions(norms), **ours}
    # Changes in place wait until the end, so that equal expressions may be taken together:
    # forward and backward need the same taps.
    pure = torch.func.functionalize(function, remove="mutations")
    traced = make_fx(pure, decomposition_table=replaced, tracing_mode="fake")(*example.tensors)
    draws = drawn_before(traced)
    return Traced(torch.fx.GraphModule(traced, fx_graph_cse(traced.graph)), draws)


def _open_trace(function: Flat, example: Example) -> torch.fx.GraphModule:
    """A graph in which the lengths of varying axes are left open."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental import symbolic_shapes as shapes
    from torch.fx.experimental.proxy_tensor import make_fx

    mode = FakeTensorMode(shape_env=shapes.ShapeEnv())
    stand_ins = []
    for number, tensor in enumerate(example.tensors):
        sizes = [shapes.DimDynamic.STATIC] * tensor.dim()
        for axis in example.varying.get(number, ()):
            sizes[axis] = shapes.DimDynamic.DYNAMIC
        context: Any = shapes.StatelessSymbolicContext(dynamic_sizes=sizes)
        stand_ins.append(mode.from_tensor(tensor, symbolic_context=context))
    with mode, enable_python_dispatcher():
        return make_fx(function, decomposition_table=DRAWN)(*stand_ins)


class _Module(nn.Module):
    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, *tensors: Tensor) -> Any:
        return self.graph(*tensors)


def _compile(traced: Traced, example: Example, found: str, folder: Path, threads: int) -> Path:
    from torch._inductor import aoti_compile_and_package, config

    settings: dict[str, Any] = {
        "cpp.threads": threads,
        "aot_inductor.compile_wrapper_opt_level": "O0",  # it only calls the kernels: 5 s, not 30
    }
    native_code = path_of("native code", threads)
    library = native_code.with_name(f"lib{native_code.stem}.a")
    tensors = (*example.tensors, *(draw() for draw in traced.draws))
    free = [
        dict.fromkeys(example.varying.get(number, ()), torch.export.Dim.DYNAMIC)
        for number in range(len(tensors))
    ]
    with (
        warnings.catch_warnings(),
        torch.no_grad(),
        linked(traced.graph, found, library) as native,
        taken_at_its_word(images=not example.varying) as vectors,
        config.patch({**settings, **native, **vectors}),
        library_backward(),
    ):
        warnings.simplefilter("ignore")  # about the compiler's own use of torch
        program = torch.export.export(
            _Module(traced.graph), tensors, dynamic_shapes={"tensors": tuple(free)}, strict=False
        )
        package = aoti_compile_and_package(program, package_path=str(folder / "step.pt2"))
    code = folder / "step.so"
    with zipfile.ZipFile(package) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".so")]
        code.write_bytes(files.read(name))
    return code


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
