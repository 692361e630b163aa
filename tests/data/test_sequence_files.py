"""GLUE's tables and CoNLL's columns become the sequences they hold."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from heterofl_ray.data.intake.importing import import_data
from heterofl_ray.data.intake.readers import sentences
from heterofl_ray.data.intake.readers.contract import Options
from heterofl_ray.data.inventory import summary
from heterofl_ray.data.sequence_draft import IGNORED
from heterofl_ray.data.store import Dataset, Split

NONE = Options()
Files = Callable[[Mapping[str, bytes]], Path]


def words(dataset: Dataset, split: Split, row: int) -> str:
    vocabulary = dataset.vocabulary()
    length = int(split.columns["length"][row])
    assert all(vocabulary[n] == "<padding>" for n in split.tokens[row, length:].tolist())
    return " ".join(vocabulary[n] for n in split.tokens[row, :length].tolist())


def table(header: str, *rows: str) -> bytes:
    lines = ([header] if header else []) + list(rows)
    return ("\n".join(lines).replace("|", "\t") + "\n").encode()


GLUE = {
    "mrpc": (
        "Quality|#1 ID|#2 ID|#1 String|#2 String",
        "1|7|8|A cat sat.|The cat sat.",
        "0|7|9|A cat sat.|Dogs bark.",
    ),
    "rte": (
        "index|sentence1|sentence2|label",
        "0|A cat sat.|The cat sat.|entailment",
        "1|A cat sat.|Dogs bark.|not_entailment",
    ),
    "qnli": (
        "index|question|sentence|label",
        "0|A cat sat.|The cat sat.|entailment",
        "1|A cat sat.|Dogs bark.|not_entailment",
    ),
    "qqp": (
        "id|qid1|qid2|question1|question2|is_duplicate",
        "0|1|2|A cat sat.|The cat sat.|1",
        "1|1|3|A cat sat.|Dogs bark.|0",
    ),
    "mnli": (
        "index|promptID|genre|sentence1|sentence2|label1|gold_label",
        "0|1|fiction|A cat sat.|The cat sat.|neutral|entailment",
        "1|1|fiction|A cat sat.|Dogs bark.|neutral|neutral",
    ),
}


@pytest.mark.parametrize("task", GLUE)
def test_pairs_of_sentences(task: str, root: Path, files: Files) -> None:
    content = table(*GLUE[task])
    dev = "dev_matched.tsv" if task == "mnli" else "dev.tsv"
    folder = files({"train.tsv": content, dev: content, "test.tsv": b"index\tunlabelled\n0\tx\n"})
    dataset = import_data(root, folder, "mine", NONE)
    info = dataset.info
    assert (info.kind, info.target, info.metric) == ("sequences", "class", "accuracy")
    assert (info.train, info.test) == (2, 2)
    assert words(dataset, dataset.train, 0) == "<start> a cat sat . <between> the cat sat . <end>"
    assert words(dataset, dataset.test, 1) == "<start> a cat sat . <between> dogs bark . <end>"
    assert dataset.train.columns["first"].tolist() == [6, 6]
    first, second = (info.classes[label] for label in dataset.train.labels.tolist())
    assert first in ("1", "entailment")
    assert second in ("0", "not_entailment", "neutral")
    assert info.shape == (11,)


def test_single_sentences_as_sst2_has_them(root: Path, files: Files) -> None:
    folder = files(
        {
            "SST-2/train.tsv": table("sentence|label", 'a "fine" film|1', "dull |0", "fine|1"),
            "SST-2/dev.tsv": table("sentence|label", "a dull film|0"),
        }
    )
    dataset = import_data(root, folder, "sst2", NONE)  # the known name takes it too
    assert words(dataset, dataset.train, 0) == '<start> a " fine " film <end>'
    assert dataset.train.columns["first"].tolist() == dataset.train.columns["length"].tolist()
    assert dataset.train.labels.tolist() == [1, 0, 1]
    assert summary(dataset.info) | {"bytes": 0, "origin": ""} == {
        "name": "sst2", "train": 3, "test": 1, "vocabulary": 10, "classes": 2,
        "class_names": ["0", "1"], "target": "class", "metric": "accuracy", "shape": [7],
        "bytes": 0, "task": "sequences", "clients": 0, "super_classes": 0, "origin": "",
    }  # fmt: skip


def test_cola_has_no_header(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "CoLA.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("CoLA/train.tsv", table("", "gj04|1||They sat.", "gj04|0|*|Sat they the."))
        archive.writestr("CoLA/dev.tsv", table("", "gj04|1||They sat."))
        archive.writestr("CoLA/original/raw/in_domain_train.tsv", "x")
    dataset = import_data(root, path, "mine", NONE)
    assert dataset.info.metric == "matthews"
    assert dataset.train.labels.tolist() == [1, 0]
    assert words(dataset, dataset.train, 1) == "<start> sat they the . <end>"


def test_stsb_has_numbers(root: Path, files: Files) -> None:
    header = "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score"
    row = "{}|a|b|c|d|e|f|A cat.|A dog.|{}"
    folder = files(
        {
            "train.tsv": table(header, row.format(0, "5.000"), row.format(1, "2.5")),
            "dev.tsv": table(header, row.format(0, "0.75")),
        }
    )
    dataset = import_data(root, folder, "mine", NONE)
    assert (dataset.info.target, dataset.info.metric) == ("number", "pearson")
    assert (dataset.info.outputs, dataset.info.classes) == (1, ())
    assert dataset.train.columns["number"].tolist() == [5.0, 2.5]
    assert dataset.test.columns["number"].tolist() == [0.75]


def test_one_file_gives_every_fifth_of_each_class_for_testing(root: Path, files: Files) -> None:
    rows = [f"text number {n}|{'no' if n % 2 else 'yes'}" for n in range(20)]
    path = files({"own.tsv": table("text|mood", *rows)}) / "own.tsv"
    dataset = import_data(root, path, "mine", Options(label="mood"))
    assert (dataset.info.train, dataset.info.test) == (16, 4)
    assert dataset.info.classes == ("no", "yes")
    # the fifth and the tenth of each class: texts number 8, 9, 18 and 19, in this order
    assert dataset.test.labels.tolist() == [1, 0, 1, 0]
    held = {word for row in range(16) for word in words(dataset, dataset.train, row).split()}
    assert {str(n) for n in range(20)} - held == {"8", "9", "18", "19"}


def test_long_texts_are_cut_the_longer_one_first(root: Path, files: Files) -> None:
    header = "sentence1|sentence2|label"
    long, short = " ".join(f"w{n}" for n in range(20)), "a b"
    rows = (f"{long}|{short}|0", f"{short}|{long}|0", f"{long}|{long}|1")
    folder = files({"train.tsv": table(header, *rows), "dev.tsv": table(header, *rows)})
    dataset = import_data(root, folder, "mine", Options(length=12))
    assert dataset.info.shape == (12,)
    one, two, three = (words(dataset, dataset.train, row) for row in range(3))
    seven = " ".join(f"w{n}" for n in range(7))
    assert one == f"<start> {seven} <between> a b <end>"
    assert two == f"<start> a b <between> {seven} <end>"
    assert three == "<start> w0 w1 w2 w3 w4 <between> w0 w1 w2 w3 <end>"


def test_one_broken_line_in_a_thousand_is_left_out(
    root: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QQP's published files have such lines."""
    said: list[str] = []
    monkeypatch.setattr(sentences.logger, "warning", lambda text, *args: said.append(text % args))
    rows = [f"a question|another|{n % 2}" for n in range(999)]
    header = "question1|question2|is_duplicate"
    folder = files({"train.tsv": table(header, *rows, "broken"), "dev.tsv": table(header, *rows)})
    assert import_data(root, folder, "mine", NONE).info.train == 999
    assert said == ["train.tsv: 1 broken lines are left out"]


CONLL = b"""-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER

It PRP B-NP O
rained VBD B-VP O
"""


@pytest.mark.parametrize(
    "names", [("train.txt", "test.txt"), ("eng.train", "eng.testb"), ("train.tsv", "devel.tsv")]
)
def test_tagged_words(names: tuple[str, str], root: Path, files: Files) -> None:
    folder = files({names[0]: CONLL, names[1]: b"Peter B-PER\nBlackmore I-PER\n"})
    dataset = import_data(root, folder, "mine", NONE)
    info = dataset.info
    assert (info.target, info.metric) == ("tags", "f1")
    assert info.classes == ("O", "B-ORG", "I-ORG", "B-PER", "I-PER")
    assert words(dataset, dataset.train, 0) == "<start> EU rejects Peter Blackburn <end>"
    no = IGNORED
    assert dataset.train.columns["tag"].tolist() == [[no, 1, 0, 3, 4, no], [no, 0, 0, no, no, no]]
    assert words(dataset, dataset.test, 0) == "<start> Peter <unknown> <end>"
    assert info.group_names == ("none", "ORG", "PER")
    assert dataset.train.labels.tolist() == [1, 0]
    assert dataset.test.labels.tolist() == [2]


def test_plain_text_is_still_plain_text(root: Path, files: Files) -> None:
    folder = files({"train.txt": b"so it goes O\nand B-A so on\n" * 20, "test.txt": b"so it goes"})
    assert import_data(root, folder, "mine", NONE).info.kind == "text"


def test_folders_are_clients(root: Path, files: Files) -> None:
    folder = files(
        {
            "ade/train.conll": b"pain B-X\n\nrest O\n",
            "ade/test.conll": b"pain B-X\n",
            "cadec/train.conll": b"ache B-Y\n",
            "cadec/test.conll": b"ache B-Y\n",
        }
    )
    dataset = import_data(root, folder, "mine", NONE)
    assert dataset.info.clients == 2
    assert dataset.train.clients.tolist() == [0, 0, 1]
    assert dataset.test.clients.tolist() == [0, 1]


def test_word_pieces_have_the_words_tag_on_their_first(root: Path, files: Files) -> None:
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "black", "##burn", "sat", "peter", "."]
    folder = files(
        {
            "train.conll": b"Peter B-PER\nBlackburn I-PER\nsat O\n",
            "test.conll": b"Peter B-PER\n",
            "bert/vocab.txt": "\n".join(vocabulary).encode(),
        }
    )
    dataset = import_data(root, folder, "mine", Options(tokenizer=folder / "bert"))
    assert dataset.info.vocabulary == len(vocabulary)
    assert words_of(dataset.train.tokens[0].tolist(), vocabulary) == (
        "[CLS] peter black ##burn sat [SEP]"
    )
    no = IGNORED
    assert dataset.train.columns["tag"][0].tolist() == [no, 1, 2, no, 0, no]
    assert dataset.train.columns["length"].tolist() == [6]


def words_of(numbers: list[int], vocabulary: list[str]) -> str:
    return " ".join(vocabulary[number] for number in numbers)


# ---- files that are wrong ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        ({"train.tsv": b""}, r"train.tsv has no examples"),
        ({"train.tsv": b"sentence\tlabel\n"}, r"train.tsv has no examples"),
        ({"train.tsv": b"one\ttwo\n1\t2\n"}, "train.tsv has the columns one, two; one of these"),
        ({"train.tsv": b"sentence\tlabel\na\t1\nb\n"}, "line 3 has 1 columns, the header 2"),
        ({"train.tsv": b"sentence\tlabel\n\xff\t1\n"}, "train.tsv is not UTF-8 text: byte 15"),
        ({"dev.tsv": b"sentence\tlabel\na\t1\n"}, "has no train.tsv"),
        (
            {"train.tsv": b"sentence\tlabel\na\t1\n", "dev.tsv": b"text\tlabel\na\t1\n"},
            "dev.tsv has no columns sentence, label, which the training part has",
        ),
        (
            {"train.tsv": b"sentence\tlabel\na\t1\n", "dev.tsv": b"sentence\tlabel\na\t2\n"},
            "a class that the training part lacks: 2",
        ),
        (
            {"train.tsv": b"sentence1\tsentence2\tscore\na\tb\tfive\n"},
            "the training part has 'five' where a number is needed",
        ),
        ({"train.tsv": b"sentence\tlabel\na\t1\nb\t0\n"}, "no class has 5 examples"),
        ({"train.conll": b"word\n"}, "train.conll: line 1 must be a word and its tag .*'word'"),
        ({"train.conll": b"a O\nb S-PER\n"}, "line 2 must be a word and its tag"),
        ({"train.conll": b"\n\n"}, "train.conll has no tagged words"),
        ({"test.conll": b"a O\n"}, "has no tagged words for training"),
        (
            {"train.conll": b"a O\n", "test.conll": b"a B-X\n"},
            "the test part has a tag that the training part lacks: B-X",
        ),
    ],
)
def test_wrong_files(
    contents: dict[str, bytes], says: str, files: Files, refused: Callable[..., None]
) -> None:
    if "where a number" in says:
        contents = {**contents, "dev.tsv": contents["train.tsv"]}
    refused(files(contents), says)


def test_wrong_options(files: Files, refused: Callable[..., None], tmp_path: Path) -> None:
    folder = files({"train.tsv": b"sentence\tlabel\n" + b"a\t1\n" * 9})
    refused(folder, "no column 'mood'; it has sentence, label", label="mood")
    refused(folder, "--size means nothing for sentences", size=(4, 4))
    refused(folder, "nowhere does not exist", tokenizer=tmp_path / "nowhere")
    refused(folder, "has no tokenizer: a folder with vocab.txt or tokenizer.json", tokenizer=folder)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n")
    refused(folder, r"vocab.txt has no token \[SEP\]", tokenizer=folder)
