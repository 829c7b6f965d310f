"""Builders of resource claims, slices of devices and their classes, as the API server would return them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from builders import NAMESPACE, Json, encode
from tidelock.cluster.objects import Objects
from tidelock.devices.errors import SelectorError
from tidelock.devices.selection import CompiledSelector
from tidelock.model.devices import (
    Device,
    DeviceClass,
    DeviceTaintRule,
    ResourceSlice,
    decode_device_class,
    decode_slice,
    decode_taint_rule,
)
from tidelock.model.resource_claims import (
    ResourceClaim,
    ResourceClaimTemplate,
    decode_resource_claim,
    decode_resource_claim_template,
)

DRIVER = "gpu.example.com"


def attributes(**values: Any) -> Json:
    """Build attributes from Python values."""
    kinds = {bool: "bool", int: "int", str: "string"}
    return {name: {kinds[type(value)]: value} for name, value in values.items()}


def device(name: str, *, model: str = "", amounts: Mapping[str, str] | None = None, **fields: Any) -> Json:
    """Build a device. `amounts` are its capacity without policies."""
    plain: Json = {"name": name, **fields}
    if model:
        plain["attributes"] = attributes(model=model) | plain.get("attributes", {})
    if amounts:
        plain["capacity"] = {key: {"value": value} for key, value in amounts.items()}
    return plain


def slice_json(
    name: str,
    *devices: Json | str,
    pool: str = "",
    node_name: str = "",
    generation: int = 1,
    slices: int = 1,
    driver: str = DRIVER,
    version: int = 1,
    **spec: Any,
) -> Json:
    """Build a slice. It is for a node, unless another field selects nodes."""
    if node_name or not spec.keys() & {"allNodes", "nodeSelector", "perDeviceNodeSelection"}:
        spec["nodeName"] = node_name or "node-a"
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": {
            "driver": driver,
            "pool": {"name": pool or name, "generation": generation, "resourceSliceCount": slices},
            "devices": [{"name": each} if isinstance(each, str) else each for each in devices],
            **spec,
        },
    }


def device_slice(name: str, *devices: Json | str, **fields: Any) -> ResourceSlice:
    return decode_slice(encode(slice_json(name, *devices, **fields)))


def device_class(
    name: str = "gpu", *expressions: str, config: Sequence[Json] = (), resource: str = "", created: str = ""
) -> DeviceClass:
    spec: Json = {"selectors": selectors(*expressions), "config": list(config)}
    if resource:
        spec["extendedResourceName"] = resource
    metadata = {"name": name, "uid": f"uid-{name}"} | ({"creationTimestamp": created} if created else {})
    return decode_device_class(encode({"metadata": metadata, "spec": spec}))


def taint_rule(name: str, effect: str = "NoSchedule", **selector: str) -> DeviceTaintRule:
    spec: Json = {"taint": {"key": name, "effect": effect}}
    if selector:
        spec["deviceSelector"] = selector
    return decode_taint_rule(encode({"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec}))


def selectors(*expressions: str) -> list[Json]:
    return [{"cel": {"expression": each}} for each in expressions]


def wanting(*expressions: str, count: int = 1, of_class: str = "gpu", **fields: Any) -> Json:
    """Build a request for a number of devices, without a name."""
    return {
        "deviceClassName": of_class,
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": selectors(*expressions),
        **fields,
    }


def wanting_all(*expressions: str, **fields: Any) -> Json:
    """Build a request for all devices, without a name."""
    return wanting(*expressions, **fields) | {"allocationMode": "All", "count": 0}


def request(name: str = "gpu", *alternatives: Json) -> Json:
    """Build a request of a claim. Several alternatives are named by letters."""
    if not alternatives:
        return {"name": name, "exactly": wanting()}
    if len(alternatives) == 1:
        return {"name": name, "exactly": alternatives[0]}
    named = [{"name": letter, **each} for letter, each in zip("abcdefgh", alternatives, strict=False)]
    return {"name": name, "firstAvailable": named}


def claim_json(
    name: str = "gpu",
    *requests: Json,
    constraints: Iterable[Json] = (),
    config: Iterable[Json] = (),
    status: Json | None = None,
    owner: str = "",
    deleted: bool = False,
    version: int = 1,
) -> Json:
    """Build a claim for one device, or for the devices of these requests."""
    metadata: Json = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
    }
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}"}
        metadata["ownerReferences"] = [reference | {"controller": True}]
    if deleted:
        metadata["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    devices = {
        "requests": list(requests) or [request()],
        "constraints": list(constraints),
        "config": list(config),
    }
    return {"metadata": metadata, "spec": {"devices": devices}, "status": status or {}}


def resource_claim(name: str = "gpu", *requests: Json, **fields: Any) -> ResourceClaim:
    return decode_resource_claim(encode(claim_json(name, *requests, **fields)))


def claim_template(name: str = "gpus", *requests: Json, **fields: Any) -> ResourceClaimTemplate:
    """Build a template of claims for one device, or for the devices of these requests."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": "1"}
    spec = claim_json("gpu", *requests, **fields)["spec"]
    return decode_resource_claim_template(encode({"metadata": metadata, "spec": {"spec": spec}}))


def pod_template(*templates: str, cpu: str = "1", named: Sequence[str] = ()) -> Json:
    """Build the template of a pod with claims from templates of these names, and with existing claims."""
    claims: list[Json] = [{"name": each, "resourceClaimTemplateName": each} for each in templates]
    claims += [{"name": each, "resourceClaimName": each} for each in named]
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container], "resourceClaims": claims}}


def claiming_from(*templates: str, pod: str = "web-0") -> Json:
    """Build the spec and status of a pod whose claims were made from templates: `web-0-gpus` from `gpus`."""
    statuses = [{"name": each, "resourceClaimName": f"{pod}-{each}"} for each in templates]
    claims = [{"name": each, "resourceClaimTemplateName": each} for each in templates]
    return {"resourceClaims": claims, "status": {"resourceClaimStatuses": statuses}}


def allocated(
    *devices: str, pool: str = "a", node_name: str = "", users: Iterable[str] = (), **result: Any
) -> Json:
    """Build the status of a claim with these devices, for pods with these names."""
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": pool, "device": each, **result} for each in devices
    ]
    allocation: Json = {"devices": {"results": results}}
    if node_name:
        field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    consumers = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in users]
    return {"allocation": allocation, "reservedFor": consumers}


def claiming(*claims: str) -> Json:
    """Build the part of a pod's spec that uses existing claims."""
    return {"resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims]}


Thing = ResourceClaim | ResourceClaimTemplate | ResourceSlice | DeviceClass | DeviceTaintRule


def put(objects: Objects, *things: Thing) -> None:
    """Add these objects to the listers, or replace their earlier versions."""
    for each in things:
        lister: Any = {
            ResourceClaim: objects.resource_claims,
            ResourceClaimTemplate: objects.resource_claim_templates,
            ResourceSlice: objects.resource_slices,
            DeviceClass: objects.device_classes,
            DeviceTaintRule: objects.device_taint_rules,
        }[type(each)]
        lister.upsert(lister.get(each.meta.name, each.meta.namespace), each)


def compile_model(expression: str) -> CompiledSelector:
    """Compile expressions of tests: a model that devices must have, `fails` or `broken`."""
    if expression == "broken":
        raise SelectorError("syntax error")

    def matches(driver: str, device: Device) -> tuple[bool, int]:
        assert driver
        found = device.attribute("model", driver)
        if expression == "fails" or found is None:
            raise SelectorError("no such key: model")
        return found.text == expression, 1

    return matches
