"""The defaults of Kubernetes' own kinds, beside those that the OpenAPI document has."""

from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_MODE = 0o644
_VOLUMES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def fill_builtin(kind: str, data: Json) -> None:
    """Set the defaults of an object in place."""
    if (filler := _FILLERS.get(kind)) is not None:
        filler(data)


def containers_of(spec: Json) -> Iterator[Json]:
    """Yield the containers of a pod, those of its start first."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def fill_pod_spec(spec: Json, *, of_pod: bool = False) -> None:
    """Set the defaults of a pod's spec in place. Those of requests apply to pods, and not to templates."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    if of_pod:
        spec.setdefault("enableServiceLinks", True)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers_of(spec):
        _fill_container(container, spec, of_pod=of_pod)
    for volume in spec.get("volumes") or ():
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}
        for source in _VOLUMES_WITH_MODE:
            if source in volume:
                volume[source].setdefault("defaultMode", _MODE)
        if "hostPath" in volume:
            volume["hostPath"].setdefault("type", "")


def _fill_container(container: Json, spec: Json, *, of_pod: bool) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image", "")
    tag = image.rpartition(":")[2] if ":" in image.rpartition("/")[2] else "latest"
    container.setdefault(
        "imagePullPolicy", "Always" if tag == "latest" and "@" not in image else "IfNotPresent"
    )
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if spec.get("hostNetwork"):
            port.setdefault("hostPort", port.get("containerPort", 0))
    for name in _PROBES:
        if name in container:
            _fill_probe(container[name])
    resources = container.get("resources") or {}
    if of_pod and resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, value in resources["limits"].items():
            requests.setdefault(name, value)


def _fill_probe(probe: Json) -> None:
    for name, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe[name] = probe.get(name) or value
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _fill_pod(data: Json) -> None:
    fill_pod_spec(data["spec"], of_pod=True)


def _fill_node(data: Json) -> None:
    status = data.get("status", {})
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def _fill_template(spec: Json) -> None:
    if "template" in spec and "spec" in spec["template"]:
        fill_pod_spec(spec["template"]["spec"])


def _fill_replicas(data: Json) -> None:
    spec = data["spec"]
    spec.setdefault("replicas", 1)
    _fill_template(spec)


def _fill_controller(data: Json) -> None:
    _fill_replicas(data)
    labels = (data["spec"].get("template") or {}).get("metadata", {}).get("labels")
    if labels:
        data["spec"].setdefault("selector", dict(labels))
        data["metadata"].setdefault("labels", dict(labels))


def _fill_deployment(data: Json) -> None:
    _fill_replicas(data)
    spec = data["spec"]
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        update = strategy.setdefault("rollingUpdate", {})
        update.setdefault("maxUnavailable", "25%")
        update.setdefault("maxSurge", "25%")


def _fill_stateful_set(data: Json) -> None:
    _fill_replicas(data)
    spec = data["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})


def _fill_daemon_set(data: Json) -> None:
    spec = data["spec"]
    _fill_template(spec)
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {"maxUnavailable": 1, "maxSurge": 0})


def _fill_job(data: Json) -> None:
    spec = data["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for name, value in (
        ("parallelism", 1),
        ("backoffLimit", 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("manualSelector", False),
        ("podReplacementPolicy", "TerminatingOrFailed"),
    ):
        spec.setdefault(name, value)
    _fill_template(spec)


def _fill_namespace(data: Json) -> None:
    if name := data["metadata"].get("name"):
        data["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def _setter(*rows: tuple[str, Any]) -> Callable[[Json], None]:
    """Return a filler from rows: the path of a field below an object, and its default."""

    def fill(data: Json) -> None:
        for path, value in rows:
            *steps, last = path.split(".")
            target = data
            for step in steps:
                target = target.setdefault(step, {})
            target.setdefault(last, value() if callable(value) else value)

    return fill


def _fill_webhooks(data: Json) -> None:
    for hook in data.get("webhooks") or ():
        for name, value in (
            ("failurePolicy", "Fail"),
            ("matchPolicy", "Equivalent"),
            ("timeoutSeconds", 10),
        ):
            hook.setdefault(name, value)
        if data["kind"].startswith("Mutating"):
            hook.setdefault("reinvocationPolicy", "Never")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        if "service" in hook.get("clientConfig", {}):
            hook["clientConfig"]["service"].setdefault("port", 443)
        _fill_rules(hook.get("rules"))


def _fill_rules(rules: list[Json] | None) -> None:
    for rule in rules or ():
        rule.setdefault("scope", "*")


def _fill_constraints(constraints: Json) -> None:
    constraints.setdefault("matchPolicy", "Equivalent")
    constraints.setdefault("namespaceSelector", {})
    constraints.setdefault("objectSelector", {})
    _fill_rules(constraints.get("resourceRules"))


def _fill_policy(data: Json) -> None:
    data["spec"].setdefault("failurePolicy", "Fail")
    if "matchConstraints" in data["spec"]:
        _fill_constraints(data["spec"]["matchConstraints"])


def _fill_policy_binding(data: Json) -> None:
    if "matchResources" in data["spec"]:
        _fill_constraints(data["spec"]["matchResources"])


def _fill_claim_requests(spec: Json) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly")
        for each in [*([exactly] if exactly else ()), *(request.get("firstAvailable") or ())]:
            each.setdefault("allocationMode", "ExactCount")
            if each["allocationMode"] == "ExactCount":
                each["count"] = each.get("count") or 1


def _fill_claim_template(data: Json) -> None:
    if "spec" in data.get("spec", {}):
        _fill_claim_requests(data["spec"]["spec"])


def _fill_endpoint_slice(data: Json) -> None:
    for port in data.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


_FILLERS: dict[str, Callable[[Json], None]] = {
    "Pod": _fill_pod,
    "Node": _fill_node,
    "ReplicaSet": _fill_replicas,
    "ReplicationController": _fill_controller,
    "Deployment": _fill_deployment,
    "StatefulSet": _fill_stateful_set,
    "DaemonSet": _fill_daemon_set,
    "Job": _fill_job,
    "Secret": _setter(("type", "Opaque")),
    "PersistentVolumeClaim": _setter(("spec.volumeMode", "Filesystem"), ("status.phase", "Pending")),
    "PersistentVolume": _setter(
        ("spec.volumeMode", "Filesystem"),
        ("spec.persistentVolumeReclaimPolicy", "Retain"),
        ("status.phase", "Pending"),
    ),
    "StorageClass": _setter(("reclaimPolicy", "Delete"), ("volumeBindingMode", "Immediate")),
    "PriorityClass": _setter(("preemptionPolicy", "PreemptLowerPriority")),
    "CSIDriver": _setter(
        ("spec.attachRequired", True),
        ("spec.podInfoOnMount", False),
        ("spec.fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("spec.storageCapacity", False),
        ("spec.volumeLifecycleModes", lambda: ["Persistent"]),
        ("spec.requiresRepublish", False),
        ("spec.seLinuxMount", False),
    ),
    "Service": _setter(
        ("spec.type", "ClusterIP"),
        ("spec.sessionAffinity", "None"),
        ("spec.internalTrafficPolicy", "Cluster"),
        ("spec.ipFamilyPolicy", "SingleStack"),
        ("spec.ipFamilies", lambda: ["IPv4"]),
    ),
    "ValidatingWebhookConfiguration": _fill_webhooks,
    "MutatingWebhookConfiguration": _fill_webhooks,
    "ValidatingAdmissionPolicy": _fill_policy,
    "ValidatingAdmissionPolicyBinding": _fill_policy_binding,
    "ResourceClaim": lambda data: _fill_claim_requests(data.get("spec", {})),
    "ResourceClaimTemplate": _fill_claim_template,
    "EndpointSlice": _fill_endpoint_slice,
    "Namespace": _fill_namespace,
}
