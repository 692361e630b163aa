"""Files from anywhere as plain values: JSON and YAML, bounded in size and depth, never run as code.

YAML is read as settings need it: texts, numbers, true and false, lists and groups. Aliases are
refused (a few lines of them stand for gigabytes), and so are names that are given twice. Dates stay
the texts they are.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofl_ray.errors import ConfigError, DataError, shown

if TYPE_CHECKING:
    import yaml

LARGEST_YAML = 16 * 1024**2
LARGEST_JSON = 256 * 1024**2
DEEPEST = 20
"""Groups and lists within each other; settings have three."""
_LONGEST_NUMBER = 400
"""Characters; more digits than the largest float has."""


class NoJson(DataError):
    """A text is not what it should be."""


def read_bytes(path: Path, largest: int) -> bytes:
    """A file's content, if it is a file and no larger than that."""
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting, a device for ever
            raise DataError(f"{path} is not a file")
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > largest:
        raise DataError(f"{path} is larger than {largest // 1024**2} MiB")
    return content


def parse_json(content: bytes | str, where: object) -> Any:
    """What a JSON text says; ``where`` it is from."""
    try:
        return json.loads(content)
    except UnicodeDecodeError as error:  # which would show the whole text
        raise NoJson(f"{where} is damaged: byte {error.start} is no UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise NoJson(f"{where} is damaged: not valid JSON: {str(error)[:200]}") from None


def read_json(path: Path, largest: int = LARGEST_JSON) -> Any:
    return parse_json(read_bytes(path, largest), path)


def parse_yaml(text: str) -> Any:
    """What a YAML text says; ValueError with one line when it says nothing that can be read."""
    import yaml

    try:
        return yaml.load(text, _loader())  # a safe loader, see below
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(" ".join(str(error).split())[:300]) from None


def read_yaml(path: Path) -> Any:
    """What a YAML file says."""
    try:
        content = read_bytes(path, LARGEST_YAML)
    except DataError as error:
        raise ConfigError(str(error).replace(" cannot be read", ": cannot be read", 1)) from None
    try:
        return parse_yaml(content.decode("utf-8"))
    except ValueError as error:  # bytes that are no text among them
        raise ConfigError(f"{path}: not valid YAML: {str(error)[:300]}") from None


def _loader() -> type[yaml.SafeLoader]:
    """Made when it is needed: importing yaml takes longer than answering a wrong option."""
    import yaml

    class Loader(yaml.SafeLoader):
        """PyYAML's safe loader, without what settings have no use for."""

        depth = 0
        yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML has it
            first: [entry for entry in entries if not entry[0].endswith(":timestamp")]
            for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            mark: Any = event.start_mark
            if isinstance(event, yaml.AliasEvent):
                raise yaml.MarkedYAMLError(
                    problem=f"aliases (*{event.anchor}) are not read; write the value out",
                    problem_mark=mark,
                )
            if self.depth > DEEPEST:
                raise yaml.MarkedYAMLError(
                    problem=f"more than {DEEPEST} groups within each other",
                    problem_mark=mark,
                )
            self.depth += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else None
                if name is None or name in seen:
                    problem = "a group's name must be a text"
                    if name is not None:
                        problem = f"{shown(name)} is given twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(name)
            return super().construct_mapping(node, deep)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            if isinstance(node, yaml.ScalarNode) and _is_long_number(node):
                raise yaml.MarkedYAMLError(
                    problem=f"a number of {len(node.value)} characters",
                    problem_mark=node.start_mark,
                )
            return super().construct_object(node, deep)

    return Loader


def _is_long_number(node: Any) -> bool:
    return len(node.value) > _LONGEST_NUMBER and bool(re.search(":(int|float)$", node.tag))
