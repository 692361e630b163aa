"""HeteroFL with other channels than the leading ones.

- fedrolex: S. Alam et al., "FedRolex: Model-Heterogeneous Federated Learning with Rolling
  Sub-Model Extraction", NeurIPS 2022. Each round's window of channels begins one further;
- random: channels drawn uniformly each round, for every client or for every level
  (``selection.drawn_for``): what the HeteroFL paper compares its leading channels with (section
  3.1), and for clients Federated Dropout (S. Caldas et al., 2018).

The global model is what both are about. A smaller level's test is of its leading slice, as for
every method: no other of its slices is trained more than that one.
"""

from __future__ import annotations

from heterofl_ray.mixes import Level
from heterofl_ray.simulation import Simulation
from heterofl_ray.submodels.selectors import Cut


class FedRolex(Simulation):
    def cut(self, t: int, client: int, level: Level) -> Cut:
        return Cut(level, "rolling", t)


class RandomChannels(Simulation):
    def cut(self, t: int, client: int, level: Level) -> Cut:
        everyone = self.config.selection.drawn_for == "level"
        return Cut(level, "random", t, None if everyone else client)
