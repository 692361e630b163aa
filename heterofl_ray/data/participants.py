"""FedMD's data: what each participant holds in private, and what is public.

Models answer for the public classes and the private ones. Where both are of one data set, a class
keeps its number; otherwise the private classes are counted on behind the public data set's.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.data.images import Batch, ImageClients, pick
from heterofl_ray.data.partitions.dealing import deal_test, deal_train
from heterofl_ray.data.partitions.partition import Integers, Partition
from heterofl_ray.data.store import Dataset, Split, view
from heterofl_ray.errors import ConfigError
from heterofl_ray.randomness import Streams

LEARN, CHECK = 0, 1
"""The two who hold the public examples: what models learn from, and what tells when to stop."""
CHECKED = 10
"""One of so many public examples is held out for that."""


class PublicImages(ImageClients):
    """The public examples ``indices`` of a data set."""

    def __init__(
        self, dataset: Dataset, config: ExperimentConfig, streams: Streams, indices: Integers
    ) -> None:
        self.size = min(config.fedmd.public_size, len(indices))
        """How many are drawn in a round."""
        self._all = view(indices)
        held_out = len(indices) // CHECKED if config.fedmd.patience else 0
        mixed = streams.numpy("public-held-out").permutation(indices)
        sizes = np.array([len(indices) - held_out, held_out])
        super().__init__(dataset, config, streams, Partition.of_sizes(sizes, mixed))

    def drawn(self, round_number: int) -> Tensor:
        """The examples that a round is about."""
        random = self.streams.torch("public-subset", round_number)
        return self._all[torch.randperm(len(self._all), generator=random)[: self.size]]

    def batches(self, indices: Tensor, size: int, device: torch.device) -> Iterator[Batch]:
        """These examples in this order, as they are."""
        for some in indices.split(size):
            images, labels = pick(self.dataset.train, some, device)
            yield self._normalised(images), labels

    def checked(self) -> Tensor:
        """The examples that are held out."""
        return view(self.train[CHECK])


class ParticipantImages(ImageClients):
    """Participants' private examples, dealt as ``partition`` says and then thinned out."""

    def __init__(
        self, dataset: Dataset, public: Dataset | None, config: ExperimentConfig, streams: Streams
    ) -> None:
        private = _private_classes(dataset, config)
        places, compact = _restricted(dataset, private)
        dealt = deal_train(compact, config, streams)
        held = _thinned(
            dealt, compact.train.labels.numpy(), config.fedmd.private_per_class, streams
        )
        self.foreign = public
        """The public data set where it is another one."""
        if public is None:
            numbers, classes = torch.tensor(private), dataset.info.classes
        else:
            _check_alike(public, dataset, config)
            classes = (*public.info.classes, *compact.info.classes)
            numbers = torch.arange(len(private)) + len(public.info.classes)
        own = _renumbered(compact, numbers, classes)
        super().__init__(own, config, streams, held)
        if public is None:
            left = _public_examples(dataset, private, places[held.indices], config)
            self.public = PublicImages(dataset, config, streams, left)
        else:
            whole = dataclasses.replace(public.info, classes=classes)
            self.public = PublicImages(
                dataclasses.replace(public, info=whole),
                config,
                streams,
                np.arange(len(public.train.labels)),
            )

    @cached_property
    def test(self) -> Partition:
        return deal_test(self.dataset, self.train, self.config, self.streams)

    @cached_property
    def together(self) -> ImageClients:
        """Everybody's private examples in one hand."""
        pool = copy.copy(self)
        pool.train = Partition.of_sizes(
            np.array([len(self.train.indices)]), np.asarray(self.train.indices)
        )
        return pool


def _private_classes(dataset: Dataset, config: ExperimentConfig) -> list[int]:
    """Numbers of the private classes, ascending."""
    count, given = len(dataset.info.classes), config.fedmd.classes
    if given and max(given) >= count:
        raise ConfigError.of(
            "fedmd.classes", list(given), f"data={config.data} has classes 0 to {count - 1}"
        )
    if given or config.fedmd.public:
        return sorted(given) or list(range(count))
    return list(range(count // 2, count))


def _restricted(dataset: Dataset, classes: Sequence[int]) -> tuple[Integers, Dataset]:
    """The data set with these classes alone, counted from 0; and where its train examples were."""
    if len(classes) == len(dataset.info.classes):
        return np.arange(len(dataset.train.labels)), dataset
    wanted = torch.tensor(classes)

    def restricted(split: Split) -> tuple[Integers, Split]:
        kept = torch.isin(split.labels, wanted).nonzero().flatten()
        columns = {name: column[kept] for name, column in split.columns.items()}
        columns["label"] = torch.searchsorted(wanted, columns["label"])
        return kept.numpy(), Split(columns)

    places, train = restricted(dataset.train)
    _, test = restricted(dataset.test)
    info = dataclasses.replace(
        dataset.info,
        classes=tuple(dataset.info.classes[number] for number in classes),
        train=len(train.labels),
        test=len(test.labels),
    )
    return places, Dataset(info, train, test, dataset.folder)


def _renumbered(dataset: Dataset, numbers: Tensor, classes: tuple[str, ...]) -> Dataset:
    """The data set with class i called ``numbers[i]`` of ``classes``."""
    train, test = (
        Split({**split.columns, "label": numbers[split.labels.long()]})
        for split in (dataset.train, dataset.test)
    )
    return Dataset(dataclasses.replace(dataset.info, classes=classes), train, test, dataset.folder)


def _thinned(dealt: Partition, labels: Integers, most: int, streams: Streams) -> Partition:
    """At most so many examples of each class for everyone, drawn from what it was dealt."""
    if not most:
        return dealt
    parts = []
    for client in range(dealt.clients):
        mixed = streams.numpy("private-examples", client=client).permutation(dealt[client])
        by_class = mixed[np.argsort(labels[mixed], kind="stable")]
        own = labels[by_class]
        place = np.arange(len(own)) - np.searchsorted(own, own)
        parts.append(by_class[place < most])
    return Partition.of_sizes(np.array([len(part) for part in parts]), np.concatenate(parts))


def _public_examples(
    dataset: Dataset, private: Sequence[int], held: Integers, config: ExperimentConfig
) -> Integers:
    """Of the data set itself: other classes' examples, or all that nobody ``held``."""
    labels = dataset.train.labels.numpy()
    if config.fedmd.public:
        left = np.setdiff1d(np.arange(len(labels)), held)
    else:
        left = np.flatnonzero(~np.isin(labels, private))
    if not len(left):
        raise ConfigError.of(
            "fedmd.public",
            config.fedmd.public,
            f"no example of data={config.data} is left for the public set; name another data set, "
            "or fewer private classes in fedmd.classes",
        )
    return left


def _check_alike(public: Dataset, dataset: Dataset, config: ExperimentConfig) -> None:
    if (public.info.kind, public.info.shape) != ("images", dataset.info.shape):
        shape, own = ("x".join(map(str, each.info.shape)) for each in (public, dataset))
        what = f"images of {shape}" if public.info.kind == "images" else public.info.kind
        raise ConfigError.of(
            "fedmd.public", config.fedmd.public, f"it is {what}, but data={config.data} is {own}"
        )
