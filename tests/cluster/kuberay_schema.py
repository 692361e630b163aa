"""What KubeRay's operator takes, as a schema: the fields of ray.io/v1 with their kinds and choices.

No package holds KubeRay's own schemas, so these are the facts of them, written down by hand at the
levels that our manifests have: RayCluster and RayJob, head and worker groups, authentication,
autoscaler. Every field that our manifests use was looked up in KubeRay's own files, of several
releases, and authentication in its reference of 1.6.2. Every group is closed: a field that is not
here is refused, as a strict server would.
Fields in which Kubernetes' own things lie are left out as long as no manifest has them, but for the
pods, which the tests check against Kubernetes' schema.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
INTEGER: Schema = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
COUNT: Schema = {**INTEGER, "minimum": 0}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
ANYTHING: Schema = {"type": "object"}


def one_of(*choices: str) -> Schema:
    return {"type": "string", "enum": list(choices)}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def group(required: tuple[str, ...] = (), **fields: Schema) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": fields,
    }


def resource(kind: str, spec: Schema) -> Schema:
    return group(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": "ray.io/v1"},
        kind={"const": kind},
        metadata=group(("name",), name=TEXT, namespace=TEXT, labels=TEXTS, annotations=TEXTS),
        spec=spec,
    )


MANAGER = one_of("ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue")

POD = group(
    metadata=group(
        name=TEXT, namespace=TEXT, labels=TEXTS, annotations=TEXTS, finalizers=list_of(TEXT)
    ),
    spec=ANYTHING,
)

HEAD = group(
    ("template",),
    enableIngress=FLAG,
    labels=TEXTS,
    rayStartParams=TEXTS,
    resources=TEXTS,
    serviceType=one_of("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    template=POD,
)

WORKERS = group(
    ("groupName", "minReplicas", "maxReplicas", "template"),
    groupName=TEXT,
    idleTimeoutSeconds=INTEGER,
    labels=TEXTS,
    maxReplicas=COUNT,
    minReplicas=COUNT,
    numOfHosts=COUNT,
    rayStartParams=TEXTS,
    replicas=COUNT,
    resources=TEXTS,
    scaleStrategy=group(workersToDelete=list_of(TEXT)),
    suspend=FLAG,
    template=POD,
)

AUTOSCALER = group(
    idleTimeoutSeconds=INTEGER,
    image=TEXT,
    imagePullPolicy=one_of("Always", "Never", "IfNotPresent"),
    upscalingMode=one_of("Default", "Aggressive", "Conservative"),
    version=one_of("v1", "v2"),
)

CLUSTER_SPEC = group(
    ("headGroupSpec",),
    authOptions=group(mode=one_of("disabled", "token"), enableK8sTokenAuth=FLAG, secretName=TEXT),
    autoscalerOptions=AUTOSCALER,
    enableInTreeAutoscaling=FLAG,
    headGroupSpec=HEAD,
    headServiceAnnotations=TEXTS,
    managedBy=MANAGER,
    rayVersion=TEXT,
    suspend=FLAG,
    ttlSecondsAfterIdle=COUNT,
    upgradeStrategy=group(type=one_of("Recreate", "None")),
    workerGroupSpecs=list_of(WORKERS),
)

JOB_SPEC = group(
    activeDeadlineSeconds={**INTEGER, "minimum": 1},
    backoffLimit=COUNT,
    clusterSelector=TEXTS,
    entrypoint=TEXT,
    entrypointNumCpus=NUMBER,
    entrypointNumGpus=NUMBER,
    entrypointResources=TEXT,
    jobId=TEXT,
    managedBy=MANAGER,
    metadata=TEXTS,
    preRunningDeadlineSeconds={**INTEGER, "minimum": 1},
    rayClusterSpec=CLUSTER_SPEC,
    runtimeEnvYAML=TEXT,
    shutdownAfterJobFinishes=FLAG,
    submissionMode=one_of("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"),
    submitterConfig=group(backoffLimit=INTEGER),
    suspend=FLAG,
    ttlSecondsAfterFinished=COUNT,
)

RAY_CLUSTER = resource("RayCluster", CLUSTER_SPEC)
RAY_JOB = resource("RayJob", JOB_SPEC)
