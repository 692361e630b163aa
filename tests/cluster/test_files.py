"""The files of ``cluster/``: checked by those who read them, and closed to everybody else."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

REPOSITORY = Path(__file__).parents[2]
CLUSTER = REPOSITORY / "cluster"
BIN = Path(sys.executable).parent
SCRIPTS = sorted([*CLUSTER.rglob("*.sh"), *CLUSTER.rglob("*.sbatch")])
FILES = sorted(path for path in CLUSTER.rglob("*") if path.is_file())
LAUNCHED = ["aws", "gcp"]


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CLUSTER / name).read_text())
    return found


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
    """No `curl | sh`; and what pip installs here has a version."""
    text = path.read_text().replace("\\\n", " ")
    assert not re.search(r"(curl|wget)[^\n|;]*\|\s*(sudo\s+)?(ba|z)?sh", text)
    assert not re.search(r"(ba)?sh\s+(-c\s+)?[\"']?(<\(|\$\()\s*(curl|wget)", text)
    for words in re.findall(r"pip install ([^\n\]]+)", text):
        named = [word for word in words.split() if not word.startswith(("-", "&", "."))]
        pinned = [word for word in named if "==" in word or "requirements.lock" in word]
        assert pinned or "--no-deps" in words, words


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
    assert "http" not in str([prepared[name] for name in prepared if "commands" in name])


# ---- KubeRay -------------------------------------------------------------------------------

# The fields we use, as KubeRay's reference for ray.io/v1 (1.7) has them; no others may appear.
# Pods are checked against Kubernetes' own schema below.
_GROUP = {"rayStartParams": {"additionalProperties": {"type": "string"}}, "template": {}}
_COUNT = {"type": "integer", "minimum": 0}
CLUSTER_SPEC = {
    "type": "object",
    "additionalProperties": False,
    "required": ["rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"],
    "properties": {
        "rayVersion": {"type": "string"},
        "authOptions": {
            "additionalProperties": False,
            "required": ["mode"],
            "properties": {"mode": {"const": "token"}},
        },
        "enableInTreeAutoscaling": {"type": "boolean"},
        "autoscalerOptions": {
            "additionalProperties": False,
            "properties": {"idleTimeoutSeconds": _COUNT},
        },
        "headGroupSpec": {
            "additionalProperties": False,
            "required": ["rayStartParams", "template"],
            "properties": {**_GROUP, "serviceType": {"const": "ClusterIP"}},
        },
        "workerGroupSpecs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "additionalProperties": False,
                "required": ["groupName", "minReplicas", "maxReplicas", *_GROUP],
                "properties": {
                    **_GROUP,
                    "groupName": {"type": "string"},
                    "replicas": _COUNT,
                    "minReplicas": _COUNT,
                    "maxReplicas": _COUNT,
                },
            },
        },
    },
}
JOB_SPEC = {
    "type": "object",
    "additionalProperties": False,
    "required": ["entrypoint", "rayClusterSpec"],
    "properties": {
        "entrypoint": {"type": "string"},
        "submissionMode": {"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]},
        "backoffLimit": _COUNT,
        "shutdownAfterJobFinishes": {"type": "boolean"},
        "ttlSecondsAfterFinished": _COUNT,
        "activeDeadlineSeconds": {"type": "integer", "minimum": 1},
        "rayClusterSpec": CLUSTER_SPEC,
    },
}


def resource(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": "ray.io/v1"},
            "kind": {"const": kind},
            "metadata": {"type": "object", "required": ["name"]},
            "spec": spec,
        },
    }


MANIFESTS = {
    "kuberay/cluster.yaml": resource("RayCluster", CLUSTER_SPEC),
    "kuberay/job.yaml": resource("RayJob", JOB_SPEC),
}


def cluster_spec(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = load(name)["spec"]
    return spec.get("rayClusterSpec", spec)


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_has_the_fields_that_kuberay_knows(name: str) -> None:
    jsonschema.validate(load(name), MANIFESTS[name])


@pytest.mark.parametrize("name", MANIFESTS)
def test_its_pods_are_pods(name: str) -> None:
    spec = cluster_spec(name)
    version = kubernetes_validate.latest_version()
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **group["template"]}
        kubernetes_validate.validate(pod, version, strict=True)
        security = pod["spec"]["securityContext"]
        assert security["runAsNonRoot"]
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["resources"]["limits"]
    wrong = {**pod, "spec": {**pod["spec"], "toleration": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_the_volume_is_the_one_that_the_pods_mount() -> None:
    volume = load("kuberay/volume.yaml")
    kubernetes_validate.validate(volume, kubernetes_validate.latest_version(), strict=True)
    for name in MANIFESTS:
        pods = cluster_spec(name)["headGroupSpec"]["template"]["spec"]
        (claim,) = [each["persistentVolumeClaim"]["claimName"] for each in pods["volumes"]]
        assert claim == volume["metadata"]["name"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_rays_version_is_the_locked_one(name: str) -> None:
    lock = (REPOSITORY / "requirements.lock").read_text()
    assert f"ray=={cluster_spec(name)['rayVersion']}\n" in lock


# ---- how to ---------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["local", "kuberay", "slurm", "mlflow", "."])
def test_each_has_a_page_that_says_how_it_ends(folder: str) -> None:
    page = (CLUSTER / folder / "README.md").read_text()
    assert re.search(r"\b[Ss]top", page), page
    for place in re.findall(r"(?<![\w/])cluster/[\w./-]+", page):
        assert (REPOSITORY / place.rstrip(".")).exists(), place
