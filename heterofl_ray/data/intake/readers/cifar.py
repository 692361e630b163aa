"""CIFAR's own batch files, read by torchvision.

The batches are pickles. torchvision unpickles them, and only after their published md5 sums match,
so nothing but the published files is ever unpickled; we write no pickle ourselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from heterofl_ray.data.intake.archives import entries, staged
from heterofl_ray.data.intake.readers.contract import Labelled, Options, Part
from heterofl_ray.data.intake.vision import datasets
from heterofl_ray.errors import DataError

SUPER_CLASSES = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}


def read(place: Path, options: Options) -> Labelled:
    """Training and test images of CIFAR-10 or CIFAR-100, in a folder or an archive."""
    kind: Any = getattr(datasets(), kind_of({entry.base for entry in entries(place)}))
    names = {name for name, _ in (*kind.train_list, *kind.test_list)} | {kind.meta["filename"]}
    with staged(place, names.__contains__) as stage:
        folder = stage / kind.base_folder
        folder.mkdir()
        for name in names:
            if not (stage / name).is_file():
                raise DataError(f"{place} lacks CIFAR's file {name}")
            (stage / name).rename(folder / name)
        try:
            train, test = (kind(stage, train=chosen) for chosen in (True, False))
        except RuntimeError:
            raise DataError(
                f"{place}: its CIFAR batches are not the published ones (md5 differs)"
            ) from None
    parts = [Part(part.data, np.asarray(part.targets, dtype=np.int64)) for part in (train, test)]
    names_by_label = tuple(train.classes)
    if kind.__name__ == "CIFAR10":
        return Labelled(parts[0], parts[1], names_by_label)
    parts = [with_coarse(part) for part in parts]
    return Labelled(parts[0], parts[1], names_by_label, tuple(SUPER_CLASSES))


def kind_of(bases: set[str]) -> str:
    """The torchvision reader for a place with these files; '' if it holds no CIFAR batches."""
    if "data_batch_1" in bases:
        return "CIFAR10"
    return "CIFAR100" if {"train", "test", "meta"} <= bases else ""


def with_coarse(part: Part) -> Part:
    """CIFAR-100's super-class of every image, which its fine class settles.

    Fine classes are numbered by the alphabet; their numbers count here, not their spelling.
    """
    groups = enumerate(SUPER_CLASSES.values())
    places = dict(sorted((fine, place) for place, group in groups for fine in group))
    table = np.array(list(places.values()), dtype=np.int64)
    return Part(part.images, part.labels, part.clients, table[part.labels])
