"""The manifests of ``cluster/kuberay``: fields that the operator knows, pods that are closed.

The schema beside this file is written by hand from the facts of KubeRay's own; no operator takes
part in these tests.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from jsonschema import Draft202012Validator

from .files import REPOSITORY, load
from .kuberay_schema import RAY_CLUSTER, RAY_JOB, Schema

MANIFESTS = {"kuberay/cluster.yaml": RAY_CLUSTER, "kuberay/job.yaml": RAY_JOB}
Place = tuple[str | int, ...]


def cluster_spec(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = load(name)["spec"]
    return spec.get("rayClusterSpec", spec)


def places(value: Any, schema: Schema, path: Place = ()) -> Iterator[Place]:
    """Where a manifest has something that the schema speaks of: itself, then all below it."""
    yield path
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from places(each, schema["items"], (*path, number))
    for name in schema.get("properties", {}):
        if name in value:
            yield from places(value[name], schema["properties"][name], (*path, name))


def changed(manifest: Any, path: Place, new: Any) -> Any:
    """A copy of it with something else in one place."""
    if not path:
        return new
    made = copy.copy(manifest)
    made[path[0]] = changed(manifest[path[0]], path[1:], new)
    return made


def at(manifest: Any, path: Place) -> Any:
    for step in path:
        manifest = manifest[step]
    return manifest


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_has_the_fields_that_kuberay_knows(name: str) -> None:
    jsonschema.validate(load(name), MANIFESTS[name])


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_field_that_kuberay_does_not_know_is_found_wherever_it_is(name: str) -> None:
    manifest, judge = load(name), Draft202012Validator(MANIFESTS[name])
    for path in places(manifest, judge.schema):
        if isinstance(at(manifest, path), dict):
            wrong = changed(manifest, path, {**at(manifest, path), "replica": [1]})
            kubernetes = path[-2:] == ("template", "spec")  # looked at by the pods' test
            assert judge.is_valid(wrong) is kubernetes, path


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_value_of_another_kind_is_found_wherever_it_is(name: str) -> None:
    manifest, judge = load(name), Draft202012Validator(MANIFESTS[name])
    for path in places(manifest, judge.schema):
        assert not judge.is_valid(changed(manifest, path, [[]])), path


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_cluster_asks_for_a_token_and_is_not_reached_from_outside(name: str) -> None:
    spec = cluster_spec(name)
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert "enableIngress" not in spec["headGroupSpec"]
    assert spec["workerGroupSpecs"]


@pytest.mark.parametrize(
    ("name", "host"), [("kuberay/cluster.yaml", "127.0.0.1"), ("kuberay/job.yaml", "0.0.0.0")]
)
def test_who_reaches_the_dashboard_is_said_and_not_left_to_the_operator(
    name: str, host: str
) -> None:
    """It would open every one to its Kubernetes; only a job's must be: others submit it."""
    assert cluster_spec(name)["headGroupSpec"]["rayStartParams"]["dashboard-host"] == host
    assert ("submissionMode" in load(name)["spec"]) is (host == "0.0.0.0")


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
