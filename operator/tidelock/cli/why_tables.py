"""The screens of `kubectl tidelock why`: a table of nodes, and on a narrow terminal groups of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelock.cli.reservations import amounts
from tidelock.cli.tables import Table
from tidelock.cli.units import amount
from tidelock.model.meta import Key
from tidelock.model.quantities import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, format_resources
from tidelock.scheduler.core.explain import NodeReport, Rejection

_WIDE_ENOUGH = 140  # cells of a terminal for the table that repeats the verdict of each node
_MOST_RESERVATIONS = 3

_BEST = "best node first"
_LEGEND = f"Amounts: used by pods + reserved, of allocatable. Points: scores times weights; {_BEST}."
_SHORT_LEGEND = f"Free: neither used by pods nor reserved. Points: scores times weights; {_BEST}."
_ITS_NODE = " * is its node."


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """A node's amounts, and their occupants: pods, and reservations with their amounts."""

    allocatable: Resources
    used: Resources
    reserved: Resources
    reservations: Mapping[Key, Resources]

    def free(self, resource: str) -> int:
        """Return the amount that is neither used nor reserved. Below 0 on an overcommitted node."""
        used, reserved = self.used.get(resource, 0), self.reserved.get(resource, 0)
        return self.allocatable.get(resource, 0) - used - reserved


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    """The answer about a pod or a reservation. `holdings` and `levels` are by the nodes' names."""

    title: str
    needs: Resources
    story: tuple[str, ...]
    reports: Sequence[NodeReport]
    holdings: Mapping[str, NodeCapacity]
    levels: Mapping[str, str]
    node: str = ""


def screen(answer: WhyAnswer, *, limit: int, wide: bool, width: int) -> list[Table | str]:
    """Return the nodes for a terminal of `width` cells, `limit` of them at most, and the sentences above."""
    shown = answer.reports[:limit] if limit else answer.reports
    fitting = sum(not each.rejections for each in answer.reports)
    needs = ", ".join(f"{name} {text}" for name, text in format_resources(answer.needs).items())
    count = f"{fitting} of {len(answer.reports)} nodes fit"
    head = f"{answer.title} needs {needs or 'only a place for a pod'}; {count}."
    grouped = width < _WIDE_ENOUGH and not wide
    table = _grouped(answer, shown) if grouped else _flat(answer, shown, wide=wide)
    parts: list[Table | str] = [head, *answer.story, "", table]
    if len(shown) < len(answer.reports):
        parts.append(f"and {len(answer.reports) - len(shown)} more nodes: --limit 0 shows all")
    return [*parts, "", (_SHORT_LEGEND if grouped else _LEGEND) + (_ITS_NODE if answer.node else "")]


def _resources(answer: WhyAnswer) -> list[str]:
    """Return the resources with a column: cpu, memory, and the others that are needed."""
    return [
        CPU,
        MEMORY,
        *sorted(name for name in answer.needs if name not in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)),
    ]


def _flat(answer: WhyAnswer, reports: Sequence[NodeReport], *, wide: bool) -> Table:
    """Return a table in which each node has its whole verdict. `wide`: a column for each score."""
    resources = _resources(answer)
    scorers = list(dict.fromkeys(name for each in answer.reports for name in each.points)) if wide else []
    used = [name.upper() for name in resources]
    columns = ["NODE", *used, "RESERVED BY", "WATER LEVEL", *scorers, *(["TOTAL"] if wide else []), "VERDICT"]
    rows = []
    for each in reports:
        capacity = answer.holdings[each.node.name]
        scores = [f"{each.points[name]:.0f}" if name in each.points else "" for name in scorers]
        total = [f"{each.total:.0f}" if each.points else ""] if wide else []
        rows.append(
            [
                f"{each.node.name} *" if each.node.name == answer.node else each.node.name,
                *(_use(capacity, resource) for resource in resources),
                _reservers(capacity),
                answer.levels[each.node.name],
                *scores,
                *total,
                _verdict(each) or ("fits" if wide or not each.points else f"fits: {_points(each)}"),
            ]
        )
    return Table(
        columns,
        rows,
        right=frozenset({*used, *scorers, "TOTAL"}),
        optional=("WATER LEVEL", *reversed(scorers), "RESERVED BY", *reversed(used)),
        names=frozenset({"NODE"}),
    )


def _grouped(answer: WhyAnswer, reports: Sequence[NodeReport]) -> Table:
    """Return a table with one line a node, below the verdict that it shares with others."""
    resources = _resources(answer)
    free = [f"FREE {name.upper()}" for name in resources]
    groups: dict[tuple[tuple[str, ...], ...], list[NodeReport]] = {}
    for each in answer.reports:
        groups.setdefault(tuple((it.plugin, *it.reasons) for it in _distinct(each)), []).append(each)
    shown = {each.node.name for each in reports}
    rows: list[list[str] | str] = []
    for members in groups.values():
        verdicts = {_verdict(each) for each in members}
        verdict = verdicts.pop() if len(verdicts) == 1 else _reasons(members[0])
        rows.append(f"{_count(len(members))}: {verdict or 'fits'}")
        for each in members:
            if each.node.name in shown:
                capacity = answer.holdings[each.node.name]
                mark = "*" if each.node.name == answer.node else " "
                # The line above the nodes has the verdict of all if they have the same one.
                numbers = "; ".join(it.detail for it in _distinct(each) if it.detail) if verdicts else ""
                rows.append(
                    [
                        f"{mark} {each.node.name}",
                        *(amount(name, capacity.free(name)) for name in resources),
                        numbers if each.rejections else _points(each),
                    ]
                )
    return Table(
        ["NODE", *free, "DETAIL"],
        rows,
        right=frozenset(free),
        optional=tuple(reversed(free[2:])),
        names=frozenset({"NODE"}),
        fold=False,
    )


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def _reservers(capacity: NodeCapacity) -> str:
    """Return the reservations with capacity on a node, and their amounts."""
    named = [f"{key} ({amounts(held)})" for key, held in capacity.reservations.items()]
    more = len(named) - _MOST_RESERVATIONS
    return ", ".join(named[:_MOST_RESERVATIONS]) + (f" and {more} more" if more > 0 else "")


def _distinct(report: NodeReport) -> list[Rejection]:
    """Return the rejections without repetitions.

    A request that does not fit beside reservations often does not fit anyway, by the same numbers.
    """
    by_text = {_text(each): each for each in reversed(report.rejections)}
    return list(reversed(by_text.values()))


def _text(rejection: Rejection) -> str:
    return rejection.detail or ", ".join(rejection.reasons)


def _verdict(report: NodeReport) -> str:
    """Return why a node does not fit, with all numbers, or an empty text if it fits."""
    return "; ".join(f"{each.plugin}: {_text(each)}" for each in _distinct(report))


def _reasons(report: NodeReport) -> str:
    """Return why a node does not fit, without its own numbers."""
    return "; ".join(f"{each.plugin}: {', '.join(each.reasons)}" for each in _distinct(report))


def _points(report: NodeReport) -> str:
    """Return the points of a node, and those of each plugin that gave some."""
    parts = [f"{plugin} {points:.0f}" for plugin, points in report.points.items() if points]
    return " = ".join((f"{report.total:.0f}", *([" + ".join(parts)] if parts else [])))


def _use(capacity: NodeCapacity, resource: str) -> str:
    used, reserved, whole = (
        amount(resource, of.get(resource, 0))
        for of in (capacity.used, capacity.reserved, capacity.allocatable)
    )
    return f"{used} + {reserved} of {whole}" if capacity.reserved.get(resource) else f"{used} of {whole}"


def plain(answer: WhyAnswer) -> dict[str, Any]:
    """Return the answer for programs: amounts as quantities, points by plugin."""
    return {
        "about": answer.title,
        "needs": format_resources(answer.needs),
        "notes": list(answer.story),
        "node": answer.node,
        "nodes": [_plain_node(answer, each) for each in answer.reports],
    }


def _plain_node(answer: WhyAnswer, report: NodeReport) -> dict[str, Any]:
    capacity = answer.holdings[report.node.name]
    return {
        "name": report.node.name,
        "fits": not report.rejections,
        "allocatable": format_resources(capacity.allocatable),
        "used": format_resources(capacity.used),
        "locked": format_resources(capacity.reserved),
        "locks": {str(key): format_resources(held) for key, held in capacity.reservations.items()},
        "waterLevel": answer.levels[report.node.name],
        "objections": [
            {
                "plugin": each.plugin,
                "reasons": list(each.reasons),
                "numbers": each.detail,
                "evictionsMayHelp": each.preemption_may_help,
            }
            for each in report.rejections
        ],
        "points": dict(report.points),
        "total": report.total,
    }
