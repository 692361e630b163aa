"""The files of ``cluster/``: checked by those who read them, and closed to everybody else."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
from packaging.requirements import Requirement
from ray.autoscaler._private.util import prepare_config, validate_config

from .files import CLUSTER, REPOSITORY, load

BIN = Path(sys.executable).parent
SCRIPTS = sorted([*CLUSTER.rglob("*.sh"), *CLUSTER.rglob("*.sbatch")])
FILES = sorted(path for path in CLUSTER.rglob("*") if path.is_file())
LAUNCHED = ["aws", "gcp"]


def short(path: Path) -> str:
    return str(path.relative_to(CLUSTER))


# ---- scripts and the image -----------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS, ids=short)
def test_shellcheck_finds_nothing(script: Path) -> None:
    done = subprocess.run(
        [str(BIN / "shellcheck"), "--external-sources", "--shell=bash", str(script)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [str(BIN / "hadolint"), str(CLUSTER / "Dockerfile")], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_holds_what_it_copies_and_runs_as_nobody_special() -> None:
    text = (CLUSTER / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (.*)$", text, re.M):
        for source in line.split()[:-1]:
            assert (REPOSITORY / source).exists(), source
    assert re.findall(r"^USER (.*)$", text, re.M) == ["1000:1000"]
    assert "requirements.lock" in text


INSTALLERS = [REPOSITORY / "Makefile", REPOSITORY / ".ci" / "run", *FILES]


@pytest.mark.parametrize("path", INSTALLERS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_nothing_from_the_network_is_run_as_it_comes(path: Path) -> None:
    """No `curl | sh`; and what pip installs here, or builds with, has a version."""
    text = path.read_text().replace("\\\n", " ")
    assert not re.search(r"(curl|wget)[^\n|;]*\|\s*(sudo\s+)?(ba|z)?sh", text)
    assert not re.search(r"(ba)?sh\s+(-c\s+)?[\"']?(<\(|\$\()\s*(curl|wget)", text)
    for words in re.findall(r"pip3? install ([^\n\]`&|;]+)", text):
        assert left_to_the_day(words.split()) == [], words


OURS = (".", "/opt/heterofl-ray")
HARMLESS = ("--quiet", "--no-cache-dir", "--user", "--editable")
CLOSED = ("--no-deps", "--no-build-isolation")


def left_to_the_day(words: list[str]) -> list[str]:
    """Words of a `pip install` that may mean something else tomorrow.

    Packages need a version, and none of their dependencies; our own code is built by what is there.
    """
    found, previous = [], ""
    for word in words:
        if previous == "--requirement":
            known = Path(word).name == "requirements.lock"
        elif word in OURS:
            known = set(CLOSED) <= set(words)
        elif word.startswith("-"):
            known = word in (*HARMLESS, *CLOSED, "--requirement")
        else:
            known = bool(re.fullmatch(r"[\w.-]+==[\w.]+", word)) and "--no-deps" in words
        if not known:
            found.append(word)
        previous = word
    return found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--requirement requirements.lock", []),
        ("--requirement more.txt", ["more.txt"]),
        ("--no-deps --no-build-isolation --editable .", []),
        ("--no-deps --editable .", ["."]),
        ("--no-build-isolation /opt/heterofl-ray", ["/opt/heterofl-ray"]),
        ("--no-deps boto3==1.44.0 botocore==1.44.3", []),
        ("--no-deps boto3==1.44.0 botocore", ["botocore"]),
        ("--no-deps boto3>=1.44.0", ["boto3>=1.44.0"]),
        ("boto3==1.44.0", ["boto3==1.44.0"]),
        ("--upgrade --no-deps boto3==1.44.0", ["--upgrade"]),
        ("--no-deps git+https://host/x", ["git+https://host/x"]),
    ],
)
def test_a_line_that_may_install_something_else_tomorrow_is_found(
    line: str, found: list[str]
) -> None:
    assert left_to_the_day(line.split()) == found


def test_what_builds_the_package_is_locked() -> None:
    lock = (REPOSITORY / "requirements.lock").read_text()
    wanted = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["build-system"]["requires"]
    for requirement in map(Requirement, wanted):
        (version,) = re.findall(rf"^{requirement.name}==(.*)$", lock, re.M)
        assert version in requirement.specifier


def test_no_secret_lies_here() -> None:
    for path in FILES:
        assert not re.search(r"\b[0-9a-f]{40,}\b", path.read_text()), path


# ---- Ray's launcher ------------------------------------------------------------------------


@pytest.mark.parametrize("cloud", LAUNCHED)
def test_rays_own_validator_takes_it(cloud: str) -> None:
    config = load(f"{cloud}.yaml")
    prepared = prepare_config(copy.deepcopy(config))
    validate_config(prepared)
    head = config["available_node_types"][config["head_node_type"]]
    worker = config["available_node_types"]["gpu"]
    assert head["max_workers"] == 0
    assert "GPU" not in head["resources"]
    assert worker["resources"]["GPU"] == 1
    assert worker["min_workers"] == 0
    market = str(worker["node_config"])
    assert "'MarketType': 'spot'" in market or "'preemptible': True" in market


@pytest.mark.parametrize("cloud", LAUNCHED)
def test_a_mistake_in_it_would_be_found(cloud: str) -> None:
    config = load(f"{cloud}.yaml") | {"max_worker": 3}
    with pytest.raises(jsonschema.ValidationError, match="max_worker"):
        validate_config(prepare_config(config))


@pytest.mark.parametrize("cloud", LAUNCHED)
def test_every_node_of_a_launched_cluster_asks_for_the_token(cloud: str) -> None:
    prepared = prepare_config(load(f"{cloud}.yaml"))
    assert prepared["file_mounts"] == {"~/.ray/auth_token": "~/.ray/auth_token"}
    for commands in ("head_start_ray_commands", "worker_start_ray_commands"):
        (start,) = [line for line in prepared[commands] if "ray start" in line]
        assert start.index("RAY_AUTH_MODE=token") < start.index("ray start")
        assert "chmod 600 ~/.ray/auth_token" in start
    assert "--dashboard-host=127.0.0.1" in str(prepared["head_start_ray_commands"])
    assert "://" not in str([prepared[name] for name in prepared if "commands" in name])


# ---- how to ---------------------------------------------------------------------------------


FOLDERS = [CLUSTER, *sorted(path for path in CLUSTER.iterdir() if path.is_dir())]
PARTS = {
    "commands": r"^```\n\S[^`]*^```$",
    "costs": r"^\*\*Costs\*\*[^:\n]*: \S.*\S\.$",
    "stop": r"^\*\*Stop\*\*: \S.*\S\.?$",
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("folder", FOLDERS, ids=short)
def test_each_has_a_page_that_says_what_to_type_what_it_costs_and_how_it_ends(
    folder: Path, part: str
) -> None:
    page = (folder / "README.md").read_text()
    assert re.search(PARTS[part], page, re.M), f"{folder.name}/README.md has no {part}"


@pytest.mark.parametrize("folder", FOLDERS, ids=short)
def test_what_a_page_names_is_there(folder: Path) -> None:
    for place in re.findall(r"(?<![\w/])cluster/[\w./-]+", (folder / "README.md").read_text()):
        assert (REPOSITORY / place.rstrip(".")).exists(), place


def test_artifacts_on_s3_come_with_the_packages_they_need() -> None:
    """None of them is locked; the launcher's nodes install the same."""
    page = (CLUSTER / "mlflow" / "README.md").read_text()
    (install,) = load("aws.yaml")["head_setup_commands"]
    assert install.replace("--user ", "") in page
