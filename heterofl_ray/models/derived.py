"""The layout of a user's own model, derived from its shapes at several rates.

An axis that shrinks with the rate is a channel axis and keeps its leading entries. Whether that is
right cannot be seen from one pair of shapes: 256 -> 180 may be leading channels, 256 -> 184 are
heads cut one by one. So the widths at several awkward rates must all follow one rounding of
rate x width; where they do not, the user is asked instead of guessed for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from torch import nn

from heterofl_ray.errors import ConfigError
from heterofl_ray.models.layout import Axis, Channels, Fixed, Labels, Layout, scaled
from heterofl_ray.models.outlines import shapes_only

# No usual width times one of these is near a whole number, so that cutting 2 or more segments one
# by one rounds differently from cutting the whole, at one of them at least.
_PROBES = (0.8347, 0.6183, 0.4271, 0.3179, 0.1837)
_ROUNDINGS: tuple[Callable[[int, float], int], ...] = (
    scaled,
    lambda full, rate: max(1, math.floor(full * rate + 1e-9)),
    lambda full, rate: max(1, round(full * rate)),
)

_Shapes = dict[str, tuple[int, ...]]


def derive_layout(
    name: str,
    factory: Callable[[float], nn.Module],
    rate: float,
    *,
    segments: Mapping[str, Mapping[int, int]],
    label_rows: Sequence[str],
) -> Layout:
    full = _shapes(name, factory, 1.0)
    probes = {probe: _shapes(name, factory, probe) for probe in _PROBES}
    wanted = _shapes(name, factory, rate)
    for probe, shapes in (*probes.items(), (rate, wanted)):
        _same_parameters(name, full, shapes, probe)
    for parameter in (*segments, *label_rows):
        if parameter not in full:
            raise ConfigError.unknown(f"model {name!r}: parameter", parameter, full)

    layout: dict[str, tuple[Axis, ...]] = {}
    for parameter, shape in full.items():
        axes: list[Axis] = []
        for axis, size in enumerate(shape):
            widths = {probe: shapes[parameter][axis] for probe, shapes in probes.items()}
            width = wanted[parameter][axis]
            parts = segments.get(parameter, {}).get(axis)
            if len(set(widths.values()) | {size}) == 1 and width == size:
                label = axis == 0 and parameter in label_rows
                axes.append(Labels(size) if label else Fixed(size))
                continue
            if parts is None:
                _check_leading(name, parameter, axis, size, widths)
            elif parts < 1 or any(value % parts for value in (size, width)):
                raise ConfigError(
                    f"model {name!r}: segments={parts} does not divide axis {axis} of "
                    f"{parameter!r} ({size} at rate 1, {width} at rate {rate:g})"
                )
            axes.append(Channels(f"{parameter}[{axis}]", width, parts or 1))
        layout[parameter] = tuple(axes)
    return layout


def _shapes(name: str, factory: Callable[[float], nn.Module], rate: float) -> _Shapes:
    with shapes_only():
        model = factory(rate)
    if not isinstance(model, nn.Module):
        raise ConfigError(f"model {name!r}: factory({rate:g}) must return a torch nn.Module")
    return {key: tuple(value.shape) for key, value in model.named_parameters()}


def _same_parameters(name: str, full: _Shapes, shapes: _Shapes, rate: float) -> None:
    different = sorted(set(full) ^ set(shapes))
    if different:
        raise ConfigError(
            f"model {name!r}: rates 1 and {rate:g} do not have the same parameters "
            f"({different[0]!r} is in one only); only widths may change with the rate"
        )
    for parameter, shape in full.items():
        inner = shapes[parameter]
        if len(inner) != len(shape) or any(a > b for a, b in zip(inner, shape, strict=True)):
            raise ConfigError(
                f"model {name!r}: {parameter!r} has shape {shape} at rate 1 but {inner} at rate "
                f"{rate:g}; no axis may grow or vanish as the rate falls"
            )


def _check_leading(
    name: str, parameter: str, axis: int, size: int, widths: Mapping[float, int]
) -> None:
    """Refuse widths that no single rounding of rate x size explains."""
    if any(all(w == rule(size, r) for r, w in widths.items()) for rule in _ROUNDINGS):
        return
    rate, width = next((r, w) for r, w in widths.items() if w != scaled(size, r))
    raise ConfigError(
        f"model {name!r}: how to cut axis {axis} of {parameter!r} is ambiguous: it has {size} "
        f"entries at rate 1 and {width} at rate {rate:g}, not {scaled(size, rate)}; say "
        f"register_model(..., segments={{{parameter!r}: {{{axis}: N}}}}) with N equal parts "
        f"(heads, fused projections), or N=1 for leading entries"
    )
