"""The manifests of ``cluster/kuberay`` against KubeRay's own definitions, where they are at hand.

HETEROFL_KUBERAY_CRDS names a folder with them: the `crds` of its Helm chart, or what
``kubectl get crd rayclusters.ray.io rayjobs.ray.io --output yaml`` says of a cluster.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from . import crds
from .files import load

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "spec": {
        "names": {"kind": "Boat"},
        "versions": [
            {"name": "v1alpha1", "schema": {"openAPIV3Schema": {"type": "object"}}},
            {
                "name": "v1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "flag": {"type": "string", "nullable": True},
                                    "pier": {"x-kubernetes-int-or-string": True, "nullable": True},
                                    "notes": {
                                        "nullable": True,
                                        "x-kubernetes-preserve-unknown-fields": True,
                                    },
                                    "cargo": {
                                        "type": "object",
                                        "properties": {"weight": {"type": "integer"}},
                                        "x-kubernetes-preserve-unknown-fields": True,
                                    },
                                    "crew": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}},
                                        },
                                    },
                                    "berths": {
                                        "type": "object",
                                        "additionalProperties": {
                                            "type": "object",
                                            "properties": {"deck": {"type": "integer"}},
                                        },
                                    },
                                },
                            },
                        },
                    }
                },
            },
        ],
    },
}


def boat(**spec: Any) -> dict[str, Any]:
    return {"kind": "Boat", "metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"port": 80},
        {"port": "http"},
        {"flag": None},
        {"pier": None},
        {"pier": 3},
        {"notes": None},
        {"notes": [1]},
        {"cargo": {"weight": 1, "anything": [1]}},
        {"crew": [{"name": "a"}]},
        {"berths": {"one": {"deck": 1}}},
    ],
)
def test_what_a_definition_knows_is_taken(tmp_path: Path, spec: dict[str, Any]) -> None:
    (tmp_path / "boat.yaml").write_text(yaml.safe_dump(DEFINITION))
    Draft202012Validator(crds.read(tmp_path)["Boat"]).validate(boat(**spec))


@pytest.mark.parametrize(
    "spec",
    [
        {"sail": 1},
        {"port": 1.5},
        {"flag": 1},
        {"pier": 1.5},
        {"cargo": {"weight": "much"}},
        {"crew": [{}]},
        {"crew": [{"name": "a", "rank": "b"}]},
        {"berths": {"one": {"deck": "upper"}}},
        {"berths": {"one": {"row": 1}}},
    ],
)
def test_what_a_definition_does_not_know_is_refused(tmp_path: Path, spec: dict[str, Any]) -> None:
    (tmp_path / "boat.yaml").write_text(yaml.safe_dump(DEFINITION))
    assert not Draft202012Validator(crds.read(tmp_path)["Boat"]).is_valid(boat(**spec))


def test_definitions_are_found_alone_one_after_another_and_in_kubectls_list(tmp_path: Path) -> None:
    other = {**DEFINITION, "spec": {**DEFINITION["spec"], "names": {"kind": "Ship"}}}
    for number, documents in enumerate(
        ([DEFINITION], [None, DEFINITION, other], [{"kind": "List", "items": [DEFINITION, other]}])
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
        assert set(crds.read(folder)) == ({"Boat"} if number == 0 else {"Boat", "Ship"})


@pytest.mark.parametrize("name", ["kuberay/cluster.yaml", "kuberay/job.yaml"])
def test_a_manifest_is_one_of_kuberays_own(name: str) -> None:
    if "HETEROFL_KUBERAY_CRDS" not in os.environ:
        pytest.skip("HETEROFL_KUBERAY_CRDS names no folder of KubeRay's definitions")
    manifest, folder = load(name), os.environ["HETEROFL_KUBERAY_CRDS"]
    schemas = crds.read(Path(folder))
    assert manifest["kind"] in schemas, f"HETEROFL_KUBERAY_CRDS={folder} defines {set(schemas)}"
    Draft202012Validator(schemas[manifest["kind"]]).validate(manifest)
