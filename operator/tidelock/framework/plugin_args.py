"""Args of plugins: how they are read, and those that several plugins have."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from tidelock.model.meta import field_path
from tidelock.model.quantities import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    QuantityError,
    Resources,
    parse_quantity,
)
from tidelock.model.selectors import is_qualified_name

T = TypeVar("T")


def refuse_args(plugin: str, problems: Iterable[str]) -> None:
    """Raise ValueError with all problems of a plugin's args, if there are any."""
    if text := "; ".join(problems):
        raise ValueError(f"pluginConfig of {plugin}: {text}")


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
        return named and is_extended(resource)

    def problems(self) -> Iterator[str]:
        """Yield the names that kube-scheduler refuses."""
        for resource in sorted(self.ignored_resources):
            if not is_qualified_name(resource):
                yield f"ignoredResources: {resource!r} is not a valid name of a resource"
        for group in sorted(self.ignored_resource_groups):
            if "/" in group or not is_qualified_name(group):
                yield f"ignoredResourceGroups: {group!r} is not a valid name without a slash"

    def counted(self, resources: Resources) -> Resources:
        """Return amounts without ignored resources."""
        if not self.ignored_resources and not self.ignored_resource_groups:
            return resources
        return {name: units for name, units in resources.items() if not self.ignores(name)}


def is_extended(resource: str) -> bool:
    """Return whether a resource is an extended one, by its name."""
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
        ValueError: a field at any depth is unknown, or its value is of another type.

    """
    try:
        read = msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"pluginConfig of {plugin}: {error}") from error
    if unknown := sorted(map(field_path, _unknown(args, msgspec.to_builtins(read)))):
        raise ValueError(f"pluginConfig of {plugin}: unknown args {unknown}")
    return read


def _unknown(
    given: object, read: object, path: tuple[int | str, ...] = ()
) -> Iterator[tuple[int | str, ...]]:
    """Yield the paths of the fields that were given and are no part of what was read."""
    if isinstance(given, Mapping) and isinstance(read, Mapping):
        for name, value in given.items():
            if name in read:
                yield from _unknown(value, read[name], (*path, name))
            else:
                yield (*path, name)
    elif isinstance(given, list | tuple) and isinstance(read, list | tuple):
        for index, (item, known) in enumerate(zip(given, read, strict=False)):
            yield from _unknown(item, known, (*path, index))
