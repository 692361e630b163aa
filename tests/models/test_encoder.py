"""The text encoder: what it computes, how it is cut, what it costs, and weights from a folder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from heterofl_ray.errors import ConfigError
from heterofl_ray.models import registry
from heterofl_ray.models.costs import model_costs
from heterofl_ray.models.layers import assign, parameters_of
from heterofl_ray.models.spec import ModelSpec
from heterofl_ray.setting_groups import NetworkConfig
from heterofl_ray.submodels.plan import SubmodelPlan
from heterofl_ray.submodels.selectors import leading

WORDS, LENGTH, WIDTH, HEADS, INNER, LAYERS = 23, 9, 8, 2, 12, 3
NETWORK = NetworkConfig(
    embedding=WIDTH, heads=HEADS, feedforward=INNER, layers=LAYERS, norm_eps=1e-12
)


def spec(outputs: int = 3, per_token: bool = False, network: NetworkConfig = NETWORK) -> ModelSpec:
    return ModelSpec("encoder", (2, LENGTH), outputs, network, "ln", WORDS, per_token)


def inputs(lengths: tuple[int, ...] = (9, 6, 2), first: int = 4) -> Tensor:
    """Random tokens; texts of these lengths, of which the first part has ``first`` tokens."""
    places = torch.arange(LENGTH)
    parts = torch.stack([(places < n).long() + ((places >= first) & (places < n)) for n in lengths])
    tokens = torch.randint(0, WORDS, parts.shape, generator=torch.Generator().manual_seed(1))
    return torch.stack([tokens, parts], 1)


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("rate", [1.0, 0.7, 0.5, 0.25])
def test_builds_and_computes_at_any_rate(rate: float, per_token: bool) -> None:
    model = registry.build(spec(per_token=per_token), rate).eval()
    logits = model(inputs())
    assert logits.shape == ((3, LENGTH, 3) if per_token else (3, 3))
    assert torch.isfinite(logits).all()


def test_every_width_is_a_slice_of_the_whole() -> None:
    outer, inner = registry.layout(spec(), 1.0), registry.layout(spec(), 0.5)
    plan = SubmodelPlan.of(outer, leading(outer, inner))
    whole = parameters_of(registry.build(spec(), 1.0))
    narrow = registry.build(spec(), 0.5)
    piece = plan.extract(whole)
    assert {name: tuple(tensor.shape) for name, tensor in piece.items()} == {
        name: tuple(tensor.shape) for name, tensor in narrow.named_parameters()
    }
    # two heads of four channels each keep their first two
    assert torch.equal(
        piece["layers.0.attention.query.weight"],
        whole["layers.0.attention.query.weight"][[0, 1, 4, 5], :4],
    )
    back = {name: torch.zeros_like(tensor) for name, tensor in whole.items()}
    plan.scatter(back, piece)
    again = plan.extract(back)
    assert all(torch.equal(again[name], piece[name]) for name in piece)


@pytest.mark.parametrize("per_token", [False, True])
def test_padding_changes_nothing(per_token: bool) -> None:
    model = registry.build(spec(per_token=per_token), 1.0).eval().double()
    given = inputs()
    other = given.clone()
    other[:, 0][given[:, 1] == 0] = 5  # other tokens where there is padding
    logits, again = model(given), model(other)
    seen = given[:, 1] > 0
    if per_token:
        assert torch.equal(logits[seen], again[seen])
    else:
        assert torch.equal(logits, again)
    shorter = model(given[1:, :, :6])
    whole = logits[1:, :6] if per_token else logits[1:]
    counts = seen[1:, :6] if per_token else slice(None)
    assert torch.allclose(shorter[counts], whole[counts], atol=1e-12)


def test_parts_of_a_pair_are_told_apart() -> None:
    model = registry.build(spec(), 1.0).eval()
    assert not torch.allclose(model(inputs(first=4)), model(inputs(first=9)))


# ---- weights from a folder --------------------------------------------------------------------

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "layer_norm_eps": 1e-12,
    "vocab_size": WORDS,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "pad_token_id": 0,
}
MakeFolder = Callable[..., Path]


def their_shapes(positions: int, parts: int) -> dict[str, tuple[int, ...]]:
    """Every tensor of a BERT's encoder, by the name that Hugging Face gives it."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (WORDS, WIDTH),
        "embeddings.position_embeddings.weight": (positions, WIDTH),
        "embeddings.token_type_embeddings.weight": (parts, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
        "pooler.dense.weight": (WIDTH, WIDTH),
        "pooler.dense.bias": (WIDTH,),
    }
    for number in range(LAYERS):
        for layer, rows, columns in (
            ("attention.self.query", WIDTH, WIDTH),
            ("attention.self.key", WIDTH, WIDTH),
            ("attention.self.value", WIDTH, WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", INNER, WIDTH),
            ("output.dense", WIDTH, INNER),
        ):
            shapes[f"encoder.layer.{number}.{layer}.weight"] = (rows, columns)
            shapes[f"encoder.layer.{number}.{layer}.bias"] = (rows,)
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{number}.{norm}.weight"] = (WIDTH,)
            shapes[f"encoder.layer.{number}.{norm}.bias"] = (WIDTH,)
    return shapes


@pytest.fixture
def folder(tmp_path: Path) -> MakeFolder:
    """Makes a folder of random weights: a BERT's, or with other entries of config.json."""

    def make(prefix: str = "bert.", leave_out: str = "", **changed: Any) -> Path:
        config = {**CONFIG, **changed}
        random = torch.Generator().manual_seed(3)
        shapes = their_shapes(config["max_position_embeddings"], config["type_vocab_size"])
        tensors = {
            prefix + name: torch.randn(shape, generator=random)
            for name, shape in shapes.items()
            if not leave_out or leave_out not in name
        }
        place = tmp_path / "weights"
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text(json.dumps(config))
        safetensors.torch.save_file(tensors, place / "model.safetensors")
        return place

    return make


def with_weights(place: Path, **changed: Any) -> ModelSpec:
    return spec(network=replace(NETWORK, pretrained=str(place), **changed))


def naive(tensors: dict[str, Tensor], given: Tensor, offset: int) -> Tensor:
    """BERT as its paper has it, position by position and head by head, from the file's tensors."""

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean()
        unit = centred / math.sqrt(float((centred**2).mean()) + 1e-12)
        return unit * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def dense(x: Tensor, name: str) -> Tensor:
        return tensors[f"{name}.weight"] @ x + tensors[f"{name}.bias"]

    def gelu(x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))

    pooled = []
    for tokens, parts in given.tolist():
        length = sum(part > 0 for part in parts)
        kinds = tensors["embeddings.token_type_embeddings.weight"]
        stream = [
            norm(
                tensors["embeddings.word_embeddings.weight"][tokens[place]]
                + tensors["embeddings.position_embeddings.weight"][place + offset]
                + kinds[min(parts[place] - 1, len(kinds) - 1)],
                "embeddings.LayerNorm",
            )
            for place in range(length)
        ]
        for number in range(LAYERS):
            layer = f"encoder.layer.{number}"
            q, k, v = (
                [dense(x, f"{layer}.attention.self.{name}").view(HEADS, -1) for x in stream]
                for name in ("query", "key", "value")
            )
            after = []
            for place, x in enumerate(stream):
                heads = []
                for head in range(HEADS):
                    scores = torch.stack([q[place][head] @ key[head] for key in k])
                    weights = (scores / math.sqrt(WIDTH / HEADS)).softmax(0)
                    heads.append(sum(w * value[head] for w, value in zip(weights, v, strict=True)))
                mixed = dense(torch.cat(heads), f"{layer}.attention.output.dense")
                middle = norm(x + mixed, f"{layer}.attention.output.LayerNorm")
                inner = gelu(dense(middle, f"{layer}.intermediate.dense"))
                out = middle + dense(inner, f"{layer}.output.dense")
                after.append(norm(out, f"{layer}.output.LayerNorm"))
            stream = after
        pooled.append(torch.tanh(dense(stream[0], "pooler.dense")))
    return torch.stack(pooled)


@pytest.mark.parametrize(
    ("kind", "changed", "offset"),
    [
        ("bert.", {}, 0),
        ("", {}, 0),  # saved without a head
        ("roberta.", {"model_type": "roberta", "pad_token_id": 1, "type_vocab_size": 1}, 2),
    ],
)
def test_weights_from_a_folder_compute_what_bert_computes(
    folder: MakeFolder, kind: str, changed: dict[str, Any], offset: int
) -> None:
    place = folder(kind, **changed)
    model = registry.initial(with_weights(place), 1.0).double().eval()
    file = safetensors.torch.load_file(place / "model.safetensors")
    tensors = {name.removeprefix(kind): tensor.double() for name, tensor in file.items()}
    given = inputs()
    tokens, parts = given.unbind(1)
    found = torch.tanh(model.pooler(model.hidden(tokens, parts)[:, 0]))
    assert torch.allclose(found, naive(tensors, given, offset), atol=1e-12, rtol=1e-10)


def test_old_names_of_norms_and_a_file_without_a_pooler(folder: MakeFolder) -> None:
    place = folder(leave_out="pooler")
    file = safetensors.torch.load_file(place / "model.safetensors")
    wanted = registry.initial(with_weights(place), 1.0)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("Norm.bias", "Norm.beta"): t
        for name, t in file.items()
    }
    safetensors.torch.save_file(old, place / "model.safetensors")
    torch.manual_seed(0)
    fresh = parameters_of(registry.build(spec(), 1.0))
    torch.manual_seed(0)
    found = parameters_of(registry.initial(with_weights(place), 1.0))
    assert torch.equal(found["pooler.weight"], fresh["pooler.weight"])
    assert torch.equal(found["norm.weight"], parameters_of(wanted)["norm.weight"])


def test_a_deeper_file_gives_its_bottom_layers(folder: MakeFolder) -> None:
    place = folder()
    whole = parameters_of(registry.initial(with_weights(place), 1.0))
    model = registry.initial(with_weights(place, layers=2), 1.0)
    mine = {n: t for n, t in parameters_of(model).items() if n.startswith("layers.1.")}
    assert mine
    assert all(torch.equal(tensor, whole[name]) for name, tensor in mine.items())


@pytest.mark.parametrize(
    ("files", "settings", "says"),
    [
        ({"model_type": "gpt2"}, {}, "model_type 'gpt2'; known: bert, roberta"),
        ({"hidden_act": "relu"}, {}, "hidden_act 'relu'"),
        ({}, {"embedding": 16}, "network.embedding=16 is not valid: .*hidden_size=8"),
        ({}, {"heads": 4}, "network.heads=4 is not valid: .*num_attention_heads=2"),
        ({}, {"norm_eps": 1e-5}, "network.norm_eps=1e-05 is not valid: .*layer_norm_eps=1e-12"),
        ({}, {"layers": 4}, "network.layers=4 is not valid: network.pretrained has 3"),
        ({"vocab_size": 30}, {}, "knows 30 words and the data has 23; import the data with --tok"),
        ({"max_position_embeddings": 5}, {}, "5 positions and the data's sequences 9; .*--length"),
        ({"leave_out": "layer.1.output.dense"}, {}, "has no tensor 'encoder.layer.1.output.dense"),
    ],
)
def test_a_folder_that_does_not_fit(
    folder: MakeFolder, files: dict[str, Any], settings: dict[str, Any], says: str
) -> None:
    place = folder(**files)
    with pytest.raises(ConfigError, match=says) as caught:
        registry.initial(with_weights(place, **settings), 1.0)
    assert "\n" not in str(caught.value)


def test_folders_without_what_is_needed(folder: MakeFolder, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config.json cannot be read: No such file"):
        registry.initial(with_weights(tmp_path / "nowhere"), 1.0)
    place = folder()
    with pytest.raises(ConfigError, match=r"as wide as level a, but the global model has rate 0.5"):
        registry.initial(with_weights(place), 0.5)
    (place / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ConfigError, match=r"model.safetensors cannot be read"):
        registry.initial(with_weights(place), 1.0)
    (place / "config.json").write_text("[")
    with pytest.raises(ConfigError, match=r"config.json is not a JSON object"):
        registry.initial(with_weights(place), 1.0)


# ---- costs ------------------------------------------------------------------------------------


def test_costs_by_hand() -> None:
    """One sequence of 9 tokens through 3 layers of width 8."""
    costs = model_costs(spec(), 1.0)
    embeddings = (WORDS + LENGTH + 2) * WIDTH + 2 * WIDTH
    attention = 4 * (WIDTH * WIDTH + WIDTH)
    feedforward = WIDTH * INNER + INNER + INNER * WIDTH + WIDTH
    layer = attention + feedforward + 2 * 2 * WIDTH
    head = WIDTH * WIDTH + WIDTH + WIDTH * 3 + 3
    assert costs.parameters == embeddings + LAYERS * layer + head
    products = LENGTH * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER)
    mixing = 2 * LENGTH * LENGTH * WIDTH  # scores, and sums of values
    assert costs.flops == 2 * (LAYERS * (products + mixing) + WIDTH * WIDTH + 3 * WIDTH)


def test_bert_base_has_its_published_number_of_parameters() -> None:
    network = NetworkConfig(embedding=768, heads=12, feedforward=3072, layers=12)
    base = ModelSpec("encoder", (2, 512), 2, network, "ln", 30522)
    assert model_costs(base, 1.0).parameters == 109_482_240 + 2 * 768 + 2


def test_other_norms_are_refused() -> None:
    with pytest.raises(ConfigError, match="layer norms"):
        registry.build(spec(network=replace(NETWORK, norm="sbn")), 1.0)


def test_parameters_can_be_put_in() -> None:
    one, two = (registry.build(spec(), 1.0).eval() for _ in range(2))
    assign(two, parameters_of(one))
    assert torch.equal(one(inputs()), two(inputs()))
