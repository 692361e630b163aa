"""Wrong command lines: one line that names the fault, exit code 2, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from heterofl_ray.cli import main

RUN = ["run", "digits-dynamic"]
COSTS = ["costs", "--model"]

WRONG = [
    ([], "COMMAND"),
    (["rnu"], "invalid choice: 'rnu'"),
    (["run"], "PRESET_OR_YAML"),
    (["run", "digits-dynamc"], "did you mean 'digits-dynamic'?"),
    (["run", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ([*RUN, "--set"], "--set"),
    ([*RUN, "--sets", "rounds=3"], "unrecognized arguments"),
    ([*RUN, "--set", "rounds"], "write it as name=value"),
    ([*RUN, "--set", "rounds=zero"], "rounds='zero'"),
    ([*RUN, "--set", "rounds=-1"], "rounds=-1"),
    ([*RUN, "--set", "roundz=3"], "did you mean 'rounds'?"),
    ([*RUN, "--set", "mix=a-q!"], "mix='a-q!'"),
    ([*RUN, "--set", "mix=a0-e0"], "share above 0"),
    ([*RUN, "--set", "shrink=1.5"], "shrink=1.5"),
    ([*RUN, "--set", "fraction=2"], "fraction=2.0"),
    ([*RUN, "--set", "model=covn"], "did you mean 'conv'?"),
    ([*RUN, "--set", "model=transformer"], "data=digits is images; use conv"),
    ([*RUN, "--set", "data=digitz"], "did you mean 'digits'?"),
    ([*RUN, "--set", "method=fedsgd"], "method='fedsgd'"),
    ([*RUN, "--set", "method=lg-fedavg", "--set", "lg.head=99"], "lg.head=99"),
    ([*RUN, "--set", "method=fjord", "--set", "execution.trainer=compiled"], "is for plain"),
    ([*RUN, "--set", "lg.private=all"], "lg.private='all'"),
    ([*RUN, "--set", "fedprox.mu=-1"], "fedprox.mu=-1"),
    ([*RUN, "--set", "fjord.distillation=2"], "fjord.distillation=2"),
    ([*RUN, "--set", "selection.drawn_for=round"], "selection.drawn_for='round'"),
    ([*RUN, "--set", "server.optimizer=sgd"], "server.optimizer='sgd'"),
    ([*RUN, "--set", "server.tau=0"], "server.tau=0"),
    ([*RUN, "--set", "clients=2000"], "clients=2000"),
    ([*RUN, "--set", "optimizer.milestones=[99]"], "below rounds=30"),
    ([*RUN, "--set", "execution.device=cuda:99"], "CUDA devices"),
    ([*RUN, "--set", "execution.device=tpu"], "auto, cpu, cuda or cuda:N"),
    ([*RUN, "--set", "network.hidden=[8,8,8,8,8]"], "16x16 or more, not 8x8"),
    ([*RUN, "--set", "network.norm=gn", "--set", "shrink=0.7"], "network.norm='gn'"),
    (["run", "pydocs-dynamic", "--set", "partition=classes:2"], "text is dealt in rows"),
    (["run", "pydocs-dynamic", "--set", "clients=101"], "text.rows"),
    (["run", "pydocs-dynamic", "--set", "text.rows=1000000000"], "text.rows=1000000000"),
    (["run", "pydocs-dynamic", "--set", "network.norm=gn"], "layer norms"),
    ([*RUN, "--set", "tracking.root=/proc/nowhere"], "tracking.root='/proc/nowhere'"),
    (["costs"], "--model"),
    ([*COSTS, "convv"], "did you mean 'conv'?"),
    ([*COSTS, "conv", "--mix", "e-"], "mix='e-'"),
    ([*COSTS, "conv", "--shrink", "0"], "shrink=0.0"),
    ([*COSTS, "conv", "--shrink", "half"], "--shrink='half'"),
    ([*COSTS, "conv", "--shrink", "nan"], "shrink=nan"),
    ([*COSTS, "conv", "--input", "28x28"], "such as 1x28x28"),
    ([*COSTS, "conv", "--input", "1x0x28"], "from 1 to"),
    ([*COSTS, "conv", "--input", "1x2x2"], "8x8 or more, not 2x2"),
    ([*COSTS, "conv", "--classes", "-3"], "--classes='-3'"),
    ([*COSTS, "conv", "--classes", "0"], "--classes='0'"),
    ([*COSTS, "conv", "--vocabulary", "100"], "conv takes --classes"),
    ([*COSTS, "transformer", "--classes", "10"], "transformer takes --vocabulary"),
    ([*COSTS, "transformer", "--input", "1x28x28"], "a window's length"),
    ([*COSTS, "transformer", "--norm", "sbn"], "layer norms"),
    ([*COSTS, "conv", "--norm", "bn"], "network.norm='bn'"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=lambda value: str(value)[-60:])
def test_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    output = capsys.readouterr()
    assert code == 2
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert says in output.err
    assert not list(Path().glob("runs/*/result.json"))


def test_a_folder_that_may_not_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: Path, *_: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "glob", refuse)
    assert main([*RUN, "--data-dir", "."]) == 2
    assert "Permission denied" in capsys.readouterr().err


def test_a_damaged_data_set_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "digits.json").write_text("{")
    assert main([*RUN, "--data-dir", str(tmp_path)]) == 2
    assert "digits.json is damaged" in capsys.readouterr().err
