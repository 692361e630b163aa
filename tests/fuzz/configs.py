"""Settings files as people, generators and enemies write them."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import strategies as st

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.presets import PRESETS
from heterofl_ray.settings import setting_names

from .damage import damaged

_NAMES = setting_names(ExperimentConfig)
_GROUPS = sorted({name.partition(".")[0] for name in _NAMES if "." in name})

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**4000), 10**4000),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["a-e", "1.0:0.3,0.4:0.7", "classes:2", "dirichlet:1e999", "conv", "../x", "~"]
    ),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
_KEYS = st.sampled_from([name for name in _NAMES if "." not in name]) | st.text(max_size=8)
_INNER = st.sampled_from([name.partition(".")[2] for name in _NAMES if "." in name])
_GROUPED = st.dictionaries(_INNER | st.text(max_size=6), _VALUES, max_size=3) | _VALUES

TREES: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda flat, groups, preset: {**flat, **groups, **preset},
    st.dictionaries(_KEYS, _VALUES, max_size=4),
    st.dictionaries(st.sampled_from(_GROUPS), _GROUPED, max_size=2),
    st.just({}) | st.fixed_dictionaries({"preset": st.sampled_from([*PRESETS, "x"]) | _VALUES}),
)

# Lines that mean something special to YAML, in settings' places.
_SPECIAL = (
    "rounds: &a [*a]",
    "rounds: *nowhere",
    "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
    "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
    "e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n"
    "g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f]\nmix: [*g, *g, *g, *g, *g, *g, *g, *g, *g]",
    "<<: {rounds: 3}",
    "rounds: 2\nrounds: 3",
    "rounds: 2001-99-99",
    "rounds: 2001-01-01 25:61:61",
    "seed: " + "9" * 5000,
    "seed: 0x" + "f" * 5000,
    "seed: " + "1:" * 3000 + "1",
    "seed: " + "0b" + "1" * 20000,
    "lr: .nan",
    "lr: -.inf",
    "lr: 1e400",
    "lr: !!float x",
    "lr: !!int x",
    "network: {scaler: !!bool x}",
    "lr: !!timestamp x",
    "data: !!binary x",
    "data: !!python/name:os.system",
    "data: !!python/object/apply:os.mkdir [../evil]",
    "data: !!set {a, b}",
    "data: !!omap [a: 1]",
    "rounds: " + "[" * 3000,
    "rounds: " + "{a: " * 3000,
    "? " * 2000,
    "- " * 3000,
    "? [a]\n: b",
    "%TAG ! tag:x,2000:\n--- !y\nrounds: 3",
    "--- 1\n--- 2",
    'data: "\\ud800"',
    'data: "\\0"',
    "mix: |\n  a-e\n  b",
    "\ufeffrounds: 3",
    "clients: 1e308",
    "clients: 123456789012345678901234567890",
    "capability: {values: [1, .nan]}",
)


def _text(tree: Any) -> str:
    return str(yaml.safe_dump(tree, allow_unicode=True))


def texts() -> st.SearchStrategy[bytes]:
    """The content of a settings file."""
    whole = ExperimentConfig().to_yaml()
    special = st.lists(st.sampled_from(_SPECIAL), min_size=1, max_size=2).map("\n".join)
    return st.one_of(
        TREES.map(_text).map(lambda text: text.encode("utf-8", "surrogatepass")),
        special.map(lambda text: text.encode("utf-8", "surrogatepass")),
        special.flatmap(lambda text: damaged(text.encode("utf-8", "surrogatepass"))),
        damaged(whole.encode()),
        st.binary(max_size=200),
    )


def assignments() -> st.SearchStrategy[list[str]]:
    """What follows ``--set``."""
    values = (
        st.text(max_size=12)
        | _SCALARS.map(str)
        | st.sampled_from([line.partition(": ")[2] for line in _SPECIAL])
    )
    names = st.sampled_from(_NAMES) | st.text(max_size=8)
    one = st.builds(lambda name, value: f"{name}={value}", names, values) | st.text(max_size=12)
    return st.lists(one, max_size=3)
