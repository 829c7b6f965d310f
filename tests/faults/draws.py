"""Actions that any run may draw: of users on plain reservations and pods, and changes of nodes and clocks."""

from collections.abc import Callable
from random import Random
from typing import Any

NODES = ("a", "b")
NUMBERS = 4
"""The largest number of reservations, and of pods for them."""
CODES = (401, 403, 429, 429, 500, 503)
SIZES = ("3", "4")
"""Cores of a node, unless a kind needs more of them."""
CPUS = ("1", "1500m", "2", "3")

Action = tuple[str, dict[str, Any]]
"""The name of an action, and its arguments."""

Draw = Callable[[Random], Action]


def reservation(rng: Random, number: int | None = None) -> Action:
    """Draw a plain reservation. A kind adds further fields of the spec under `also`."""
    ends = rng.choice(({"ttl": 600}, {"ttl": 600}, {"ttl": 5}, {"expires_in": 8}, {"expires_in": 900}))
    return "lock", {
        "number": rng.randrange(NUMBERS) if number is None else number,
        "cpu": rng.choice(CPUS),
        "node": rng.choice((*NODES, "", "")),
        "owner": rng.choice((0, 0, 1, 1, 2, 3, "web")),
        "retention": rng.choice(("Delete", "Retain")),
        "priority": rng.randrange(3),
        "deadline": rng.choice((0, 5, 600, 600)),
        **ends,
    }


def _edit(rng: Random) -> Action:
    edit = rng.choice(
        (
            {"resources": {"cpu": rng.choice(CPUS)}},
            {"resources": {"cpu": rng.choice(CPUS)}},
            {"ttlSeconds": rng.choice((4, 600))},
            {"priority": rng.randrange(3)},
            {"resources": {"cpu": "two"}},
            {"owners": [{"pod": {"name": f"web-{rng.randrange(NUMBERS)}"}}]},
        )
    )
    return "edit lock", {"number": rng.randrange(NUMBERS), "spec": edit}


def pod(rng: Random, number: int | None = None) -> Action:
    return "pod", {
        "number": rng.randrange(NUMBERS) if number is None else number,
        "cpu": rng.choice(CPUS),
        "requires": rng.random() < 0.3,
        "app": rng.choice(("web", "db")),
    }


def numbered(action: str) -> Draw:
    return lambda rng: (action, {"number": rng.randrange(NUMBERS)})


def jump(rng: Random) -> Action:
    return "clock jumps", {"seconds": rng.choice((-3600, -10, -2, 5, 60, 1000))}


def jump_ahead(rng: Random) -> Action:
    return "clock jumps", {"seconds": rng.choice((2, 5, 30, 60, 1000))}


def _storm(rng: Random) -> Action:
    return "storm", {"code": rng.choice(CODES), "seconds": rng.choice((2.0, 10.0))}


def _cordon(rng: Random) -> Action:
    return "cordon", {"node": rng.choice(NODES), "on": rng.random() < 0.6}


def _at_node(action: str) -> Draw:
    return lambda rng: (action, {"node": rng.choice(NODES)})


ACTIONS: tuple[Draw, ...] = (
    *(reservation,) * 4,
    *(pod,) * 6,
    *(_edit,) * 3,
    numbered("delete lock"),
    numbered("touch lock"),
    numbered("replace lock"),
    numbered("end pod"),
    numbered("end pod"),
    numbered("replace pod"),
    numbered("replace pod"),
    jump,
    _storm,
    _cordon,
    lambda _: ("crash", {}),
)
DISTURBANCES: tuple[Draw, ...] = (
    lambda rng: ("resize node", {"node": rng.choice(NODES), "cpu": rng.choice(("2", "3", "4"))}),
    lambda rng: ("resize node", {"node": rng.choice(NODES), "cpu": rng.choice(("2", "3", "4"))}),
    _at_node("delete node"),
    _at_node("replace node"),
    lambda rng: ("stranger", {"node": rng.choice(NODES), "cpu": rng.choice(CPUS)}),
    lambda rng: ("bind by another", {"number": rng.randrange(NUMBERS), "node": rng.choice(NODES)}),
)
