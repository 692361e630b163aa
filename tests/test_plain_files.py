"""Plain values from files: what a settings file may hold, and what no file may do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from heterofl_ray import plain_files, presets
from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError, DataError, shown
from heterofl_ray.plain_files import parse_yaml, read_bytes, read_json

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
REFUSED = {
    BOMB: "aliases",
    "rounds: &a [*a]": "aliases",
    "rounds: 2\nrounds: 3": "'rounds' is given twice",
    "optimizer: {lr: 1, lr: 2}": "'lr' is given twice",
    "? [a]\n: b": "name must be a text",
    "rounds: " + "[" * 5000: "within each other",
    "rounds: " + "{a: " * 5000: "within each other",
    "- " * 5000: "within each other",
    "seed: " + "9" * 5000: "a number of 5000 characters",
    "seed: " + "1:" * 3000 + "1": "a number of 6001 characters",
    "lr: !!float x": "not valid YAML",
    "lr: !!timestamp x": "not valid YAML",
    "network: {scaler: !!bool x}": "not valid YAML",
    "data: !!python/object/apply:os.mkdir [evil]": "not valid YAML",
    "data: \x1b": "not valid YAML",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20].replace("\n", " "))
def test_settings_files_that_are_refused_in_a_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        presets.load(str(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert REFUSED[text] in message
    assert "\n" not in message
    assert len(message) < 600
    assert list(tmp_path.iterdir()) == [path]


def test_dates_stay_texts() -> None:
    assert parse_yaml("a: 2001-99-99\nb: 2001-01-01") == {"a": "2001-99-99", "b": "2001-01-01"}


def test_what_is_wrong_in_a_file_is_told_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    for text, says in (("rouds: 3", "did you mean 'rounds'?"), ("rounds: 0", "rounds=0")):
        path.write_text(text)
        assert main(["run", str(path)]) == 2
        error = capsys.readouterr().err
        assert f"{path}: " in error
        assert says in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("value", [10**400, -(10**400), 0xF << 40_000, 1e308], ids=range(4))
@pytest.mark.parametrize("name", ["seed", "lr", "rounds"])
def test_numbers_that_no_float_holds_are_refused(name: str, value: float) -> None:
    if name == "seed" or value != 1e308:
        with pytest.raises(ConfigError, match=f"{name}="):
            ExperimentConfig.from_dict({name: value})


def test_any_value_is_shown_in_eighty_characters() -> None:
    nested: list[object] = []
    for _ in range(2000):
        nested = [nested, nested]
    for value in (nested, "x" * 10**6, 1 << 40_000, {n: n for n in range(1000)}, b"x" * 10**6):
        assert len(shown(value)) <= 80
    assert shown([1, 2.5, "a"]) == "[1, 2.5, 'a']"


def test_files_that_are_too_large_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)  # holes take no space
    with pytest.raises(DataError, match="larger than 256 MiB"):
        read_json(tmp_path / "large")
    monkeypatch.setattr(plain_files, "LARGEST_YAML", 1024**2)
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        plain_files.read_yaml(tmp_path / "large")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(DataError, match="is not a file"):
            read_bytes(path, 10)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe", b"{", b"1" * 5000])
def test_json_that_says_nothing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(DataError, match=r"x.json is damaged: ") as caught:
        read_json(tmp_path / "x.json")
    assert len(str(caught.value)) < 400


def test_what_a_file_names_cannot_write_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text('"\\x1b[2J\\n": 3')
    assert main(["run", str(tmp_path / "mine.yaml")]) == 2
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert error.count("\n") == 1
