"""Decodes objects of Kubernetes' own kinds as Go's structs do: types, unknown fields, empty fields.

The server stores what its structs encode. So a field with an empty value is left out if the struct says
`omitempty`, and present if not. The OpenAPI document has a default for each field of the second sort. It does
not tell a pointer from a value. `_VALUES` and `_POINTERS` do that for numbers, booleans and texts.
"""

from typing import Any

import msgspec

from world.api.amounts import AmountError, canonical_micro_time, canonical_quantity, canonical_time
from world.api.schemas import META, BuiltinSchema, definition, resolved

Json = dict[str, Any]

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_FIELDS = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"
_API = "io.k8s.api."
_INT32 = 2**31
_INT64 = 2**63
_ABSENT: Any = msgspec.UNSET

# Numbers and booleans that are values with `omitempty`: 0 and false are left out. All others are pointers.
_VALUES = frozenset(
    {
        *("hostNetwork", "hostPID", "hostIPC", "readOnly", "stdin", "stdinOnce", "tty", "unschedulable"),
        *("globalDefault", "publishNotReadyAddresses", "hostPort", "nodePort", "count", "generation"),
        *("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"),
        *(
            "minReadySeconds",
            "observedGeneration",
            "readyReplicas",
            "availableReplicas",
            "fullyLabeledReplicas",
        ),
        *("updatedReplicas", "currentReplicas", "unavailableReplicas", "active", "succeeded", "failed"),
        *("numberUnavailable", "numberAvailable", "updatedNumberScheduled", "adminAccess", "signal"),
    }
)
# Texts that are pointers, so an empty one is kept.
_POINTERS = frozenset({"holderIdentity", "storageClassName", "preferredHolder"})
# Required lists that are left out all the same if they are absent.
_OMITTED = frozenset({"validationActions"})
_NULL_TIMES = {
    "core.v1.PodCondition": ("lastProbeTime", "lastTransitionTime"),
    "core.v1.NodeCondition": ("lastHeartbeatTime", "lastTransitionTime"),
    "core.v1.Event": ("firstTimestamp", "lastTimestamp", "eventTime"),
    "core.v1.PersistentVolumeClaimCondition": ("lastProbeTime", "lastTransitionTime"),
    "events.v1.Event": ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"),
    "batch.v1.JobCondition": ("lastProbeTime", "lastTransitionTime"),
    "apps.v1.ReplicaSetCondition": ("lastTransitionTime",),
    "apps.v1.StatefulSetCondition": ("lastTransitionTime",),
    "apps.v1.DeploymentCondition": ("lastUpdateTime", "lastTransitionTime"),
    "core.v1.ReplicationControllerCondition": ("lastTransitionTime",),
    "core.v1.ContainerStateRunning": ("startedAt",),
    "core.v1.ContainerStateTerminated": ("startedAt", "finishedAt"),
}


class DecodingError(ValueError):
    """A body that does not fit the struct of its kind."""


class Decoder:
    """Decodes one object, and collects the fields that its kind does not have."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def decode(self, schema: BuiltinSchema, value: Json) -> Json:
        """Return an object as its struct would encode it. Raises DecodingError."""
        return self._struct(schema, value, "")

    def metadata(self, value: object) -> Json:
        """Return the metadata of an object of any kind. Raises DecodingError."""
        if not isinstance(value, dict):
            raise DecodingError("json: cannot unmarshal metadata into Go value of type v1.ObjectMeta")
        return self._struct(definition(META), value, "metadata")

    def _value(self, schema: BuiltinSchema, value: Any, path: str) -> Any:  # noqa: PLR0911 -- one for each type
        special = _SPECIAL.get(schema.ref)
        if special is not None:
            return special(value)
        schema = resolved(schema)
        if schema.properties:
            return self._struct(schema, _typed(value, dict, path), path)
        match schema.type:
            case "array":
                return self._list(schema, value, path)
            case "object" if schema.additional_properties is not None:
                below = schema.additional_properties
                entries = _typed(value, dict, path)
                return {key: self._value(below, each, f"{path}.{key}") for key, each in entries.items()}
            case "string":
                return _typed(value, str, path)
            case "integer":
                return _integer(schema, value, path)
            case "boolean":
                return _typed(value, bool, path)
        return value

    def _list(self, schema: BuiltinSchema, value: Any, path: str) -> list[Any]:
        below = schema.items
        if below is None:
            return list(_typed(value, list, path))
        return [
            self._value(
                below, {} if each is None and resolved(below).properties else each, f"{path}[{index}]"
            )
            for index, each in enumerate(_typed(value, list, path))
        ]

    def _struct(self, schema: BuiltinSchema, value: Json, path: str) -> Json:
        found: Json = {}
        for name, each in value.items():
            below = schema.properties.get(name)
            field = f"{path}.{name}" if path else name
            if below is None:
                self.unknown.append(field)
            elif each is not None:
                decoded = self._value(below, each, field)
                if below.default is not _ABSENT or not _is_empty(name, below, decoded, schema):
                    found[name] = decoded
        for name, below in _defaulted(schema):
            if name not in found:
                found[name] = self._value(below, below.default, "") if below.default is not _ABSENT else None
        return found


def _typed(value: Any, kind: type, path: str) -> Any:
    if type(value) is not kind:
        raise DecodingError(f"json: cannot unmarshal {type(value).__name__} into Go struct field {path}")
    return value


def _integer(schema: BuiltinSchema, value: Any, path: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    limit = _INT32 if schema.format == "int32" else _INT64
    if type(value) is not int or not -limit <= value < limit:
        raise DecodingError(
            f"json: cannot unmarshal number into Go struct field {path} of type {schema.format}"
        )
    return value


def _is_empty(name: str, schema: BuiltinSchema, value: Any, parent: BuiltinSchema) -> bool:
    """Return whether `omitempty` leaves a value out."""
    if value == "":
        return name not in _POINTERS
    if isinstance(value, bool | int) and not value:
        return name in _VALUES
    if value == []:
        return name not in parent.required
    return value == {} and not resolved(schema).properties


_known_defaults: dict[int, list[tuple[str, BuiltinSchema]]] = {}


def _defaulted(schema: BuiltinSchema) -> list[tuple[str, BuiltinSchema]]:
    """Return the fields that are always encoded."""
    known = _known_defaults.get(id(schema))
    if known is None:
        known = _known_defaults[id(schema)] = [
            (name, each)
            for name, each in schema.properties.items()
            if each.default is not _ABSENT
            or (name in schema.required and each.type == "array" and name not in _OMITTED)
        ]
        known += [(name, schema.properties[name]) for name in _null_times(schema)]
    return known


def _null_times(schema: BuiltinSchema) -> tuple[str, ...]:
    return next((names for kind, names in _NULL_TIMES.items() if definition(_API + kind) is schema), ())


def _quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DecodingError("json: cannot unmarshal into Go value of type resource.Quantity")
    return _checked(canonical_quantity, str(value))


def _time(value: Any) -> str:
    return _checked(canonical_time, _typed(value, str, "time"))


def _micro_time(value: Any) -> str:
    return _checked(canonical_micro_time, _typed(value, str, "time"))


def _checked(canonical: Any, text: str) -> str:
    try:
        result: str = canonical(text)
    except AmountError as error:
        raise DecodingError(str(error)) from None
    return result


_SPECIAL: dict[str, Any] = {
    _QUANTITY: _quantity,
    _TIME: _time,
    _MICRO_TIME: _micro_time,
    _FIELDS: lambda value: value,
}
