"""Custom resource definitions, as Kubernetes publishes them, made into schemas for manifests."""

from __future__ import annotations

from pathlib import Path

import yaml

from .kuberay_schema import Schema

_OPEN = "x-kubernetes-preserve-unknown-fields"
_EITHER = "x-kubernetes-int-or-string"


def read(folder: Path, version: str = "v1") -> dict[str, Schema]:
    """Of every kind that the YAML files of a folder define, what its manifests may have.

    A file may hold one definition, several, or a list of them as `kubectl get crd` prints it.
    """
    return {
        definition["spec"]["names"]["kind"]: closed(each["schema"]["openAPIV3Schema"])
        for path in sorted(folder.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if document
        for definition in document.get("items", [document])
        if definition["kind"] == "CustomResourceDefinition"
        for each in definition["spec"]["versions"]
        if each["name"] == version
    }


def closed(schema: Schema) -> Schema:
    """The same, with fields that it does not name refused: so does a server that is asked strictly.

    What lies in metadata is Kubernetes' own, which a definition leaves open.
    """
    made = {**schema}
    if made.get(_EITHER):
        made["type"] = ["integer", "string"]
    if made.get("nullable") and "type" in made:
        kinds = made["type"]
        made["type"] = [*([kinds] if isinstance(kinds, str) else kinds), "null"]
    if isinstance(made.get("items"), dict):
        made["items"] = closed(made["items"])
    if isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = closed(made["additionalProperties"])
    if "properties" in made:
        made["properties"] = {name: closed(each) for name, each in made["properties"].items()}
        if not made.get(_OPEN):
            made.setdefault("additionalProperties", False)
    return made
