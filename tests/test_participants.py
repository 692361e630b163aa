"""Participants' models as they are typed."""

from __future__ import annotations

import pytest

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.participants import Participant, parse_participant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("party:128-256:.2", Participant("party", (128, 256), 0.2)),
        ("party:64-64-64-64:0.25", Participant("party", (64, 64, 64, 64), 0.25)),
        ("conv:8", Participant("conv", (8,))),
        ("my-model_2", Participant("my-model_2")),
        ("party::0", Participant("party", (), 0.0)),
    ],
)
def test_a_text_says_a_model(text: str, expected: Participant) -> None:
    assert parse_participant("fedmd.participants", text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "write MODEL"),
        ("party:128-", "write MODEL"),
        ("party:a-b", "write MODEL"),
        ("party:8:.2:3", "write MODEL"),
        ("two words", "write MODEL"),
        ("party:8-0", "widths must be 1 or more"),
        ("party:8:1", "dropout must be at most 0.99"),
    ],
)
def test_other_texts_are_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"fedmd.participants.*{why}"):
        parse_participant("fedmd.participants", text)


def test_each_participant_is_a_level_of_its_own() -> None:
    config = ExperimentConfig().override(
        ["method=fedmd", "fedmd.participants=[party:8-16:.1, mlp:32, party:8-16:.1]"]
    )
    levels = config.levels.levels
    assert [level.name for level in levels] == ["p0", "p1", "p2"]
    assert [level.participant for level in levels] == list(config.participants)
    assert len(set(levels)) == 3, "alike, and yet two participants"
    assert config.override(["method=heterofl"]).participants == ()
    assert config.override(["method=heterofl"]).levels.name == "a-e"


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("participants=[]", "at least one"),
        ("participants=party:8", "must be a list"),
        ("weights=[1, 2]", "one for each of 5 participants"),
        ("weights=[0, 0, 0, 0, 0]", "one must be above 0"),
        ("weights=[1, 1, 1, 1, -1]", "0 or more"),
        ("classes=[3, 3]", "each class once"),
        ("classes=[-1]", "0 or more"),
        ("private_per_class=-1", "0 or more"),
        ("public_size=0", "1 or more"),
        ("fraction=0", "above 0"),
        ("fraction=1.5", "at most 1"),
        ("lr=0", "above 0"),
        ("pretrain_epochs=-1", "0 or more"),
        ("pretrain_batch=0", "1 or more"),
        ("patience=-1", "0 or more"),
        ("private_epochs=-1", "0 or more"),
        ("digest=mean", "mae, mse, kl"),
        ("temperature=0", "above 0"),
        ("digest_epochs=0", "1 or more"),
        ("digest_batch=0", "1 or more"),
        ("revisit_epochs=0", "1 or more"),
        ("revisit_batch=0", "1 or more"),
        ("pooled=maybe", "true or false"),
        ("public=5", ""),
    ],
)
def test_wrong_settings_are_named(setting: str, why: str) -> None:
    if not why:  # any text is a name; whether there is such data is seen later
        ExperimentConfig().override([f"fedmd.{setting}"])
        return
    name = setting.partition("=")[0]
    with pytest.raises(ConfigError, match=f"fedmd.{name}.*{why}"):
        ExperimentConfig().override([f"fedmd.{setting}"])
