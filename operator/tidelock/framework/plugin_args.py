"""Args of plugins: how they are read, and those that several plugins have."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from tidelock.model.quantities import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    QuantityError,
    Resources,
    parse_quantity,
)

T = TypeVar("T")


class ResourceWeight(msgspec.Struct, frozen=True):
    """A resource that counts in a score. A weight of 0 stands for 1, as in kube-scheduler."""

    name: str
    weight: int = 1

    @property
    def counts(self) -> int:
        """The weight that counts."""
        return self.weight or 1

    @property
    def extended(self) -> bool:
        """Whether it only counts for pods that request it."""
        return self.name not in (CPU, MEMORY, EPHEMERAL_STORAGE)


CPU_AND_MEMORY = (ResourceWeight(CPU), ResourceWeight(MEMORY))
"""The resources that count if the args name none."""


class IgnoredResources(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Args of plugins that count resources: extended ones may be left to others."""

    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()

    def ignores(self, resource: str) -> bool:
        """Return whether an extended resource is ignored, by its name or by the prefix before its slash."""
        group = resource.partition("/")[0]
        named = resource in self.ignored_resources or group in self.ignored_resource_groups
        return named and _extended(resource)

    def counted(self, resources: Resources) -> Resources:
        """Return amounts without ignored resources."""
        if not self.ignored_resources and not self.ignored_resource_groups:
            return resources
        return {name: units for name, units in resources.items() if not self.ignores(name)}


def _extended(resource: str) -> bool:
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def quantity_of(plugin: str, field: str, resource: str, text: str) -> int:
    """Read a quantity among a plugin's args. Raises ValueError if it is invalid or not above 0."""
    try:
        units = parse_quantity(resource, text)
    except QuantityError as error:
        raise ValueError(f"pluginConfig of {plugin}: {field}: {error}") from error
    if units <= 0:
        raise ValueError(f"pluginConfig of {plugin}: {field}: {text!r} is not more than 0")
    return units


def read_args(plugin: str, args: Mapping[str, Any], kind: type[T]) -> T:
    """Read a plugin's args as one type.

    Raises:
        ValueError: a field is unknown, or its value is of another type.

    """
    unknown = sorted(args.keys() - {field.encode_name for field in msgspec.structs.fields(kind)})  # type: ignore[arg-type]
    if unknown:
        raise ValueError(f"pluginConfig of {plugin}: unknown args {unknown}")
    try:
        return msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"pluginConfig of {plugin}: {error}") from error
