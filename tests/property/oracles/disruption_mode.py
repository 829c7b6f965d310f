"""Preemption with PodGroups by the rules of kube-scheduler 1.37, one node and one victim at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from property.oracles.default_preemption import started, violating
from tidelock.cluster.pod_groups import group_of
from tidelock.model.budgets import PodDisruptionBudget
from tidelock.model.pod_group import PodGroup
from tidelock.model.pods import Pod

LIFT = 2**31


@dataclass(frozen=True)
class Plan:
    """The names of the victims, and their cost: smaller is better."""

    victims: frozenset[str]
    cost: tuple[float, ...]


def plan(
    node_name: str,
    cpu: int,
    pods: Sequence[Pod],
    wanting: Pod,
    groups: Mapping[str, PodGroup],
    budgets: Sequence[PodDisruptionBudget],
) -> Plan | None:
    """Return the victims for a pod on a node with this many thousandths of a cpu, or None if none help."""
    units = [unit for unit in units_of(pods, groups) if any(each.node_name == node_name for each in unit)]
    below = [unit for unit in units if importance(unit, groups)[0] > -wanting.spec.priority]
    below.sort(key=lambda unit: importance(unit, groups))
    free = cpu - sum(on(node_name, unit) for unit in units if unit not in below) - request(wanting)
    if not below or free < 0:
        return None
    protected = violating([pod for unit in below for pod in unit], budgets)
    gone = []
    for unit in sorted(below, key=lambda unit: not any(pod.uid in protected for pod in unit)):
        if on(node_name, unit) <= free:
            free -= on(node_name, unit)
        else:
            gone.append(unit)
    leaving = [pod for unit in gone for pod in unit]
    if not leaving:
        return None
    highest = max(pod.spec.priority for pod in leaving)
    cost = (
        sum(pod.uid in protected for pod in leaving),
        highest,
        sum(pod.spec.priority + LIFT for pod in leaving),
        len(leaving),
        -min(started(pod) for pod in leaving if pod.spec.priority == highest),
    )
    return Plan(frozenset(pod.meta.name for pod in leaving), cost)


def units_of(pods: Sequence[Pod], groups: Mapping[str, PodGroup]) -> list[list[Pod]]:
    """Return the pods that go together: all of a group of the mode All, and each other pod by itself."""

    def unit(pod: Pod) -> str:
        group = of(pod, groups)
        together = group is not None and group.spec.disruption_mode.all is not None
        return f"group {group.meta.name}" if group is not None and together else f"pod {pod.meta.name}"

    return [list(members) for _, members in groupby(sorted(pods, key=unit), key=unit)]


def importance(unit: Sequence[Pod], groups: Mapping[str, PodGroup]) -> tuple[float, ...]:
    """Sort the more important units first."""
    group = of(unit[0], groups)
    priority = unit[0].spec.priority if group is None else group.spec.priority
    return -priority, group_of(unit[0]) is None, -len(unit), min(map(started, unit))


def of(pod: Pod, groups: Mapping[str, PodGroup]) -> PodGroup | None:
    key = group_of(pod)
    return groups.get(key.name) if key is not None else None


def on(node_name: str, unit: Sequence[Pod]) -> int:
    return sum(request(pod) for pod in unit if pod.node_name == node_name)


def request(pod: Pod) -> int:
    return pod.requests.get("cpu", 0)
