"""``heterofl-ray export``: a level's model as a file that needs nothing of this package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from heterofl_ray.commands.base import add_data_dir, add_json, print_json
from heterofl_ray.errors import ConfigError, DataError

NAME = "export"
ABOUT = "a level's model as a file of its own, compared with the run's predictions"

FORMATS = ("safetensors", "torchscript", "onnx")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--level", help="such as c (the largest, which is the global model)")
    parser.add_argument("--format", default="safetensors", help=f"{', '.join(FORMATS)}")
    parser.add_argument("--out", metavar="FILE", help="(RUN/export/level-LEVEL.…)")
    parser.add_argument(
        "--raw", action="store_true", help="the model takes pixels and normalises them itself"
    )
    add_data_dir(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.run)
    if arguments.format not in FORMATS:
        raise ConfigError.unknown("--format", arguments.format, FORMATS)
    if not (folder / "result.json").is_file():
        unfinished = (folder / "config.yaml").is_file()
        hint = f"is not finished; go on with: heterofl-ray resume {folder}"
        raise DataError(f"{folder} {hint if unfinished else 'is not the folder of a run'}")

    from heterofl_ray.data.places import data_dir
    from heterofl_ray.exporting.exporter import export_model
    from heterofl_ray.exporting.formats import FORMATS as KINDS
    from heterofl_ray.result import RunResult
    from heterofl_ray.settings import load_run_yaml

    result = RunResult.open(folder)
    _, written = load_run_yaml(folder / "config.yaml")
    level = arguments.level or result.config.levels.largest.name
    name = f"level-{level}{KINDS[arguments.format].suffix}"
    done = export_model(
        result,
        level,
        arguments.format,
        data_root=data_dir(arguments.data_dir or written),
        out=Path(arguments.out) if arguments.out else folder / "export" / name,
        raw=arguments.raw,
    )
    if done.difference is None:
        print("onnxruntime is missing, so the file was not compared", file=sys.stderr)
    if arguments.json:
        print_json(
            {
                "file": str(done.path),
                "bytes": done.path.stat().st_size,
                "level": level,
                "format": arguments.format,
                "max_difference": done.difference,
                "compared_examples": done.examples,
                "how_to_load": done.description["how_to_load"],
            }
        )
        return
    print(f"level {level} as {arguments.format} in {done.path}")
    if done.difference is not None:
        print(
            f"logits differ from the run's by at most {done.difference:.2g} "
            f"on {done.examples} test examples"
        )
    print(f"load it by: {done.description['how_to_load'].replace('FILE', repr(str(done.path)))}")
