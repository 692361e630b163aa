"""Runs on sentences, on tagged words and on numbers, from import to report and export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

from heterofl_ray import run
from heterofl_ray.cli import main
from heterofl_ray.config import ExperimentConfig

TINY = {
    "data": "sentences",
    "model": "encoder",
    "mix": "a-b",
    "clients": 40,
    "fraction": 0.1,
    "rounds": 2,
    "local_epochs": 1,
    "lr": 0.002,
    "network": {"embedding": 16, "heads": 2, "feedforward": 16, "layers": 2},
    "optimizer": {"name": "adam", "weight_decay": 0.0},
}


def tiny(**changed: object) -> ExperimentConfig:
    return ExperimentConfig.from_dict({**TINY, **changed})


def test_sentences(tmp_path: Path) -> None:
    result = run(tiny())
    assert list(result.summary["global"]) == ["accuracy", "matthews", "f1", "loss"]
    assert set(result.summary["levels"]) == {"a", "b"}
    assert set(result.summary["local"]) == set(result.summary["global"])
    assert run(tiny()).summary["model_sha256"] == result.summary["model_sha256"]
    folder = str(result.summary["run_dir"])
    arguments = ["export", folder, "--level", "b", "--format", "safetensors"]
    assert main([*arguments, "--out", str(tmp_path / "b.safetensors")]) == 0
    assert main(["report", folder]) == 0


@pytest.mark.parametrize("partition", ["iid", "classes:2"])
def test_tagged_words(partition: str) -> None:
    result = run(tiny(data="entities", partition=partition))
    assert next(iter(result.summary["global"])) == "f1"
    assert 0 <= result.summary["local"]["accuracy"] <= 100
    reopened = type(result).open(Path(result.summary["run_dir"]))
    length = result.spec.input_shape[1]
    inputs = torch.ones(3, 2, length, dtype=torch.long)
    assert reopened.global_model()(inputs).shape == (3, length, 7)


def test_numbers_from_imported_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Words that say how large the number is: even a small model soon sees it."""
    names = ("zero", "one", "two", "three", "four", "five")
    rows = [f"it is {names[n % 6]}\tso {names[n % 6]}\t{n % 6}.0" for n in range(600)]
    header = "sentence1\tsentence2\tscore"
    (tmp_path / "files").mkdir()
    for part, kept in (("train", rows), ("dev", rows[:60])):
        (tmp_path / "files" / f"{part}.tsv").write_text("\n".join([header, *kept]) + "\n")
    assert main(["data", "import", str(tmp_path / "files"), "--name", "counted", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["target"] == "number"
    config = tiny(data="counted", rounds=8, local_epochs=8, lr=0.01, mix="a", evaluate_every=0)
    result = run(config)
    assert list(result.summary["global"]) == ["pearson", "loss"]
    assert result.summary["global"]["pearson"] > 50
    assert (
        run(config.override(["loss.masked=on"])).summary["model_sha256"]
        == (result.summary["model_sha256"])
    )
    with pytest.raises(ValueError, match=r"partition='classes:2' .*has numbers and no classes"):
        run(config.override(["partition=classes:2"]))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--set", "model=conv"], "data=sentences is sequences; use encoder"),
        (["--set", "network.pretrained=nowhere"], "network.pretrained='nowhere' is not valid"),
        (["--set", "network.norm_eps=0"], "network.norm_eps=0.0 is not valid"),
    ],
)
def test_wrong_settings_are_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "sentences-dynamic", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.strip().count("\n") == 0


def test_wrong_length_of_an_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "import", str(tmp_path), "--name", "x", "--length", "3"]) == 2
    assert "--length='3' is not valid: a whole number from 8 to 8192" in capsys.readouterr().err


def test_partition_of_tagged_words(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["data", "partition", "entities", "--partition", "classes:1", "--clients", "8"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["classes_per_client"]["max"] == 1


def test_costs_of_an_encoder(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["costs", "--model", "encoder", "--input", "16", "--classes", "3"]
    assert main([*arguments, "--vocabulary", "100", "--mix", "a-c", "--json"]) == 0
    levels = json.loads(capsys.readouterr().out)["levels"]
    assert levels["a"]["parameters"] > 4 * levels["c"]["parameters"] > 0


def put_bert(folder: Path) -> dict[str, torch.Tensor]:
    """A tiny BERT of random weights in Hugging Face's layout, with its vocabulary."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "they", "sat", "down", "."]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings": (len(words), 8),
        "embeddings.position_embeddings": (40, 8),
        "embeddings.token_type_embeddings": (2, 8),
    }
    for layer in range(3):
        at = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            shapes[f"{at}.attention.self.{name}"] = (8, 8)
        shapes[f"{at}.attention.output.dense"] = (8, 8)
        shapes[f"{at}.intermediate.dense"] = (12, 8)
        shapes[f"{at}.output.dense"] = (8, 12)
    random = torch.Generator().manual_seed(0)
    tensors = {
        f"bert.{name}.weight": torch.randn(shape, generator=random)
        for name, shape in shapes.items()
    }
    for name, shape in shapes.items():
        if not name.startswith("embeddings"):
            tensors[f"bert.{name}.bias"] = torch.randn(shape[0], generator=random)
    norms = [f"encoder.layer.{n}.{part}output" for n in range(3) for part in ("attention.", "")]
    for name in ("embeddings", *norms):
        tensors[f"bert.{name}.LayerNorm.weight"] = torch.ones(8)
        tensors[f"bert.{name}.LayerNorm.bias"] = torch.zeros(8)
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    config = {
        "model_type": "bert", "hidden_size": 8, "num_attention_heads": 2, "layer_norm_eps": 1e-12,
        "intermediate_size": 12, "num_hidden_layers": 3, "vocab_size": len(words),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    return tensors


def test_pre_trained_weights_are_where_training_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = put_bert(tmp_path / "bert")
    rows = [f"x\t{n % 2}\t\tThey sat {'down' if n % 2 else 'there'}." for n in range(80)]
    (tmp_path / "own.tsv").write_text("\n".join(rows) + "\n")
    imported = ["data", "import", str(tmp_path / "own.tsv"), "--name", "pieces"]
    assert main([*imported, "--tokenizer", str(tmp_path / "bert")]) == 0
    network = {"embedding": 8, "heads": 2, "feedforward": 12, "layers": 3, "norm_eps": 1e-12}
    config = tiny(
        data="pieces",
        network={**network, "pretrained": str(tmp_path / "bert")},
        rounds=1,
        clients=8,
        lr=1e-9,  # nothing is learned
    )
    for method in ("heterofl", "inclusivefl"):
        settings = [f"method={method}", "server.lr=1e-9"]
        parameters = run(config.override(settings)).parameters
        found = parameters["layers.2.linear1.weight"]
        wanted = tensors["bert.encoder.layer.2.intermediate.dense.weight"]
        assert torch.allclose(found, wanted, atol=1e-6)
        if method == "inclusivefl":
            found = parameters["depth2/layers.1.linear1.weight"]
            wanted = tensors["bert.encoder.layer.1.intermediate.dense.weight"]
            assert torch.allclose(found, wanted, atol=1e-6)
    capsys.readouterr()
    (tmp_path / "own.yaml").write_text(config.override(["network.heads=4"]).to_yaml())
    assert main(["run", str(tmp_path / "own.yaml")]) == 2
    error = capsys.readouterr().err
    assert "network.heads=4 is not valid: network.pretrained has num_attention_heads=2" in error
    assert error.strip().count("\n") == 0
