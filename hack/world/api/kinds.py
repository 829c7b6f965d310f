"""The kinds that the server has, and the rules by which the API server treats each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from world.api.custom import CustomSchema

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One resource of the API.

    Attributes:
        group: API group, empty for the core.
        version: version that is served and stored.
        plural: name in paths.
        kind: name in objects.
        namespaced: whether objects belong to a namespace.
        subresources: served below an object.
        generation: whether the server counts versions of the spec.
        unconditional: whether an update needs no resourceVersion.
        upsert: whether a PUT may create the object.
        returned: whether a deletion answers with the object.
        selectable: paths of the fields that field selectors know, beside name and namespace.
        short: short name for kubectl, may be empty.
        custom: the schema of a CustomResourceDefinition's kind, or None for a kind of Kubernetes.

    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: frozenset[str] = frozenset()
    generation: bool = False
    unconditional: bool = True
    upsert: bool = False
    returned: bool = False
    selectable: Mapping[str, str] = field(default_factory=dict)
    custom: CustomSchema | None = None
    short: str = ""

    @property
    def api_version(self) -> str:
        """Group and version, as objects carry them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Plural and group, as messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified(self) -> str:
        """Kind and group, as messages name the kind."""
        return f"{self.kind}.{self.kind_group}" if self.kind_group else self.kind

    @property
    def kind_group(self) -> str:
        """The group of the kind in messages, which for an Event is the core group."""
        return "" if self.kind == "Event" else self.group

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object, by which lists are sorted."""
        return f"{namespace}/{name}" if self.namespaced else name


def _kinds(group: str, version: str, *rows: str, namespaced: bool = True, **rules: Any) -> Iterable[Kind]:
    """Yield kinds from rows: plural, kind and subresources."""
    for row in rows:
        plural, kind, *subresources = row.split()
        yield Kind(group, version, plural, kind, namespaced, frozenset(subresources), **rules)


_POD_FIELDS = {
    name: name
    for name in (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    )
}
_EVENT_FIELDS = {
    f"involvedObject.{name}": f"involvedObject.{name}"
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
} | {name: name for name in ("reason", "reportingComponent", "source", "type")}

_NEW_EVENT_FIELDS = {
    "reason": "reason",
    "type": "type",
    "reportingController": "reportingComponent",
    **{
        name.replace("involvedObject", "regarding"): name
        for name in _EVENT_FIELDS
        if name.startswith("involved")
    },
}

BUILTIN: tuple[Kind, ...] = (
    Kind(
        *("", "v1", "pods", "Pod"),
        subresources=frozenset({"status", "binding", "eviction", "resize", "ephemeralcontainers"}),
        generation=True,
        returned=True,
        selectable=_POD_FIELDS,
    ),
    Kind(
        "",
        "v1",
        "nodes",
        "Node",
        False,
        frozenset({"status"}),
        selectable={"spec.unschedulable": "spec.unschedulable"},
    ),
    Kind(
        "",
        "v1",
        "namespaces",
        "Namespace",
        False,
        frozenset({"status", "finalize"}),
        returned=True,
        selectable={"status.phase": "status.phase"},
    ),
    Kind("", "v1", "events", "Event", upsert=True, selectable=_EVENT_FIELDS),
    *_kinds("", "v1", "configmaps ConfigMap"),
    Kind("", "v1", "secrets", "Secret", selectable={"type": "type"}),
    *_kinds("", "v1", "services Service status", upsert=True, returned=True),
    *_kinds("", "v1", "endpoints Endpoints", upsert=True),
    *_kinds("", "v1", "serviceaccounts ServiceAccount", "resourcequotas ResourceQuota status", returned=True),
    *_kinds("", "v1", "limitranges LimitRange", upsert=True),
    *_kinds("", "v1", "persistentvolumeclaims PersistentVolumeClaim status", returned=True),
    *_kinds("", "v1", "persistentvolumes PersistentVolume status", namespaced=False, returned=True),
    *_kinds("", "v1", "replicationcontrollers ReplicationController status scale", generation=True),
    *_kinds(
        *("apps", "v1", "replicasets ReplicaSet status scale", "statefulsets StatefulSet status scale"),
        *("deployments Deployment status scale", "daemonsets DaemonSet status"),
        generation=True,
    ),
    *_kinds("batch", "v1", "jobs Job status", generation=True),
    *_kinds(
        *("policy", "v1", "poddisruptionbudgets PodDisruptionBudget status"),
        generation=True,
        unconditional=False,
    ),
    *_kinds("coordination.k8s.io", "v1", "leases Lease", upsert=True, unconditional=False),
    *_kinds("discovery.k8s.io", "v1", "endpointslices EndpointSlice", generation=True),
    *_kinds(
        "resource.k8s.io",
        "v1",
        "resourceclaims ResourceClaim status",
        "resourceclaimtemplates ResourceClaimTemplate",
        returned=True,
    ),
    *_kinds(
        *("resource.k8s.io", "v1", "resourceslices ResourceSlice", "deviceclasses DeviceClass"),
        namespaced=False,
        returned=True,
        generation=True,
    ),
    *_kinds("scheduling.k8s.io", "v1", "priorityclasses PriorityClass", namespaced=False, generation=True),
    *_kinds("storage.k8s.io", "v1", "storageclasses StorageClass", namespaced=False),
    *_kinds("storage.k8s.io", "v1", "csinodes CSINode", "csidrivers CSIDriver", namespaced=False),
    *_kinds("storage.k8s.io", "v1", "volumeattachments VolumeAttachment status", namespaced=False),
    *_kinds("storage.k8s.io", "v1", "csistoragecapacities CSIStorageCapacity"),
    *_kinds(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations ValidatingWebhookConfiguration",
        "mutatingwebhookconfigurations MutatingWebhookConfiguration",
        "validatingadmissionpolicies ValidatingAdmissionPolicy status",
        "validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding",
        namespaced=False,
        generation=True,
        unconditional=False,
    ),
    *_kinds(
        "rbac.authorization.k8s.io",
        "v1",
        "clusterroles ClusterRole",
        "clusterrolebindings ClusterRoleBinding",
        namespaced=False,
    ),
    *_kinds("rbac.authorization.k8s.io", "v1", "roles Role", "rolebindings RoleBinding"),
    *_kinds(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions CustomResourceDefinition status",
        namespaced=False,
        generation=True,
        unconditional=False,
    ),
    Kind("events.k8s.io", "v1", "events", "Event", upsert=True, selectable=_NEW_EVENT_FIELDS),
)
"""The kinds of Kubernetes that the server stores. The events of both groups are the same objects."""

REVIEWS = frozenset(
    {
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
    }
)
"""Resources that are only asked, and not stored."""
