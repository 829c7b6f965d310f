"""A ProvisioningRequest, decoded once, and the ReservationGroup that holds its capacity.

The API is that of the Cluster Autoscaler (autoscaling.x-k8s.io/v1), where Kueue's requests come from. A
request is served here if its class is `CLASS_NAME`. The class, the pod sets and the parameters of a request
can't be changed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NoReturn

import msgspec
from pydantic import Field

from tidelock.kube.client import RESERVATIONGROUPS, ApiResource
from tidelock.model.api.wire import YEAR_SECONDS, Conditions, StatusWire, legible
from tidelock.model.lenient import Reader, convert
from tidelock.model.meta import Key, ObjectMeta, StoredObject, controlled_by

PROVISIONING_REQUESTS = ApiResource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest"
)
POD_TEMPLATES = ApiResource("", "v1", "podtemplates", "PodTemplate")
CLASS_NAME = "hold.tidelock.dev"
"""Class of the requests that are served here. Kueue accepts no slash in it."""
REQUEST_LABEL = "tidelock.dev/provisioning-request"
"""Label of a ReservationGroup, with the UID of the request that it serves."""

# As long as the Cluster Autoscaler books capacity, and as long as it looks for capacity.
_DEFAULTS: Mapping[str, Any] = MappingProxyType({"ttlSeconds": 600, "pendingDeadlineSeconds": 604_800})
# A group has the name of its request, cut to this length, and a digest of the UID.
_NAME_LENGTH = 160
_DIGEST_LENGTH = 8
# Commands and variables of containers mean nothing for a reservation, and may be confidential.
_CONTAINER_FIELDS = frozenset({"name", "image", "ports", "resources", "restartPolicy"})


def _seconds(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= YEAR_SECONDS:
            raise ValueError(f"should be a whole number of seconds from {least} to {YEAR_SECONDS}")
        return int(text)

    return read


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("should be true or false")
    return text == "true"


def _unknown(_text: str) -> NoReturn:
    raise ValueError(f"is no parameter of {CLASS_NAME}, which has {', '.join(_PARAMETERS)}")


_PARAMETERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {"ttlSeconds": _seconds(1), "pendingDeadlineSeconds": _seconds(0), "borrowable": _flag}
)
"""The parameters of the class, each named for its field of the ReservationGroup, and how each is read."""
_OF_MEMBERS = frozenset({"borrowable"})


class TemplateReference(msgspec.Struct, frozen=True):
    """Name of a PodTemplate in the request's namespace."""

    name: str


class PodSet(msgspec.Struct, frozen=True, rename="camel"):
    """Pods with one template: the template's reference and the number of pods."""

    pod_template_ref: TemplateReference
    count: int


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    pod_sets: tuple[PodSet, ...]
    provisioning_class_name: str
    parameters: dict[str, str] = {}


class _Status(StatusWire):
    """The status of a request, as far as it is read here."""

    conditions: Conditions = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProvisioningRequest:
    """One version of a ProvisioningRequest.

    Attributes:
        meta: identity and version.
        class_name: the class that should serve the request.
        pod_sets: the pods for which it requests capacity.
        fields: the fields of its ReservationGroup that the parameters set, as plain JSON values.
        problem: the fields that can't be served, each with its value and the expected values.
        status: the stored status as plain JSON values.

    """

    meta: ObjectMeta
    class_name: str
    pod_sets: tuple[PodSet, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.meta.key

    @property
    def group_key(self) -> Key:
        """Namespace and name of its ReservationGroup. No other request of that name has the same."""
        digest = sha256(self.meta.uid.encode()).hexdigest()[:_DIGEST_LENGTH]
        return Key(self.meta.namespace, f"{self.meta.name[:_NAME_LENGTH].rstrip('-.')}-{digest}")

    def group(self, templates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the ReservationGroup of the request, which is deleted with it.

        Args:
            templates: the pod template of each pod set, as plain JSON values.

        """
        owner = controlled_by(self.meta, PROVISIONING_REQUESTS.api_version, PROVISIONING_REQUESTS.kind)
        of_members = {name: value for name, value in self.fields.items() if name in _OF_MEMBERS}
        of_group = {name: value for name, value in self.fields.items() if name not in _OF_MEMBERS}
        members = [
            of_members
            | {
                "name": f"set-{number}",
                "count": pods.count,
                "template": _reserved_part(template),
                "owners": [self._owner(template)],
            }
            for number, (pods, template) in enumerate(zip(self.pod_sets, templates, strict=True))
        ]
        return {
            "apiVersion": RESERVATIONGROUPS.api_version,
            "kind": RESERVATIONGROUPS.kind,
            "metadata": {
                "name": self.group_key.name,
                "namespace": self.meta.namespace,
                "labels": {REQUEST_LABEL: self.meta.uid},
                "ownerReferences": [owner],
            },
            # Retained, so that its end can be seen later.
            "spec": {"members": members, "retention": "Retain", **of_group},
        }

    def _owner(self, template: Mapping[str, Any]) -> dict[str, Any]:
        """Return the owner term of a pod set. A pod can't be edited to have another ServiceAccount."""
        owner: dict[str, Any] = {"provisioningRequest": {"name": self.meta.name}}
        account = template["spec"].get("serviceAccountName")
        return owner | ({"serviceAccountName": account} if account else {})


def _reserved_part(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod template by which a pod is placed."""
    spec = dict(template["spec"])
    for containers in ("containers", "initContainers"):
        if containers in spec:
            spec[containers] = [
                {name: value for name, value in each.items() if name in _CONTAINER_FIELDS}
                for each in spec[containers]
            ]
    labels = (template.get("metadata") or {}).get("labels")
    return {"metadata": {"labels": labels}, "spec": spec} if labels else {"spec": spec}


_READ = Reader(StoredObject)


def decode_request(raw: bytes | msgspec.Raw) -> ProvisioningRequest:
    """Decode a ProvisioningRequest from its JSON. A bad spec becomes the result's `problem`."""
    stored = _READ(raw)
    status = legible(_Status, stored.status)
    try:
        spec = convert(stored.spec, _Spec)
    except msgspec.ValidationError as error:
        class_name = str(stored.spec.get("provisioningClassName", ""))
        return ProvisioningRequest(stored.metadata, class_name, problem=f"spec: {error}", status=status)
    fields, problem = _read_parameters(spec.parameters)
    return ProvisioningRequest(
        stored.metadata,
        spec.provisioning_class_name,
        spec.pod_sets,
        fields,
        stored.problem or problem,
        status,
    )


def _read_parameters(parameters: Mapping[str, str]) -> tuple[Mapping[str, Any], str]:
    """Return the fields of a group that parameters set, and the problems of those that can't be read."""
    fields, problems = dict(_DEFAULTS), list[str]()
    for name, text in sorted(parameters.items()):
        try:
            fields[name] = _PARAMETERS.get(name, _unknown)(text)
        except ValueError as error:
            problems.append(f'spec.parameters.{name}: "{text}": {error}')
    return fields, "; ".join(problems)
