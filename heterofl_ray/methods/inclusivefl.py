"""InclusiveFL: R. Liu et al., "No One Left Behind: Inclusive Federated Learning over Heterogeneous
Devices", KDD 2022. `SubGlobalModels.commit` is the server's
part of its Algorithm 1.

Levels are depths: a level has the bottom blocks of the model and a top of its own. Where we go
beyond the paper, or had to choose:
- any model of blocks will do. Where blocks differ in shape (CNN, ResNet stages), a momentum is the
  mean over those of the layers whose tensor has the shape that the smaller type's has;
- levels of equal depth are one device type;
- a momentum is taken of the gradients as they went into the optimiser, as Algorithm 1 has it:
  those of a middle type's top block are mixed already;
- a type of which nobody takes part in a round keeps its top, its optimiser's moments and its
  momentum, and has no say in the round's averages;
- server.optimizer=none becomes adam, the paper's. (avgm with server.beta1=0 is plain averaging.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from heterofl_ray.aggregation.overlap import OverlapMean
from heterofl_ray.aggregation.server_optimizers import BESIDE, ServerOptimizer
from heterofl_ray.clients.group_sum import GroupUpdate
from heterofl_ray.clients.workbench import Workbench, resolve_device
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.mixes import Level
from heterofl_ray.models import registry
from heterofl_ray.models.layers import parameters_of
from heterofl_ray.parameter_server import ParameterServer
from heterofl_ray.simulation import Simulation
from heterofl_ray.submodels.depth import is_top, of_depth, own_name, spread_depths
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import Cut

Tensors = dict[str, Tensor]


class DeviceType:
    """The clients of one depth: what they sent in this round, and how their model moves."""

    def __init__(self, bench: Workbench, level: Level, parameters: Tensors) -> None:
        config = bench.config
        self.depth = level.depth
        self.layout = bench.layout(level)
        self.places = registry.places(bench.spec.at(level), level.rate)
        self.optimizer = ServerOptimizer(config.server, parameters)
        self.clients = 0.0
        """How many have sent an update in this round, by weight."""
        self._mean = OverlapMean(self.layout, parameters, getattr(torch, config.server.accumulate))
        self._plan = SubmodelPlan.of(self.layout)

    def add(self, update: GroupUpdate) -> None:
        self.clients += update.weight
        self._mean.add(self._plan, update.sums, update.weight, update.labels, update.label_weights)

    def clear(self) -> None:
        self.clients = 0.0
        self._mean.clear()

    def gradients(self, parameters: Tensors) -> tuple[Tensors, Tensors]:
        """g: by how much the clients' mean differs from ``parameters``, and what they held."""
        slopes: Tensors = {}
        held: Tensors = {}

        def note(name: str, parameter: Tensor, means: Tensor, some: Tensor) -> None:
            slopes[name] = torch.where(some, means - parameter, torch.zeros_like(parameter))
            held[name] = some

        self._mean.commit(parameters, note)
        return slopes, held

    def block(self, number: int) -> dict[str, str]:
        """The parameters of a block: their names there and in the model."""
        return {place.name: name for name, place in self.places.items() if place.block == number}

    def is_top(self, name: str) -> bool:
        return is_top(self.places.get(name), self.depth)


class SubGlobalModels(ParameterServer):
    """A sub-global model for each device type. What types share is kept once, by its plain name."""

    divisible = False

    def __init__(self, bench: Workbench, names: Collection[str] | None = None) -> None:
        config = bench.config
        self._beta = config.inclusivefl.beta
        chosen = config.server.device
        self._device = bench.device if chosen == "auto" else resolve_device(chosen)
        levels = {level.depth: level for level in config.levels.levels}
        with bench.streams.layers("initial-model"):
            self.parameters = self._initial(bench, config.levels.largest)
        self._types: list[DeviceType] = []
        for depth, level in sorted(levels.items()):
            if level.depth != config.levels.largest.depth:
                self._add_top(bench, level)
            own = of_depth(self.parameters, bench.layout(level), depth)
            self._types.append(DeviceType(bench, level, own))
        self._momenta = self._no_momenta()

    def _initial(self, bench: Workbench, level: Level) -> Tensors:
        model = registry.initial(bench.spec.at(level), level.rate)
        return {name: tensor.to(self._device) for name, tensor in parameters_of(model).items()}

    def _add_top(self, bench: Workbench, level: Level) -> None:
        """The top block begins as the deepest model's block at that place, the head anew."""
        places = registry.places(bench.spec.at(level), level.rate)
        with bench.streams.layers("initial-model", client=level.depth):
            fresh = self._initial(bench, level)
        for name, tensor in fresh.items():
            if is_top(places.get(name), level.depth):
                begins = self.parameters[name].clone() if name in places else tensor
                self.parameters[own_name(name, level.depth)] = begins

    def _no_momenta(self) -> Tensors:
        """m of every type but the smallest, by the names of the block it is distilled into."""
        return {
            _momentum(larger, name): torch.zeros_like(self._of(smaller)[full])
            for smaller, larger in zip(self._types, self._types[1:], strict=False)
            for name, full in smaller.block(smaller.depth).items()
        }

    @property
    def state(self) -> Tensors:
        moments = {
            _beside(kind, name): tensor
            for kind in self._types
            for name, tensor in kind.optimizer.state.items()
        }
        return self.parameters | moments | self._momenta

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name, tensor in self.parameters.items():
            tensor.copy_(state[name])
        for kind in self._types:
            kept = {name: _beside(kind, name) for name in kind.optimizer.state}
            kind.optimizer.load({n: state[own] for n, own in kept.items() if own in state})
        self._momenta = self._no_momenta()
        for name, tensor in self._momenta.items():
            if name in state:
                tensor.copy_(state[name])

    def cut(self, cut: Cut) -> Tensors:
        """The sub-global model of a level."""
        kind = self._type(cut.level)
        return {name: tensor.clone() for name, tensor in self._of(kind).items()}

    def accumulate(self, update: GroupUpdate) -> None:
        self._type(update.cut.level).add(update.to(self._device))

    def discard(self) -> None:
        for kind in self._types:
            kind.clear()

    def commit(self, round_number: int) -> None:
        """Lines 8 to 29 of Algorithm 1."""
        taking_part = [kind for kind in self._types if kind.clients]
        distilled: Tensors = {}
        models: dict[int, Tensors] = {}
        for kind in taking_part:
            smaller, larger = self._neighbours(kind)

            # g^j <- mean of the clients' updates
            model = {name: tensor.clone() for name, tensor in self._of(kind).items()}
            gradients, held = kind.gradients(model)

            # g^(j,L_j) <- beta m^k + (1 - beta) g^(j,L_j), with the last round's m
            if larger is not None and self._beta:
                for name, full in kind.block(kind.depth).items():
                    before = self._momenta[_momentum(larger, name)]
                    gradients[full] = self._beta * before + (1 - self._beta) * gradients[full]

            # w^j <- FedAdam(g^j, w^j)
            for name, parameter in model.items():
                kind.optimizer.move(name, parameter, gradients[name], held[name])
            models[kind.depth] = model

            # m^j <- mean over layers L_- to L_j of g^(j,l)
            if smaller is not None:
                distilled |= _distil(kind, smaller.depth, gradients)

        self._momenta |= distilled
        self._average(taking_part, models)
        self.discard()

    def _average(self, kinds: Sequence[DeviceType], models: Mapping[int, Tensors]) -> None:
        """Shared layers: means over the types that share them, by how many took part; tops stay."""
        sums: Tensors = {}
        weights: dict[str, float] = {}
        for kind in kinds:
            for name, tensor in models[kind.depth].items():
                if kind.is_top(name):
                    self._of(kind)[name].copy_(tensor)
                    continue
                weighed = tensor * kind.clients
                sums[name] = sums[name] + weighed if name in sums else weighed
                weights[name] = weights.get(name, 0.0) + kind.clients
        for name, total in sums.items():
            self.parameters[name].copy_(total / weights[name])

    def _of(self, kind: DeviceType) -> Tensors:
        return of_depth(self.parameters, kind.layout, kind.depth)

    def _type(self, level: Level) -> DeviceType:
        return next(kind for kind in self._types if kind.depth == level.depth)

    def _neighbours(self, kind: DeviceType) -> tuple[DeviceType | None, DeviceType | None]:
        """The next smaller and the next larger type."""
        around: list[DeviceType | None] = [None, *self._types, None]
        place = around.index(kind)
        return around[place - 1], around[place + 1]


def _beside(kind: DeviceType, name: str) -> str:
    """What a type keeps that is no parameter."""
    return BESIDE + own_name(name.removeprefix(BESIDE), kind.depth)


def _momentum(kind: DeviceType, name: str) -> str:
    return _beside(kind, f"distilled/{name}")


def _distil(kind: DeviceType, lowest: int, gradients: Tensors) -> Tensors:
    """The mean gradient of blocks ``lowest`` to the top, for every tensor of block ``lowest``."""
    found: Tensors = {}
    blocks = [kind.block(number) for number in range(lowest, kind.depth + 1)]
    for name, full in blocks[0].items():
        alike = [gradients[block[name]] for block in blocks if name in block]
        alike = [gradient for gradient in alike if gradient.shape == gradients[full].shape]
        found[_momentum(kind, name)] = torch.stack(alike).mean(0)
    return found


class InclusiveFL(Simulation):
    server = SubGlobalModels
    averages = False

    @classmethod
    def settle(cls, config: ExperimentConfig) -> ExperimentConfig:
        """Every level gets a depth, and the server the paper's optimiser."""
        blocks = registry.block_count(config)
        if not blocks:
            known = ", ".join(name for name, kind in registry.MODELS.items() if kind.blocks)
            raise ConfigError.of("model", config.model, f"method=inclusivefl is for {known}")
        depths = config.inclusivefl.depths or spread_depths(blocks, len(config.levels.levels))
        if depths[0] > blocks:
            raise ConfigError.of(
                "inclusivefl.depths", list(depths), f"model={config.model} has {blocks} blocks"
            )
        server = {"optimizer": "adam"} if config.server.optimizer == "none" else {}
        changes = {"inclusivefl": {"depths": list(depths)}, "server": server}
        return super().settle(config.merge(changes))
