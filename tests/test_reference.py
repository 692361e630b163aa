"""The reference pages say what the commands and settings are."""

from __future__ import annotations

from pathlib import Path

import pytest

from heterofl_ray.cli import COMMANDS
from heterofl_ray.reference import pages, write

DOCS = Path(__file__).parents[1] / "docs"


def test_every_command_has_a_page() -> None:
    assert {f"commands/{command.NAME}.md" for command in COMMANDS} < set(pages())


@pytest.mark.parametrize("path", sorted(pages()))
def test_the_pages_in_docs_are_up_to_date(path: str) -> None:
    assert (DOCS / path).read_text(encoding="utf-8") == pages()[path], "run `make docs`"


def test_no_page_of_a_command_that_is_gone() -> None:
    assert {f"commands/{file.name}" for file in (DOCS / "commands").glob("*.md")} <= set(pages())


def test_writing_removes_old_pages(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "gone.md").write_text("old")
    write(tmp_path)
    found = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.md")}
    assert found == set(pages())


def test_a_page_names_every_option() -> None:
    page = pages()["commands/run.md"]
    for option in ("--set NAME=VALUE", "--backend {local,ray}", "--json", "PRESET_OR_YAML"):
        assert option in page
    assert "## import" in pages()["commands/data.md"]
    assert "| `rounds` |" in pages()["settings.md"]
