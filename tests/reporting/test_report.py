"""The whole report: every figure's files and the page that holds them all."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from heterofl_ray.config import ExperimentConfig
from heterofl_ray.errors import ConfigError
from heterofl_ray.reporting.report import Written, make_report, write_report
from heterofl_ray.runner import run
from tests.reporting.conftest import COLUMNS, RESULT, MakeRun

EVERY = [
    "learning-curves",
    "score-by-parameters",
    "level-scores",
    "train-loss",
    "savings",
    "time",
    "coverage",
]
VOID = {"meta", "br", "img", "input", "link", "hr"}


class Page(HTMLParser):
    """A page's tags, texts and addresses; unbalanced tags are an error."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "data", "srcset", "action"):
                self.addresses.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def check(made: Written) -> Page:
    """What holds for every report."""
    out = made.page.parent
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["index.html", *(f"{n}.{kind}" for n in made.figures for kind in ("png", "svg"))]
    )
    for name in made.figures:
        pixels = np.asarray(Image.open(out / f"{name}.png").convert("RGB"))
        assert pixels.shape[1] > 600
        assert len(np.unique(pixels @ [1, 256, 256**2])) > 20  # not blank
        root = ElementTree.parse(out / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 10
    page = Page(made.page)
    assert page.tags.count("svg") == len(made.figures)
    assert set(made.figures) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    inner = [address for address in page.addresses if not address.startswith("data:image/png;")]
    assert {address[:1] for address in inner} == {"#"}
    assert {address[1:] for address in inner} <= set(page.ids)
    assert not re.search(r"https?://|@import|url\((?!#)", page.source)
    return page


def test_one_run(make_run: MakeRun, tmp_path: Path) -> None:
    made = make_report([make_run()], tmp_path / "out")
    assert made.figures == EVERY
    assert made.left_out == {}
    page = check(made)
    for text in (
        "digits, iid",
        "accuracy 80.00 %",
        "accuracy 90.00 %",
        "3 rounds",
        "ab" * 32,
        "24.6 % of bytes and 25.0 % of FLOPs",
        "460 parameters",
        "heterofl-ray run digits-dynamic --set model=mlp",
    ):
        assert text in page.text
    assert "details" in page.tags


def test_several_runs_are_named_by_what_differs(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run(f"run-{mix}", {"mix": mix}) for mix in ("a-b", "a3-b7", "a")]
    page = check(make_report(runs, tmp_path / "out"))
    assert "They differ in mix." in page.text
    for mix in ("a-b", "a3-b7", "a"):
        assert mix in page.texts


def test_write_report_gives_the_page(make_run: MakeRun, tmp_path: Path) -> None:
    make_run()
    page = write_report([tmp_path / "runs"], tmp_path / "new" / "out")
    assert page == tmp_path / "new" / "out" / "index.html"
    assert page.is_file()


def test_an_unfinished_run_says_so(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETEROFL_DATA_DIR", str(tmp_path / "no-data"))
    half = {name: values[:2] for name, values in COLUMNS.items()}
    made = make_report([make_run(columns=half, result=None)], tmp_path / "out")
    page = check(made)
    assert "unfinished, 2 of 3 rounds" in page.text
    # Neither its data set nor a result says how large its model is; one level was tested.
    assert made.figures == ["learning-curves", "train-loss", "time"]
    for title, reason in made.left_out.items():
        assert title in page.texts
        assert reason in page.text


def test_a_run_without_a_round(make_run: MakeRun, tmp_path: Path) -> None:
    empty = {"round": []}
    made = make_report([make_run(columns=empty, result=None)], tmp_path / "out")
    assert made.figures == []
    assert "unfinished, 0 of 3 rounds" in check(made).text


def test_finished_and_unfinished_and_unknown_runs_together(
    make_run: MakeRun, tmp_path: Path
) -> None:
    half = {name: values[:2] for name, values in COLUMNS.items()}
    runs = [
        make_run("whole"),
        make_run("half", {"seed": 1}, half, None),
        make_run("none", {"seed": 2}, {"round": []}, None),
        make_run("own", {"seed": 3, "model": "my-net"}),
    ]
    made = make_report(runs, tmp_path / "out")
    assert made.figures == EVERY
    check(made)


def test_one_round(make_run: MakeRun, tmp_path: Path) -> None:
    first = {name: values[:1] for name, values in COLUMNS.items()}
    made = make_report([make_run(settings={"rounds": 1}, columns=first)], tmp_path / "out")
    assert made.figures == EVERY
    assert "one: 1 round" in check(made).text


def test_images_and_text_side_by_side(make_run: MakeRun, tmp_path: Path) -> None:
    text = {
        "round": [1, 2],
        "seconds": [1.0, 2.0],
        "loss": [5.0, 4.0],
        "global_perplexity": [900.0, 80.0],
    }
    result = RESULT | {
        "global": {"perplexity": 80.0},
        "local": {},
        "levels": {"a": {"perplexity": 80.0}, "b": {"perplexity": 95.5}},
        "input_shape": [64],
        "outputs": 50,
    }
    network = {"embedding": 16, "heads": 2, "feedforward": 16, "layers": 1}
    settings = {"model": "transformer", "data": "pydocs", "network": network}
    runs = [make_run("image"), make_run("text", settings, text, result)]
    page = check(make_report(runs, tmp_path / "out"))
    assert "perplexity 80.00" in page.text
    assert "accuracy 80.00 %" in page.text


def test_names_are_escaped(make_run: MakeRun, tmp_path: Path) -> None:
    name = "<script>alert('1')</script> & $x^2$"
    settings = {"data": "<img src=x>"}
    runs = [make_run(name.replace("/", "_"), settings), make_run("b", settings)]
    for chosen in (runs[:1], runs):
        page = check(make_report(chosen, tmp_path / f"out{len(chosen)}"))
        assert "<script" not in page.source
        assert "<img" not in page.source
        assert "<script>alert('1')<_script> & $x^2$" in page.text


def test_more_runs_than_can_be_told_apart(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [
        make_run(f"{seed:02}", {"seed": seed}, COLUMNS | {"loss": [seed + 1.0] * 3})
        for seed in range(40)
    ]
    page = check(make_report(runs, tmp_path / "out"))
    assert "40 runs on digits" in page.text
    assert "the rest is grey" in page.text


def test_sixty_two_levels_and_a_very_long_name(make_run: MakeRun, tmp_path: Path) -> None:
    rates = [1 - place / 63 for place in range(62)]
    mix = ",".join(f"{rate:.4f}" for rate in rates)
    names = [f"{float(f'{rate:.4f}'):g}" for rate in rates]
    columns = {
        "round": [1],
        "seconds": [1.0],
        "loss": [1.0],
        "megabytes_down": [0.5],
        "global_accuracy": [50.0],
        **{f"clients_{name}": [1] for name in names},
        **{f"loss_{name}": [1.0] for name in names},
        **{f"level_{name}_accuracy": [50.0] for name in names},
        **{f"seconds_{name}": [0.5] for name in names},
    }
    folder = make_run("n" * 200, {"mix": mix}, columns, RESULT | {"levels": {}})
    made = make_report([folder], tmp_path / "out")
    assert made.figures == EVERY
    check(made)


def test_one_format(make_run: MakeRun, tmp_path: Path) -> None:
    make_report([make_run()], tmp_path / "out", ["svg"])
    kinds = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert kinds == {".svg", ".html"}
    with pytest.raises(ConfigError, match="pdf"):
        make_report([tmp_path / "runs"], tmp_path / "out", ["pdf"])


def test_equal_runs_give_equal_files(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run()
    for out in ("first", "second"):
        write_report([folder], tmp_path / out)
    for first in (tmp_path / "first").iterdir():
        assert first.read_bytes() == (tmp_path / "second" / first.name).read_bytes()


@pytest.mark.slow
def test_real_runs_of_images_and_text(
    tiny: ExperimentConfig, tiny_text: ExperimentConfig, tmp_path: Path
) -> None:
    configs = [tiny, dataclasses.replace(tiny, partition="classes:2"), tiny_text]
    folders = [Path(run(config).summary["run_dir"]) for config in configs]
    for number, chosen in enumerate([folders[1:2], folders[2:], folders]):
        made = make_report(chosen, tmp_path / str(number))
        assert made.figures == EVERY
        check(made)
