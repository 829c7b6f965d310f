"""Amounts in columns: one unit for each resource, so that a column can be compared at a glance."""

from collections.abc import Iterable

from tidelock.model.quantities import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

_GIBI = 2**30


def amount(resource: str, units: float) -> str:
    """Format an amount: cores of cpu, Gi of memory and storage, or a number of devices."""
    if resource == CPU:
        return f"{units / 1000:.2f}"
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        return f"{units / _GIBI:.1f}Gi"
    return f"{units:.0f}"


def shown_columns(all_amounts: Iterable[Resources]) -> list[str]:
    """Return the resources that get a column: cpu, memory, and the others that occur, by name."""
    named = {name for amounts in all_amounts for name in amounts}
    return [CPU, MEMORY, *sorted(named - {CPU, MEMORY, PODS})]


def cells_of(resources: Resources, columns: Iterable[str]) -> list[str]:
    """Return the cells of these columns. An absent amount has an empty one."""
    return [amount(name, resources[name]) if name in resources else "" for name in columns]
