"""The layouts people have on disk become the data sets they hold."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heterofl_ray.data.intake.importing import import_data
from heterofl_ray.data.intake.readers.contract import Options
from heterofl_ray.data.store import open_dataset
from heterofl_ray.errors import DataError

NONE = Options()


def class_folders(picture: Callable[..., bytes]) -> dict[str, bytes]:
    return {
        "train/cat/b.png": picture(20),
        "train/cat/a.png": picture(10),
        "train/dog/a.png": picture(30),
        "test/cat/z.png": picture(40),
        "README.txt": b"not an image",
        "train/.DS_Store": b"\0",
    }


def tarred(contents: Mapping[str, bytes], path: Path, mode: str) -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def zipped(contents: Mapping[str, bytes], path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def check_pets(root: Path) -> None:
    dataset = open_dataset(root, "mine")
    assert dataset.info.classes == ("cat", "dog")
    assert dataset.info.shape == (1, 4, 6)
    assert dataset.train.images[:, 0, 0, 0].tolist() == [10, 20, 30]
    assert dataset.train.labels.tolist() == [0, 0, 1]
    assert dataset.test.images[:, 0, 0, 0].tolist() == [40]
    assert dataset.test.labels.tolist() == [0]


def test_class_folders(
    root: Path, files: Callable[..., Path], picture: Callable[..., bytes]
) -> None:
    folder = files(class_folders(picture))
    info = import_data(root, folder, "mine", NONE).info
    check_pets(root)
    assert (info.train, info.test, info.kind, info.origin) == (3, 1, "images", str(folder))
    # Grey 10, 20 and 30 of 255.
    assert info.mean == (round(20 / 255, 4),)
    assert info.std == (round((200 / 3) ** 0.5 / 255, 4),)
    assert not list(root.glob(".partial-*"))


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tar.xz", ".zip"])
def test_archives_give_the_same_as_the_folder(
    ending: str, root: Path, tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    contents = {f"pets/{name}": content for name, content in class_folders(picture).items()}
    path = tmp_path / f"pets{ending}"
    if ending == ".zip":
        zipped(contents, path)
    else:
        tarred(contents, path, "w:" + ending[5:])
    import_data(root, path, "mine", NONE)
    check_pets(root)


def test_every_fifth_image_of_each_class_is_for_testing(
    root: Path, files: Callable[..., Path], picture: Callable[..., bytes]
) -> None:
    folder = files(
        {f"cat/{number:02}.png": picture(number) for number in range(11)}
        | {f"dog/{number:02}.png": picture(100 + number) for number in range(5)}
    )
    dataset = import_data(root, folder, "mine", NONE)
    assert dataset.test.images[:, 0, 0, 0].tolist() == [4, 9, 104]
    assert dataset.info.train == 13


def test_class_folders_named_by_numbers_stand_in_the_order_of_numbers(
    root: Path, files: Callable[..., Path], picture: Callable[..., bytes]
) -> None:
    folder = files(
        {f"{side}/{n}/a.png": picture(n) for n in (0, 2, 10) for side in ("train", "val")}
    )
    dataset = import_data(root, folder, "mine", NONE)
    assert dataset.info.classes == ("0", "2", "10")
    assert dataset.test.labels.tolist() == dataset.train.labels[[0, 1, 2]].tolist()
    assert dict(
        zip(dataset.train.images[:, 0, 0, 0].tolist(), dataset.train.labels.tolist(), strict=True)
    ) == {0: 0, 2: 1, 10: 2}


def test_one_colour_image_makes_all_colour(
    root: Path, files: Callable[..., Path], picture: Callable[..., bytes]
) -> None:
    folder = files({"train/a/1.png": picture(7), "train/b/1.png": picture((1, 2, 3))})
    test = files({"../other/a/1.png": picture((4, 5, 6))}).parent / "other"
    dataset = import_data(root, folder, "mine", Options(test=test))
    assert dataset.info.shape == (3, 4, 6)
    assert dataset.train.images[:, :, 0, 0].tolist() == [[7, 7, 7], [1, 2, 3]]
    assert dataset.test.images[:, :, 0, 0].tolist() == [[4, 5, 6]]


def test_size_scales_images(
    root: Path, files: Callable[..., Path], picture: Callable[..., bytes]
) -> None:
    folder = files(
        {
            "train/a/1.png": picture(7, (8, 8)),
            "train/b/1.png": picture(9, (5, 3)),
            "test/b/1.png": picture(9, (2, 4)),
        }
    )
    dataset = import_data(root, folder, "mine", Options(size=(4, 2)))
    assert dataset.info.shape == (1, 4, 2)
    assert dataset.train.images.unique().tolist() == [7, 9]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("folder", ["idx", "idx/raw", "idx/MNIST/raw"])
def test_idx_files(root: Path, idx: Callable[..., Path], packed: bool, folder: str) -> None:
    place = idx(folder, packed=packed)
    dataset = import_data(root, place.parents[folder.count("/")] / "idx", "mine", NONE)
    assert (dataset.info.train, dataset.info.test, dataset.info.shape) == (8, 4, (1, 28, 28))
    assert dataset.train.images[1, 0, 0, :3].tolist() == [784 % 251, 785 % 251, 786 % 251]
    assert dataset.test.labels.tolist() == [0, 1, 0, 1]


def test_text_files(root: Path, files: Callable[..., Path]) -> None:
    folder = files(
        {
            "wiki.train.tokens": b" = A = \n\nb a\n",
            "wiki.test.tokens": b"a c\n",
            "x.valid.txt": b"b",
        }
    )
    dataset = import_data(root, folder, "mine", NONE)
    assert dataset.vocabulary() == ["<unknown>", "=", "A", "<eos>", "b", "a"]
    assert dataset.train.tokens.tolist() == [1, 2, 1, 3, 3, 4, 5, 3]
    assert dataset.test.tokens.tolist() == [5, 0, 3]
    assert dataset.info.vocabulary == 6


def test_one_text_file_gives_its_last_tenth(root: Path, files: Callable[..., Path]) -> None:
    path = files({"book.txt": b"a b c d e f g h i"}) / "book.txt"
    dataset = import_data(root, path, "mine", NONE)
    assert (dataset.info.train, dataset.info.test) == (9, 1)
    assert dataset.test.tokens.tolist() == [0]  # the only <eos>


def test_training_and_test_text_by_name(root: Path, files: Callable[..., Path]) -> None:
    folder = files({"test.txt": b"a b\n", "valid.txt": b"b c\n"})
    dataset = import_data(root, folder / "test.txt", "mine", Options(test=folder / "valid.txt"))
    assert (dataset.train.tokens.tolist(), dataset.test.tokens.tolist()) == ([1, 2, 3], [2, 0, 3])


def test_npz_with_writers(root: Path, tmp_path: Path) -> None:
    # Sorted by class, and within it by writer, as a split by position alone would not survive.
    y, writer = (grid.ravel() for grid in np.meshgrid(range(6), range(10), indexing="ij"))
    x = np.arange(60, dtype=np.uint8).repeat(4).reshape(60, 2, 2)
    path = tmp_path / "letters.npz"
    np.savez(path, x=x, y=y, writer=writer + 100, classes=np.array(list("abcdef")))
    dataset = import_data(root, path, "mine", NONE)
    info = dataset.info
    assert (info.train, info.test, info.clients) == (48, 12, 10)
    assert info.classes == tuple("abcdef")
    assert set(dataset.train.clients.tolist()) == set(range(10))
    for split in (dataset.train, dataset.test):
        number = split.images[:, 0, 0, 0].long()
        assert (split.labels == number // 10).all()
        assert (split.clients == number % 10).all()


def test_npz_in_two_parts_keeps_only_classes_there_are(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    image = np.arange(2 * 5 * 4 * 3, dtype=np.uint8).reshape(2, 5, 4, 3)
    np.savez(
        path,
        train_x=image,
        train_y=[70, 3],
        train_coarse=[2, 0],
        test_x=image[:1],
        test_y=[3],
        test_coarse=[0],
        fine_names=np.array([f"fine{n}" for n in range(100)]),
        coarse_names=np.array(["sea", "land", "air"]),
    )
    dataset = import_data(root, path, "mine", NONE)
    assert dataset.info.classes == ("fine3", "fine70")
    assert dataset.info.coarse == ("sea", "air")
    assert dataset.train.labels.tolist() == [1, 0]
    assert dataset.train.columns["coarse"].tolist() == [1, 0]
    assert dataset.info.shape == (3, 5, 4)
    assert dataset.train.images[0, :, 0, 0].tolist() == [0, 1, 2]


def test_csv_of_features(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "iris.csv"
    rows = [f"{n},0.5,{'setosa' if n % 2 else 'virginica'},site{n % 3}" for n in range(30)]
    path.write_text("length,width,species,site\n" + "\n".join(rows))
    dataset = import_data(root, path, "mine", Options(label="species", client="site"))
    info = dataset.info
    assert (info.shape, info.dtype, info.clients, info.train, info.test) == (
        (2,),
        "float32",
        3,
        24,
        6,
    )
    assert info.classes == ("setosa", "virginica")
    assert (dataset.train.labels == (dataset.train.images[:, 0].long() + 1) % 2).all()
    assert (dataset.train.clients == dataset.train.images[:, 0].long() % 3).all()
    # A column that never changes is not divided by nothing.
    assert info.std[1] == 1.0
    assert info.mean[0] == pytest.approx(float(dataset.train.images[:, 0].mean()))


@pytest.mark.parametrize("nested", [True, False])
def test_parquet_of_images(
    nested: bool, root: Path, tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    images = [picture(value) for value in (5, 6, 7)]
    column = [{"bytes": content, "path": None} for content in images] if nested else images
    table = pa.table({"image": column, "label": [1, 0, 1], "who": ["x", "y", "x"]})
    names = b'{"info": {"features": {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}}}}'
    table = table.replace_schema_metadata({b"huggingface": names})
    folder = tmp_path / "hub"
    folder.mkdir()
    pq.write_table(table, folder / "train-00000-of-00001.parquet")
    pq.write_table(table.slice(0, 1), folder / "test-00000-of-00001.parquet")
    dataset = import_data(root, folder, "mine", Options(client="who"))
    assert dataset.info.classes == ("no", "yes")
    assert dataset.train.images[:, 0, 0, 0].tolist() == [5, 6, 7]
    assert dataset.train.labels.tolist() == [1, 0, 1]
    assert dataset.train.clients.tolist() == [0, 1, 0]
    assert dataset.info.test == 1


def test_float_images_stay_what_they_are(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    x = np.linspace(-1, 1, 2 * 3 * 4).reshape(2, 1, 3, 4)
    np.savez(path, train_x=x, train_y=[0, 1], test_x=x, test_y=[0, 1])
    dataset = import_data(root, path, "mine", NONE)
    assert dataset.info.dtype == "float32"
    assert np.array_equal(dataset.train.images.numpy(), x.astype(np.float32))
    assert dataset.info.mean == (0.0,)


def test_importing_again_under_the_same_name_replaces(
    root: Path, files: Callable[..., Path]
) -> None:
    path = files({"a.txt": b"a b c d e f g h i j", "b.txt": b"x y z x y z x y z x"})
    import_data(root, path / "a.txt", "mine", NONE)
    assert import_data(root, path / "b.txt", "mine", NONE).info.vocabulary == 4
    assert open_dataset(root, "mine").vocabulary() == ["<unknown>", "x", "y", "z"]


@pytest.mark.parametrize("name", ["digits", "synthetic-images", "synthetic-text-500"])
def test_names_of_data_that_needs_no_files_are_taken(
    name: str, root: Path, files: Callable[..., Path]
) -> None:
    path = files({"a.txt": b"a b c d e f g h i j"}) / "a.txt"
    with pytest.raises(DataError, match="use another"):
        import_data(root, path, name, NONE)


@pytest.mark.parametrize("name", ["../x", "/x", "", "a b", "x" * 65, ".hidden", "a/b"])
def test_names_that_could_lead_elsewhere_are_refused(
    name: str, root: Path, files: Callable[..., Path]
) -> None:
    path = files({"a.txt": b"a b c d e f g h i j"}) / "a.txt"
    with pytest.raises(DataError, match="not valid"):
        import_data(root, path, name, NONE)
    assert not root.exists()


def test_columns_of_the_test_table_go_by_name_not_by_place(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,b,label\n1,10,x\n2,20,y\n3,30,x\n")
    (tmp_path / "test.csv").write_text("label,b,a\ny,50,5\nx,40,4\n")
    root = tmp_path / "data"
    options = Options(test=tmp_path / "test.csv")
    dataset = import_data(root, tmp_path / "train.csv", "columns", options)
    assert dataset.test.images.tolist() == [[5.0, 50.0], [4.0, 40.0]]


def test_a_column_of_clients_is_known_by_its_name(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 2},{i % 3}\n" for i in range(30))
    (tmp_path / "all.csv").write_text("value,label,client\n" + rows)
    dataset = import_data(tmp_path / "data", tmp_path / "all.csv", "clients", NONE)
    assert dataset.info.shape == (1,)
    assert dataset.info.clients == 3
