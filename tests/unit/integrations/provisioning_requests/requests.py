"""ProvisioningRequests, PodTemplates and their groups, as the API server stores them."""

from collections.abc import Mapping
from typing import Any

from builders import NAMESPACE, NOW, Json, encode
from tidelock.integrations.provisioning_requests.request import (
    CLASS_NAME,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    ProvisioningRequest,
    decode_request,
)
from tidelock.model.instants import format_instant
from tidelock.model.reservation_group import ReservationGroup, decode_group

PATH = PROVISIONING_REQUESTS.item("job-hold-1", NAMESPACE)
TEMPLATE: Json = {
    "metadata": {"labels": {"app": "train"}, "creationTimestamp": None},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "example.org/train",
                "env": [{"name": "TOKEN", "value": "secret"}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
        "schedulerName": "tidelock-scheduler",
    },
}
ACTIVE: Json = {
    "phase": "Active",
    "expiresAt": "2027-01-15T08:10:00Z",
    "conditions": [
        {
            "type": "Active",
            "status": "True",
            "reason": "Admitted",
            "message": "2 of 2 reservations held, 0 taken by their pods",
            "lastTransitionTime": format_instant(NOW),
        }
    ],
}


def request_json(
    *,
    uid: str = "uid-request",
    pod_sets: Mapping[str, int] | None = None,
    parameters: Mapping[str, str] | None = None,
    class_name: str = CLASS_NAME,
    status: Json | None = None,
    name: str = "job-hold-1",
) -> Json:
    """Build a request. `pod_sets` has the count for each PodTemplate."""
    sets = {"template": 2} if pod_sets is None else pod_sets
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": format_instant(NOW),
        },
        "spec": {
            "provisioningClassName": class_name,
            "parameters": dict(parameters or {}),
            "podSets": [{"podTemplateRef": {"name": each}, "count": count} for each, count in sets.items()],
        },
        "status": status or {},
    }


def request(**fields: Any) -> ProvisioningRequest:
    return decode_request(encode(request_json(**fields)))


def template_path() -> str:
    return POD_TEMPLATES.item("template", NAMESPACE)


def group(owner: ProvisioningRequest, status: Json | None = None) -> ReservationGroup:
    """Return the stored group of a request."""
    made = owner.group([TEMPLATE] * len(owner.pod_sets))
    made["metadata"] |= {"uid": "uid-group", "resourceVersion": "1", "generation": 1}
    return decode_group(encode(made | {"status": status or {"observedGeneration": -1}}))


def ended(phase: str, reason: str, message: str) -> Json:
    """Return the status of a group without capacity."""
    given = {"status": "False", "reason": reason, "message": message}
    return {"phase": phase, "conditions": [ACTIVE["conditions"][0] | given]}


def conditions(status: Json) -> dict[str, str]:
    """Return the status of each condition by its type."""
    return {each["type"]: each["status"] for each in status.get("conditions", ())}
