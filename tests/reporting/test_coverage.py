"""How often parts of the model were trained, worked by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heterofl_ray.models.layout import Channels, Fixed, Labels
from heterofl_ray.reporting.coverage import Band, coverage, layer_coverage, whole_model
from heterofl_ray.reporting.runs import Missing, Run


def test_bands_and_means_of_a_perceptron(known_run: Callable[..., Run]) -> None:
    hidden, classifier = coverage(known_run())
    halves = [Band(0.0, 0.5, 1.0), Band(0.5, 1.0, 0.5)]  # three updates of each level
    assert (hidden.name, hidden.parameters) == ("layers.0", 64 * 8 + 8)
    assert hidden.bands == halves
    assert hidden.mean == 0.75
    assert (classifier.name, classifier.parameters) == ("classifier", 8 * 10 + 10)
    assert classifier.bands == halves  # along its inputs: classes are never cut
    assert classifier.mean == pytest.approx((90 + 50) / 180, rel=1e-15)


def test_a_layer_cut_on_both_sides_is_trained_less_than_its_channels() -> None:
    wide = {"mid.weight": (Channels("out", 4), Channels("in", 4), Fixed(3))}
    narrow = {"mid.weight": (Channels("out", 2), Channels("in", 2), Fixed(3))}
    (layer,) = layer_coverage({"a": wide, "b": narrow}, {"a": 1, "b": 3})
    assert layer.bands == [Band(0.0, 0.5, 1.0), Band(0.5, 1.0, 0.25)]
    assert layer.mean == (1 * 48 + 3 * 12) / (4 * 48)


def test_three_levels_of_which_one_was_never_trained() -> None:
    layouts = {
        name: {"x.weight": (Channels("x", width),)}
        for name, width in (("a", 8), ("b", 4), ("c", 2))
    }
    (layer,) = layer_coverage(layouts, {"a": 0, "b": 1, "c": 3})
    assert layer.bands == [Band(0.0, 0.25, 1.0), Band(0.25, 0.5, 0.25), Band(0.5, 1.0, 0.0)]
    assert layer.mean == (1 * 4 + 3 * 2) / (4 * 8)


def test_heads_are_cut_alike_and_what_is_not_cut_is_always_trained() -> None:
    wide = {"q.weight": (Channels("q", 8, 2), Channels("s", 6)), "last.bias": (Labels(10),)}
    narrow = {"q.weight": (Channels("q", 4, 2), Channels("s", 3)), "last.bias": (Labels(10),)}
    heads, last = layer_coverage({"a": wide, "b": narrow}, {"a": 1, "b": 1})
    assert heads.bands == [Band(0.0, 0.5, 1.0), Band(0.5, 1.0, 0.5)]
    assert heads.mean == (48 + 12) / 96
    assert last.bands == [Band(0.0, 1.0, 1.0)]
    assert last.mean == 1.0


def test_a_whole_model_is_the_mean_over_its_parameters(known_run: Callable[..., Run]) -> None:
    model = whole_model(coverage(known_run()), "all")
    assert model.parameters == 610
    assert model.mean == pytest.approx((610 + 310) / (2 * 610), rel=1e-15)


def test_no_updates_no_coverage(known_run: Callable[..., Run]) -> None:
    with pytest.raises(Missing, match="no client-updates"):
        coverage(known_run({"round": [1]}))
