"""Each way in which files are wrong: one line that says so, nothing left behind, then a cure."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from heterofl_ray.data.intake import archives, pixels
from heterofl_ray.data.intake.importing import import_data
from heterofl_ray.data.intake.readers import folders
from heterofl_ray.data.intake.readers.contract import Options
from heterofl_ray.errors import DataError

Refused = Callable[..., None]
Files = Callable[..., Path]
Picture = Callable[..., bytes]


def test_truncated_gzip(root: Path, idx: Callable[..., Path], refused: Refused) -> None:
    folder = idx()
    path = folder / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(folder, "train-images-idx3-ubyte.gz is damaged")
    path.write_bytes(whole)
    assert import_data(root, folder, "mine", Options()).info.train == 8


def test_labels_and_images_that_disagree_in_number(
    idx: Callable[..., Path], idx_bytes: Callable[..., bytes], refused: Refused
) -> None:
    folder = idx(packed=False)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(3)))
    refused(folder, "t10k-images-idx3-ubyte has 4 images, but t10k-labels-idx1-ubyte has 3 labels")


def test_idx_header_that_claims_more_than_the_file_holds(
    idx: Callable[..., Path], refused: Refused
) -> None:
    folder = idx()
    claim = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**31, 2**31, 2**31) + bytes(100)
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(claim))
    refused(folder, f"train-images-idx3-ubyte claims {2**93} bytes but holds 100")


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\x08\x01\0\0\0\x01\0", b"GIF89a and much more text"]
)
def test_a_file_that_is_no_idx(content: bytes, idx: Callable[..., Path], refused: Refused) -> None:
    folder = idx(packed=False)
    (folder / "train-images-idx3-ubyte").write_bytes(content)
    refused(folder, "train-images-idx3-ubyte is not an IDX file of bytes with 3 axes")


def test_a_missing_idx_file(idx: Callable[..., Path], refused: Refused) -> None:
    folder = idx()
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    refused(folder, "lacks t10k-labels-idx1-ubyte")


def test_the_same_file_twice(tmp_path: Path, idx: Callable[..., Path], refused: Refused) -> None:
    idx("both/one")
    idx("both/two")
    refused(tmp_path / "both", "twice: one/.* and two/")


def test_an_image_of_another_size(
    root: Path, files: Files, picture: Picture, refused: Refused
) -> None:
    folder = files({"train/a/1.png": picture(size=(4, 6)), "train/a/2.png": picture(size=(5, 6))})
    refused(folder, r"train/a/2.png is 5x6, but train/a/1.png is 4x6; --size 4x6")
    files({"train/a/2.png": picture(), "test/a/1.png": picture()})
    assert import_data(root, folder, "mine", Options()).info.train == 2


def test_a_test_part_of_another_size(files: Files, picture: Picture, refused: Refused) -> None:
    folder = files({"train/a/1.png": picture(), "other/a/1.png": picture(size=(9, 9))})
    refused(folder / "train", r"\(1, 9, 9\), but .* \(1, 4, 6\)", test=folder / "other")


def test_a_file_that_is_no_image(files: Files, refused: Refused) -> None:
    refused(files({"train/a/1.png": b"hello"}), "train/a/1.png is not an image of a known format")


def test_a_truncated_image(files: Files, picture: Picture, refused: Refused) -> None:
    content = picture((1, 2, 3), (64, 64), format="JPEG")
    refused(files({"train/a/1.jpg": content[: len(content) // 2]}), "1.jpg is not a readable image")


def test_an_image_of_16_bits(files: Files, picture: Picture, refused: Refused) -> None:
    refused(files({"a/1.png": picture(900, mode="I;16")}), "1.png has more than 8 bits a channel")


def test_a_huge_image(files: Files, picture: Picture, refused: Refused) -> None:
    content = picture(0, (8193, 8192), mode="1")
    refused(files({"train/a/1.png": content}), "1.png is 8193x8192: over 64 megapixels")


def test_an_image_past_the_image_librarys_own_limit(
    files: Files, picture: Picture, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files({"train/a/1.png": picture()})
    for limit in (20, 10):  # 24 pixels: its warning, then its error
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        refused(folder, "1.png is over 64 megapixels")
    assert pixels.LARGEST == 64 * 1024**2


def test_class_folders_in_test_that_train_lacks(
    files: Files, picture: Picture, refused: Refused
) -> None:
    folder = files(
        {"train/a/1.png": picture(), "test/a/1.png": picture(), "test/b/1.png": picture()}
    )
    refused(folder, "the test part has a class that the training part lacks: b")


def test_images_in_no_class_folder(files: Files, picture: Picture, refused: Refused) -> None:
    refused(files({"1.png": picture(), "2.png": picture()}), "1.png lies in no class folder")
    refused(files({"train/1.png": picture(), "train/a/1.png": picture()}), "no class folder")


def test_too_few_images_to_split(files: Files, picture: Picture, refused: Refused) -> None:
    refused(files({f"a/{n}.png": picture() for n in range(4)}), "no class has 5 examples")


def test_an_empty_folder(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "holds nothing that can be read")


def test_a_path_that_is_not_there(tmp_path: Path, refused: Refused) -> None:
    refused(tmp_path / "nowhere", "nowhere does not exist")
    (tmp_path / "a.txt").write_text("a b")
    refused(tmp_path / "a.txt", "elsewhere does not exist", test=tmp_path / "elsewhere")


def test_a_file_of_no_known_format(files: Files, refused: Refused) -> None:
    refused(files({"x.pkl": b"\x80\x04."}) / "x.pkl", "x.pkl is of no known format")


@pytest.mark.parametrize("name", ["../evil.png", "/evil.png", "a/../../evil.png", "..\\evil.png"])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_archives_whose_members_lead_outside(
    kind: str, name: str, tmp_path: Path, picture: Picture, refused: Refused
) -> None:
    path = tmp_path / f"x.{kind}"
    content = picture()
    if kind == "tar":
        with tarfile.open(path, "w") as archive:
            for inner in ("train/a/1.png", name):
                member = tarfile.TarInfo(inner)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("train/a/1.png", content)
            archive.writestr(name, content)
    refused(path, "leads outside the archive")
    assert not (tmp_path.parent / "evil.png").exists()


@pytest.mark.parametrize("ending", [".tar.gz", ".tar.xz", ".zip", ".tar"])
def test_damaged_archives(ending: str, tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / f"x{ending}"
    path.write_bytes(b"this is no archive at all, but long enough for a header " * 20)
    refused(path, f"x{ending} is damaged")


def test_a_truncated_archive(tmp_path: Path, picture: Picture, refused: Refused) -> None:
    path = tmp_path / "x.tar.xz"
    content = np.random.default_rng(0).bytes(50_000)
    with tarfile.open(path, "w:xz") as archive:
        for name in ("a/1.png", "a/2.png"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    path.write_bytes(path.read_bytes()[:30_000])
    refused(path, "is damaged|cannot be read|not a readable image")


def test_a_member_that_unpacks_without_end(
    idx: Callable[..., Path], refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = idx()
    monkeypatch.setattr(archives, "LARGEST_FILE", 5_000)
    refused(folder, "train-images-idx3-ubyte.gz unpacks to more than")


def test_a_member_too_large_for_an_image(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/1.png", bytes(5_001))
    monkeypatch.setattr(folders, "_LARGEST", 5_000)
    refused(tmp_path / "x.zip", "a/1.png has 5001 bytes, over 5000")


def test_text_that_is_not_utf8(root: Path, files: Files, refused: Refused) -> None:
    folder = files({"train.txt": b"gr\xfc\xdfe aus K\xf6ln\n", "test.txt": b"a\n"})
    refused(folder, "train.txt is not UTF-8 text: byte 2")
    files({"train.txt": "grüße aus Köln\n".encode()})
    assert import_data(root, folder, "mine", Options()).vocabulary()[1] == "grüße"


def test_text_without_words(files: Files, refused: Refused) -> None:
    refused(files({"train.txt": b"\n\n", "test.txt": b"a\n"}), "train.txt has no words")
    refused(files({"train.txt": b"", "test.txt": b"a\n"}), "train.txt has no words")


def test_text_without_a_training_part(files: Files, refused: Refused) -> None:
    refused(files({"test.txt": b"a", "valid.txt": b"b"}), "no text for training.*--test TEST_FILE")


def leaf(users: dict[str, int], **changes: Any) -> bytes:
    data = {user: {"x": [[0.5] * 784] * count, "y": [3] * count} for user, count in users.items()}
    values = {"users": list(users), "num_samples": list(users.values()), "user_data": data}
    return json.dumps(values | changes).encode()


def test_a_writer_without_samples(root: Path, files: Files, refused: Refused) -> None:
    folder = files({"train/a.json": leaf({"f1": 2, "f2": 0}), "test/a.json": leaf({"f1": 1})})
    refused(folder, "train/a.json: writer f2 has no samples")
    files({"train/a.json": leaf({"f1": 2, "f2": 1})})
    assert import_data(root, folder, "mine", Options()).info.clients == 2


def test_a_writer_in_test_that_train_lacks(files: Files, refused: Refused) -> None:
    folder = files({"train/a.json": leaf({"f1": 2}), "test/a.json": leaf({"f9": 1})})
    refused(folder, "the test part has a client that the training part lacks: f9")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "not a LEAF file"),
        (b"[1]", "not a LEAF file"),
        (leaf({"f1": 1}, user_data={}), "not a LEAF file"),
        (leaf({"f1": 1}, user_data={"f1": {"x": [[0.5] * 784], "y": [1, 2]}}), "for 2 labels"),
        (leaf({"f1": 1}, user_data={"f1": {"x": [[0.5] * 784], "y": [62]}}), "outside 0 to 61"),
        (leaf({"f1": 1}, user_data={"f1": {"x": [[255.0] * 784], "y": [1]}}), "outside 0 to 1"),
    ],
)
def test_wrong_leaf_files(content: bytes, says: str, files: Files, refused: Refused) -> None:
    refused(files({"train/a.json": content}), says)


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_damaged_npz(tmp_path: Path, refused: Refused) -> None:
    whole = npz(tmp_path / "x.npz", x=np.zeros((10, 4, 4)), y=np.zeros(10)).read_bytes()
    (tmp_path / "x.npz").write_bytes(whole[:-40])
    refused(tmp_path / "x.npz", "x.npz is not a readable .npz file")
    (tmp_path / "x.npz").write_bytes(whole.replace(b"NUMPY", b"NUMBY"))
    refused(tmp_path / "x.npz", "x.npz is not a readable .npz file")


def test_npz_with_pickles_is_never_unpickled(tmp_path: Path, refused: Refused) -> None:
    path = npz(tmp_path / "x.npz", x=np.array([{"a": 1}], dtype=object), y=[0])
    refused(path, "x.npz is not a readable .npz file: Object arrays cannot be loaded")


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"a": [1]}, "has no array 'train_x'; it has a"),
        ({"x": np.zeros((5, 4, 4))}, "has no array 'y'"),
        ({"x": np.zeros((5, 4, 4)), "y": np.zeros(4)}, "5 examples but 4 labels"),
        ({"x": np.zeros((5, 4, 4)), "y": np.zeros((5, 2))}, r"array of shape \(5, 2\) as labels"),
        ({"x": np.zeros((5, 4, 4)), "y": np.full(5, 0.5)}, "neither whole numbers nor texts"),
        ({"x": np.full((5, 4, 4), np.nan), "y": np.zeros(5)}, "not finite"),
        ({"x": np.zeros((5, 4, 4, 2)), "y": np.zeros(5)}, "1 or 3 channels"),
        ({"x": np.zeros(5), "y": np.zeros(5)}, "features, or images"),
        ({"x": np.zeros((0, 4, 4)), "y": np.zeros(0)}, "no examples"),
        ({"x": np.zeros((5, 4)), "y": np.zeros(5), "writer": [1, 2]}, "5 examples but 2 clients"),
    ],
)
def test_npz_with_wrong_arrays(
    arrays: dict[str, Any], says: str, tmp_path: Path, refused: Refused
) -> None:
    refused(npz(tmp_path / "x.npz", **arrays), says)


def test_damaged_parquet(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 and nothing of the sort PAR1")
    refused(path, "x.parquet cannot be read as a table")


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("a,b\n1,2\n", {}, "--label names the column of labels, one of a, b"),
        ("a,b\n1,2\n", {"label": "c"}, "has no column 'c'; it has a, b"),
        ("a,label\n1,2\n", {"client": "who"}, "has no column 'who'; it has a, label"),
        ("a,label\nx,2\n", {}, "column 'a' holds string, no numbers"),
        ("a,label\n1,2\n,3\n", {}, "column 'a' lacks 1 values"),
        ("label\n1\n", {}, "no columns beside labels"),
        ("a,label\n1,2,3\n", {}, "cannot be read as a table"),
    ],
)
def test_wrong_tables(
    text: str, options: dict[str, str], says: str, tmp_path: Path, refused: Refused
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    refused(path, says, **options)


def test_options_that_mean_nothing_here(files: Files, refused: Refused) -> None:
    refused(files({"a.txt": b"a b"}) / "a.txt", "--label means nothing for text", label="y")


def test_a_known_name_for_other_data(root: Path, files: Files, picture: Picture) -> None:
    folder = files({"train/a/1.png": picture(), "test/a/1.png": picture()})
    with pytest.raises(DataError, match="the name 'mnist' belongs to 28x28 handwritten digits"):
        import_data(root, folder, "mnist", Options())
    assert not root.exists()
