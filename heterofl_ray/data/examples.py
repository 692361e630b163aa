"""What clients of any labelled examples have in common: who holds which of them."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.partitions import files as partition_files
from heterofl_ray.data.partitions.dealing import deal_test, deal_train
from heterofl_ray.data.partitions.partition import Partition
from heterofl_ray.data.store import Dataset, view
from heterofl_ray.randomness import Streams


class ExampleClients:
    """A data set of examples dealt to clients."""

    def __init__(
        self,
        dataset: Dataset,
        config: ExperimentConfig,
        streams: Streams,
        train: Partition | None = None,
    ) -> None:
        """``train`` is who holds what; None: as the config deals."""
        self.dataset = dataset
        self.config = config
        self.streams = streams
        self.train = train or partition_files.shared(
            partition_files.place(dataset, config, "train"),
            config.clients,
            lambda: deal_train(dataset, config, streams),
        )

    @cached_property
    def test(self) -> Partition:
        """The clients' test examples; only Local scores need it."""
        return partition_files.shared(
            partition_files.place(self.dataset, self.config, "test"),
            self.config.clients,
            lambda: deal_test(self.dataset, self.train, self.config, self.streams),
        )

    @property
    def outputs(self) -> int:
        return self.dataset.info.outputs

    @property
    def test_size(self) -> int:
        return len(self.dataset.test.labels)

    def examples(self, client: int) -> int:
        return len(self.train[client])

    def test_owners(self, start: int, stop: int) -> Tensor:
        """The client to whom each of these test examples was dealt; -1: to nobody."""
        return self._owners[start:stop]

    @cached_property
    def _owners(self) -> Tensor:
        return view(self.test.owners(self.test_size))


def batch_sizes(examples: int, size: int) -> list[int]:
    """Sizes of the batches of one pass; a last batch of one joins the one before it."""
    whole, rest = divmod(examples, size)
    if rest == 1 and whole:
        return [size] * (whole - 1) + [size + 1]
    return [size] * whole + [rest] * (rest > 0)
