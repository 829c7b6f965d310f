"""What happens in a run, and what goes wrong, all from one seed.

Faults are addressed by what they befall, as in "the second binding": so a seed means the same however its
requests and events interleave.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

WATCHED = ("nodes", "pods", "reservations")
NODES = ("a", "b")
NUMBERS = 4
"""How many locks there are at most, and pods for them."""

_CPUS = ("1", "1500m", "2", "3")
_CODES = (401, 403, 429, 429, 500, 503)

_PAUSES = (None, None, None, 0.0, 0.0, 0.05, 0.2, 1.0)

# Each kind of fault as often as it is named.
_OF_WRITES = (
    *("lost", "lost", "lost", "late", "late", "hang", "reset", "slow", "refused", "refused", "broken"),
    *("crash before", "crash before", "crash after", "crash after", "crash after"),
)
_OF_READS = ("hang", "reset", "slow", "torn", "refused", "refused", "gone", "crash before")
_OF_OPENINGS = ("hang", "reset", "refused", "gone")
_OF_LINES = (
    *("delay", "delay", "delay", "double", "cut", "cut", "end", "swap", "drop", "gap", "gap", "gap"),
    *("error", "silence", "silence", "crash before"),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, for how many seconds if it lasts, with which HTTP status if it is an answer."""

    what: str
    seconds: float = 0.0
    code: int = 0

    def __str__(self) -> str:
        return " ".join(filter(None, (self.what, str(self.code or ""), f"{self.seconds:g} s")))


@dataclass(frozen=True, slots=True)
class Step:
    """What somebody does after a pause in seconds; None: when the operator has nothing more to do."""

    pause: float | None
    action: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        when = "then" if self.pause is None else f"{self.pause:g} s later"
        return f"{when}: {self.action} {dict(self.arguments)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A run.

    Attributes:
        seed: what it was made of.
        sizes: cores of each node.
        disturbed: whether nodes shrink or vanish, and others than the operator bind pods.
        steps: what is done, in order.
        faults: by point and number, from 1: `("bind", 2)` befalls the second binding that is posted, and
            `("line pods", 3)` the third event that watches of pods deliver.

    """

    seed: int
    sizes: Mapping[str, str]
    disturbed: bool
    steps: tuple[Step, ...]
    faults: Mapping[tuple[str, int], Fault]

    def __str__(self) -> str:
        faults = [f"  {point} {number}: {fault}" for (point, number), fault in sorted(self.faults.items())]
        steps = [f"  {step}" for step in self.steps]
        return "\n".join([f"nodes {dict(self.sizes)}", "steps:", *steps, "faults:", *faults])


def make_plan(seed: int) -> Plan:
    """Make the plan of a seed."""
    rng = Random(seed)  # noqa: S311 -- to be repeated
    disturbed = rng.random() < 0.4
    sizes = {name: rng.choice(("3", "4")) for name in NODES}
    opening = [_lock(rng, 0), _lock(rng, 1), _pod(rng, 0)]
    actions = _ACTIONS + _DISTURBANCES * disturbed
    later = [rng.choice(actions)(rng) for _ in range(rng.randrange(10, 24))]
    steps = [Step(rng.choice(_PAUSES), *each) for each in (*opening, *later)]
    faults = dict(_fault(rng) for _ in range(rng.randrange(1, 9)))
    return Plan(seed, sizes, disturbed, tuple(steps), faults)


def _fault(rng: Random) -> tuple[tuple[str, int], Fault]:
    kind = rng.choice(("write", "write", "write", "line", "line", "line", "read", "opening"))
    resource = rng.choice(WATCHED)
    if kind == "write":
        point = rng.choice(("bind", "bind", "status", "status", "status", "delete", "condition"))
        number, what = rng.randint(1, 8 if point == "status" else 3), rng.choice(_OF_WRITES)
    elif kind == "line":
        point, number, what = f"line {resource}", rng.randint(1, 12), rng.choice(_OF_LINES)
    elif kind == "read":
        point = rng.choice((f"list {resource}", f"list {resource}", "read"))
        number, what = rng.randint(1, 3), rng.choice(_OF_READS)
    else:
        point, number, what = f"watch {resource}", rng.randint(1, 3), rng.choice(_OF_OPENINGS)
    code = {"refused": rng.choice(_CODES), "broken": 500, "gone": 410}.get(what, 0)
    longest = 25.0 if what in {"late", "gap"} else rng.choice((1.0, 5.0, 20.0))
    return (point, number), Fault(what, round(longest * rng.random(), 1), code)


_Action = tuple[str, dict[str, Any]]


def _lock(rng: Random, number: int | None = None) -> _Action:
    ends = rng.choice(({"ttl": 600}, {"ttl": 600}, {"ttl": 5}, {"expires_in": 8}, {"expires_in": 900}))
    return "lock", {
        "number": rng.randrange(NUMBERS) if number is None else number,
        "cpu": rng.choice(_CPUS),
        "node": rng.choice((*NODES, "", "")),
        "owner": rng.choice((0, 0, 1, 1, 2, 3, "web")),
        "retention": rng.choice(("Delete", "Retain")),
        "priority": rng.randrange(3),
        "deadline": rng.choice((0, 5, 600, 600)),
        **ends,
    }


def _edit(rng: Random) -> _Action:
    edit = rng.choice(
        (
            {"resources": {"cpu": rng.choice(_CPUS)}},
            {"resources": {"cpu": rng.choice(_CPUS)}},
            {"ttlSeconds": rng.choice((4, 600))},
            {"priority": rng.randrange(3)},
            {"resources": {"cpu": "two"}},
            {"owners": [{"pod": {"name": f"web-{rng.randrange(NUMBERS)}"}}]},
        )
    )
    return "edit lock", {"number": rng.randrange(NUMBERS), "spec": edit}


def _pod(rng: Random, number: int | None = None) -> _Action:
    return "pod", {
        "number": rng.randrange(NUMBERS) if number is None else number,
        "cpu": rng.choice(_CPUS),
        "requires": rng.random() < 0.3,
        "app": rng.choice(("web", "db")),
    }


def _numbered(action: str) -> Callable[[Random], _Action]:
    return lambda rng: (action, {"number": rng.randrange(NUMBERS)})


def _jump(rng: Random) -> _Action:
    return "clock jumps", {"seconds": rng.choice((-3600, -10, -2, 5, 60, 1000))}


def _storm(rng: Random) -> _Action:
    return "storm", {"code": rng.choice(_CODES), "seconds": rng.choice((2.0, 10.0))}


def _cordon(rng: Random) -> _Action:
    return "cordon", {"node": rng.choice(NODES), "on": rng.random() < 0.6}


def _at_node(action: str) -> Callable[[Random], _Action]:
    return lambda rng: (action, {"node": rng.choice(NODES)})


_ACTIONS: tuple[Callable[[Random], _Action], ...] = (
    *(_lock,) * 4,
    *(_pod,) * 6,
    *(_edit,) * 3,
    _numbered("delete lock"),
    _numbered("touch lock"),
    _numbered("replace lock"),
    _numbered("end pod"),
    _numbered("end pod"),
    _numbered("replace pod"),
    _numbered("replace pod"),
    _jump,
    _storm,
    _cordon,
    lambda _: ("crash", {}),
)
_DISTURBANCES: tuple[Callable[[Random], _Action], ...] = (
    lambda rng: ("resize node", {"node": rng.choice(NODES), "cpu": rng.choice(("2", "3", "4"))}),
    lambda rng: ("resize node", {"node": rng.choice(NODES), "cpu": rng.choice(("2", "3", "4"))}),
    _at_node("delete node"),
    _at_node("replace node"),
    lambda rng: ("stranger", {"node": rng.choice(NODES), "cpu": rng.choice(_CPUS)}),
    lambda rng: ("bind by another", {"number": rng.randrange(NUMBERS), "node": rng.choice(NODES)}),
)
