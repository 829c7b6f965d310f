"""The plan of a run with its faults, made from one seed.

A fault is addressed by the request or event that it affects, as in "the second binding". So a seed means the
same, however its requests and events interleave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from faults.draws import (
    ACTIONS,
    CODES,
    DISTURBANCES,
    NODES,
    NUMBERS,
    SIZES,
    Draw,
    jump,
    jump_ahead,
    pod,
    reservation,
)
from faults.history import OF_DEVICES, RESOURCES
from faults.kinds import DEVICES, KINDS, LEVELS, Kind
from tidelock.kube.client import ApiResource

WATCHED = ("nodes", "pods", "reservations")
"""Resources that every run watches."""

_PAUSES = (None, None, None, 0.0, 0.0, 0.05, 0.2, 1.0)

# Share of the runs in which most reservations ask for an answer in the response to their creation.
_ANSWERED = 0.4
_ASK = 0.7
_COPY = 0.08
_FATES = (*("stored",) * 8, *("delayed",) * 3, *("twice",) * 3, *("denied",) * 2, "dry")
_COPIES = ("update", "create", "replay", "replay")
_OF_CREATIONS = ("lost", "slow", "late", "late", "hang", "refused", "crash before", *("crash after",) * 4)

# Share of the runs with Kopf, which takes as long to start as all other parts together.
_LEVELS = 0.2

# Share of the runs with devices.
_DEVICES = 0.15

# Each kind of fault, as often as it should be drawn.
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
    """A fault, with its duration in seconds if it lasts, and its HTTP status if it is an answer."""

    what: str
    seconds: float = 0.0
    code: int = 0

    def __str__(self) -> str:
        return " ".join(filter(None, (self.what, str(self.code or ""), f"{self.seconds:g} s")))


@dataclass(frozen=True, slots=True)
class Step:
    """An action after a pause in seconds. With None it waits until the operator has nothing left to do."""

    pause: float | None
    action: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        when = "then" if self.pause is None else f"{self.pause:g} s later"
        return f"{when}: {self.action} {dict(self.arguments)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run.

    Attributes:
        seed: the seed of the plan.
        sizes: cores of each node.
        disturbed: whether nodes shrink or vanish, and other clients than the operator bind pods.
        steps: actions, in order.
        faults: by point and number, from 1. `("bind", 2)` affects the second binding that is posted, and
            `("line pods", 3)` the third event that watches of pods deliver.
        kinds: kinds of objects beside plain reservations and pods.
        outages: whether the API server as a whole has outages.
        exceptions: steps of the operator that raise, each with the number of its call.

    """

    seed: int
    sizes: Mapping[str, str]
    disturbed: bool
    steps: tuple[Step, ...]
    faults: Mapping[tuple[str, int], Fault]
    kinds: tuple[str, ...] = ()
    outages: bool = False
    exceptions: frozenset[tuple[str, int]] = frozenset()

    @property
    def devices(self) -> bool:
        """Whether nodes have devices."""
        return DEVICES.name in self.kinds

    @property
    def resources(self) -> tuple[ApiResource, ...]:
        """The resources that the operator watches or writes."""
        return (*RESOURCES, *(resource for resource, _ in OF_DEVICES.values() if self.devices))

    def __str__(self) -> str:
        faults = [f"  {point} {number}: {fault}" for (point, number), fault in sorted(self.faults.items())]
        steps = [f"  {step}" for step in self.steps]
        steps += ["exceptions:", *(f"  {place} {number}" for place, number in sorted(self.exceptions))]
        told = f"nodes {dict(self.sizes)}, {', '.join(self.kinds) or 'plain'}"
        return "\n".join([told, "steps:", *steps, "faults:", *faults])


def make_plan(seed: int, levels: float = _LEVELS, answers: float = _ANSWERED) -> Plan:
    """Make the plan of a seed, given the shares of plans with WaterLevels and with answers."""
    rng = Random(seed)  # noqa: S311 -- to be repeated
    kinds = _kinds(Random(f"{seed}/kinds"))  # noqa: S311 -- to be repeated
    if Random(f"{seed}/levels").random() < levels:  # noqa: S311 -- to be repeated
        kinds.append(LEVELS)
    if Random(f"{seed}/devices").random() < _DEVICES:  # noqa: S311 -- to be repeated
        kinds.append(DEVICES)
    disturbed = rng.random() < 0.4
    cores = max((kind.sizes for kind in kinds), default=SIZES)
    sizes = {name: rng.choice(cores) for name in NODES}
    opening = [reservation(rng, 0), reservation(rng, 1), pod(rng, 0)]
    opening += [draw(rng) for kind in kinds for draw in kind.opening]
    actions = _actions(kinds, disturbed=disturbed)
    later = [rng.choice(actions)(rng) for _ in range(rng.randrange(10, 24))]
    steps = [Step(rng.choice(_PAUSES), *each) for each in (*opening, *later)]
    faults = dict(_fault(rng, kinds) for _ in range(rng.randrange(1, 9)))
    plan = Plan(seed, sizes, disturbed, tuple(steps), faults, tuple(kind.name for kind in kinds))
    rng = Random(f"{seed}/answers")  # noqa: S311 -- to be repeated
    return _answered(rng, plan) if rng.random() < answers else plan


def _answered(rng: Random, plan: Plan) -> Plan:
    """Let most reservations of a plan ask for an answer, and add the faults of answers."""
    steps: list[Step] = []
    for step in plan.steps:
        if step.action == "lock" and rng.random() < _ASK:
            answer = {"fate": rng.choice(_FATES), "seconds": rng.choice((0.5, 3.0, 10.0, 50.0))}
            steps.append(replace(step, arguments={**step.arguments, "answer": answer}))
        else:
            steps.append(step)
        if rng.random() < _COPY:
            copy = {"number": rng.randrange(NUMBERS), "other": rng.randrange(NUMBERS)}
            steps.append(Step(rng.choice(_PAUSES), "copy answer", {**copy, "how": rng.choice(_COPIES)}))
    faults = {
        ("creation", rng.randint(1, 6)): Fault(rng.choice(_OF_CREATIONS), rng.choice((0.0, 1.0, 10.0)))
        for _ in range(rng.randrange(4))
    }
    kinds = (*plan.kinds, "answers")
    return replace(plan, steps=tuple(steps), faults={**plan.faults, **faults}, kinds=kinds)


def _kinds(rng: Random) -> list[Kind]:
    """Draw kinds beside plain reservations and pods. They are few, so that a run can be understood."""
    return rng.sample(list(KINDS.values()), rng.choice((0, 1, 1, 1, 2, 2)))


def _actions(kinds: Sequence[Kind], *, disturbed: bool) -> tuple[Draw, ...]:
    """Return the actions to draw from, with about as many of the kinds as of all others."""
    plain = ACTIONS + DISTURBANCES * disturbed
    steady = any(kind.steady for kind in kinds)
    special = [draw for kind in kinds for draw in kind.actions]
    repeats = len(plain) // len(special) if special else 0
    return (*(jump_ahead if steady and each is jump else each for each in plain), *special * repeats)


def _fault(rng: Random, kinds: Sequence[Kind]) -> tuple[tuple[str, int], Fault]:
    befallen = rng.choice(("write", "write", "write", "line", "line", "line", "read", "opening"))
    resource = rng.choice((*WATCHED, *(each for kind in kinds for each in kind.watched)))
    if befallen == "write":
        writes = ("bind", "bind", "status", "status", "status", "delete", "condition")
        point = rng.choice((*writes, *(each for kind in kinds for each in kind.writes)))
        number, what = rng.randint(1, 8 if point == "status" else 3), rng.choice(_OF_WRITES)
    elif befallen == "line":
        point, number, what = f"line {resource}", rng.randint(1, 12), rng.choice(_OF_LINES)
    elif befallen == "read":
        point = rng.choice((f"list {resource}", f"list {resource}", "read"))
        number, what = rng.randint(1, 3), rng.choice(_OF_READS)
    else:
        point, number, what = f"watch {resource}", rng.randint(1, 3), rng.choice(_OF_OPENINGS)
    code = {"refused": rng.choice(CODES), "broken": 500, "gone": 410}.get(what, 0)
    longest = 25.0 if what in {"late", "gap"} else rng.choice((1.0, 5.0, 20.0))
    return (point, number), Fault(what, round(longest * rng.random(), 1), code)
