"""Kinds of objects that a run may have beside plain reservations and pods, with the actions on them."""

from dataclasses import dataclass
from random import Random
from typing import Any

from faults.draws import CPUS, NODES, NUMBERS, SIZES, Action, Draw, numbered, pod, reservation

_SMALL = ("500m", "500m", "1", "1500m")
_AT_ONCE = 0.3
_GPUS = ("claim", "claim", "1", "1", "2")  # a claim, or amounts of the extended resource
_UNWILLING = 0.1
_EXPRESSIONS = ("* * * * *", "* * * * *", "*/2 * * * *", "*/3 * * * *")


@dataclass(frozen=True, slots=True)
class Kind:
    """Actions and faults that a run with objects of a kind may draw.

    Attributes:
        name: a name for people.
        opening: actions at the beginning.
        actions: later actions, each as often as it should be drawn.
        watched: resources that the operator watches for this kind.
        writes: points of the operator's requests that only this kind causes.
        steady: whether the operator's clock must not be set back.
        sizes: possible numbers of cores of a node.

    """

    name: str
    opening: tuple[Draw, ...]
    actions: tuple[Draw, ...]
    watched: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    steady: bool = False
    sizes: tuple[str, ...] = SIZES


def _also(draw: Action, **fields: Any) -> Action:
    """Add fields of the spec to a drawn reservation."""
    action, arguments = draw
    return action, arguments | {"also": arguments.get("also", {}) | fields}


def _leased(rng: Random, number: int | None = None) -> Action:
    lease = {"durationSeconds": rng.choice((3, 6, 20)), "graceSeconds": rng.choice((0, 2, 10))}
    return _also(reservation(rng, number), lease=lease)


def _hold_lease(rng: Random) -> Action:
    """Draw a lease that is renewed several times and then abandoned."""
    number, every = rng.randrange(NUMBERS), rng.choice((0.5, 1.0, 2.0, 4.0))
    return "hold lease", {"number": number, "every": every, "times": rng.choice((1, 3, 10, 30))}


def _sticky(rng: Random, number: int | None = None) -> Action:
    return _also(reservation(rng, number), reuse="Always")


def _two_phase(rng: Random, number: int | None = None) -> Action:
    return _also(reservation(rng, number), commit={"withinSeconds": rng.choice((1, 5, 5, 30, 600))})


def _commit(rng: Random) -> Action:
    return "commit lock", {"number": rng.randrange(NUMBERS), "stale": rng.random() < 0.2}


def _alternative(rng: Random, number: int | None = None) -> Action:
    drawn = reservation(rng, number) if rng.random() < 0.5 else _two_phase(rng, number)
    return _also(drawn, anyOf=rng.choice(("one", "one", "two")))


def _group(rng: Random) -> Action:
    kinds = [
        {"name": name, "count": rng.choice((1, 1, 2, 3)), "cpu": rng.choice(_SMALL)}
        for name in rng.choice((("worker",), ("driver", "worker")))
    ]
    size = sum(int(kind["count"]) for kind in kinds)
    return "group", {
        "number": rng.randrange(2),
        "members": kinds,
        "least": rng.choice((None, None, rng.randint(1, size))),
        "spread": rng.random() < 0.2,
        "retention": rng.choice(("Delete", "Retain")),
        "priority": rng.randrange(3),
        "deadline": rng.choice((5, 600, 600)),
        **rng.choice(({"ttl": 600}, {"ttl": 600}, {"ttl": 8}, {"expires_in": 900})),
    }


def _gang(rng: Random) -> Action:
    return "gang", {"number": rng.randrange(2), "count": rng.randint(1, 4), "cpu": rng.choice(_SMALL)}


def _one_of(action: str) -> Draw:
    return lambda rng: (action, {"number": rng.randrange(2), "which": rng.randrange(4)})


def _borrowable(rng: Random, number: int | None = None) -> Action:
    return _also(reservation(rng, number), borrowable=True)


def _borrower(rng: Random) -> Action:
    return "borrower", {"number": rng.randrange(NUMBERS), "cpu": rng.choice(_SMALL)}


def _owner(rng: Random) -> Action:
    """Draw a pod that runs only in its reservation."""
    action, arguments = pod(rng)
    return action, arguments | {"requires": True}


def _quote(rng: Random) -> Action:
    return "quote", {
        "number": rng.randrange(NUMBERS),
        "cpu": rng.choice((*CPUS, "9")),
        "node": rng.choice((*NODES, "", "")),
        "ttl": rng.choice((1, 5, 300)),
    }


def _quota(rng: Random) -> Action:
    return "quota", {"number": rng.randrange(2), "spec": _limits(rng)}


def _edit_quota(rng: Random) -> Action:
    return "edit quota", {"number": rng.randrange(2), "spec": _limits(rng)}


def _limits(rng: Random) -> dict[str, Any]:
    return rng.choice(
        (
            {"hard": {"cpu": rng.choice(("2", "4", "6"))}},
            {"hard": {"pods": rng.choice(("1", "2"))}},
            {"hard": {"cpu": "5", "pods": "2"}},
            {"hardSeconds": {"cpu": rng.choice(("1200", "3000"))}},
            {"maxAmounts": {"cpu": "2"}, "hard": {"cpu": "4"}},
            {"maxPriority": 1, "hard": {"cpu": "4"}},
        )
    )


def _planned(rng: Random, number: int | None = None) -> Action:
    """Draw a reservation with a window that begins soon, by the operator's clock."""
    action, arguments = _also(
        reservation(rng, number), **rng.choice(({}, {"runSeconds": rng.choice((1, 20))}))
    )
    arguments.pop("expires_in", None)
    return action, arguments | {"ttl": rng.choice((3, 10, 600)), "starts_in": rng.choice((2, 5, 10, 90))}


def _schedule(rng: Random) -> Action:
    return "schedule", {
        "number": rng.randrange(2),
        "spec": {**_begins(rng), "template": {"spec": _window(rng)}},
    }


def _begins(rng: Random) -> dict[str, Any]:
    """Draw the starts of windows, every minute or every few minutes by the operator's clock."""
    return {
        "schedule": rng.choice(_EXPRESSIONS),
        "durationSeconds": rng.choice((10, 50, 90, 200)),
        "ahead": rng.choice((1, 1, 2, 3)),
        "suspend": rng.random() < 0.1,
        **rng.choice(({}, {}, {}, {"startingDeadlineSeconds": rng.choice((0, 20))})),
    }


def _window(rng: Random) -> dict[str, Any]:
    owner = rng.choice(({"selector": {"matchLabels": {"app": "web"}}}, {"pod": {"name": "web-1"}}))
    return {
        "resources": {"cpu": rng.choice(_SMALL)},
        "owners": [owner],
        "retention": rng.choice(("Delete", "Delete", "Retain")),
        "priority": rng.choice(
            (0, 1, 1)
        ),  # every quota allows these, as a refused window would be requested again for ever
        "pendingDeadlineSeconds": rng.choice((0, 5, 600)),
        **rng.choice(({}, {"runSeconds": rng.choice((1, 20))})),
    }


def _edit_schedule(rng: Random) -> Action:
    spec = rng.choice(
        (
            {"suspend": True},
            {"suspend": False},
            {"suspend": False},
            {"ahead": rng.choice((1, 2, 4))},
            {"schedule": rng.choice(_EXPRESSIONS)},
            {"schedule": "0 26 * * *"},
            {"durationSeconds": rng.choice((10, 50, 90))},
            {"template": {"spec": {"resources": {"cpu": rng.choice(_SMALL)}}}},
        )
    )
    return "edit schedule", {"number": rng.randrange(2), "spec": spec}


def _minute(rng: Random) -> Action:
    return "a minute begins", {"offset": rng.choice((-0.1, 0.0, 0.1, 1.0))}


def _time(rng: Random) -> Action:
    return "time passes", {"seconds": rng.choice((10, 40, 70))}


def _passing(rng: Random) -> Action:
    """Draw a pod with a declared run time."""
    return "passing pod", {
        "number": rng.randrange(NUMBERS),
        "cpu": rng.choice(CPUS),
        "seconds": rng.choice((1, 3, 10)),
        "app": rng.choice(("web", "db", "db")),
    }


def _moving(rng: Random, number: int | None = None) -> Action:
    """Draw a reservation that allows pods to be moved."""
    action, arguments = reservation(rng, number)
    at_once: dict[str, Any] = {"automatically": True} if rng.random() < _AT_ONCE else {}
    wanted = {
        "cpu": rng.choice(("4", "5")),
        "owner": rng.choice((2, 3)),
        "deadline": rng.choice((5, 600, 1800, 1800)),
    }
    return _also((action, arguments | wanted), mayMove={"maxPods": rng.choice((1, 2, 3, 3)), **at_once})


def _edit_moves(rng: Random) -> Action:
    edit = rng.choice((None, {"maxPods": rng.choice((1, 2, 3))}, {"automatically": rng.random() < _AT_ONCE}))
    return "edit lock", {"number": rng.randrange(NUMBERS), "spec": {"mayMove": edit}}


def _part(rng: Random) -> Action:
    stays = rng.random() < _UNWILLING
    return "part", {
        "number": rng.randrange(NUMBERS),
        "cpu": rng.choice(("1", "1", "1500m")),
        "grace": rng.choice((1, 1, 5, 20)),
        "stays": stays,
    }


def _tell_part(rng: Random) -> Action:
    return "tell part", {"number": rng.randrange(NUMBERS), "stays": rng.random() < 0.5}


def _approve(rng: Random) -> Action:
    return "approve", {"number": rng.randrange(NUMBERS), "stale": rng.random() < 0.2}


def _of_budget(action: str) -> Draw:
    return lambda rng: (action, {"number": rng.choice((0, 0, 0, 1)), "least": rng.choice((0, 1, 1, 2, 3))})


def _level(rng: Random) -> Action:
    return "water level", {"number": rng.randrange(2), "refresh": rng.choice((10, 30))}


def _edit_level(rng: Random) -> Action:
    return "edit water level", {"number": rng.randrange(2), "refresh": rng.choice((10, 30, 60))}


def _delete_level(rng: Random) -> Action:
    return "delete water level", {"number": rng.randrange(2)}


LEVELS = Kind(
    "water levels",
    opening=(_level,),
    actions=(*(_level,) * 3, *(_edit_level,) * 3, _delete_level),
    watched=("waterlevels", "waterlevels"),
    writes=("level status", "level status"),
)
"""WaterLevels, which Kopf watches. A share of the runs has them in addition to all other kinds."""


def _claiming(rng: Random, number: int | None = None) -> Action:
    """Draw a reservation of one of several kinds for a pod that asks for devices."""
    draw = rng.choice((reservation, reservation, _leased, _two_phase, _sticky, _borrowable))
    action, arguments = draw(rng, number)
    return action, arguments | {"gpu": rng.choice(_GPUS)}


def _claiming_pod(rng: Random, number: int | None = None) -> Action:
    action, arguments = pod(rng, number)
    return action, arguments | {"gpu": rng.choice(_GPUS)}


def _edit_devices(rng: Random) -> Action:
    return "edit devices", {"number": rng.randrange(NUMBERS), "gpu": rng.choice((None, "1", "1", "2"))}


DEVICES = Kind(
    "devices",
    opening=(lambda rng: _claiming(rng, 2), lambda rng: _claiming_pod(rng, 3)),
    actions=(*(_claiming,) * 4, *(_claiming_pod,) * 5, *(_commit,) * 2, _edit_devices, _hold_lease),
    watched=("resourceclaims", "resourceclaims"),
    writes=("claim", "claim", "claim"),
)
"""Pods that ask for devices by a claim or an extended resource, and reservations that hold devices for them.

A share of the runs has them in addition to other kinds.
"""

KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "leases",
            opening=(lambda rng: _leased(rng, 2), _hold_lease),
            actions=(*(_leased,) * 2, *(_hold_lease,) * 4),
        ),
        Kind(
            "reuse",
            opening=(lambda rng: _sticky(rng, 2), lambda rng: pod(rng, 1)),
            actions=(*(_sticky,) * 3, pod, *(numbered("end pod"),) * 2, *(numbered("replace pod"),) * 2),
        ),
        Kind(
            "two phases",
            opening=(lambda rng: _two_phase(rng, 2), _commit),
            actions=(*(_two_phase,) * 3, *(_commit,) * 5),
        ),
        Kind(
            "alternatives",
            opening=(lambda rng: _alternative(rng, 2), lambda rng: _alternative(rng, 3)),
            actions=(
                *(_alternative,) * 4,
                *(_commit,) * 2,
                numbered("delete lock"),
                numbered("replace lock"),
            ),
        ),
        Kind(
            "groups",
            opening=(_group, _gang),
            actions=(
                *(_group,) * 3,
                *(_gang,) * 3,
                numbered("delete group"),
                _one_of("delete member"),
                *(_one_of("end gang pod"),) * 2,
            ),
            watched=("reservationgroups",),
            writes=("member", "member", "group status", "delete group"),
        ),
        Kind(
            "borrowing",
            opening=(lambda rng: _borrowable(rng, 2), _borrower),
            actions=(*(_borrowable,) * 3, *(_borrower,) * 4, *(_owner,) * 3, numbered("end borrower")),
            writes=("evict", "evict"),
        ),
        Kind(
            "quotes",
            opening=(_quote,),
            actions=(*(_quote,) * 4, numbered("delete quote")),
            watched=("reservationquotes",),
            writes=("answer", "answer", "delete quote"),
        ),
        Kind(
            "quotas",
            opening=(_quota,),
            actions=(*(_quota,) * 2, *(_edit_quota,) * 2, numbered("delete quota"), *(reservation,) * 3),
            watched=("reservationquotas",),
            writes=("quota status",),
        ),
        Kind(
            "moves",
            opening=(*(_part,) * 4, lambda rng: _moving(rng, 2), _approve, _approve),
            actions=(
                *(_moving,) * 4,
                *(_approve,) * 8,
                _edit_moves,
                *(numbered("withdraw"),) * 2,
                *(_part,) * 2,
                numbered("end part"),
                *(_tell_part,) * 2,
                *(_of_budget("budget"),) * 2,
                *(_of_budget("edit budget"),) * 2,
                numbered("delete budget"),
            ),
            watched=("poddisruptionbudgets",),
            writes=("evict", "evict", "evict"),
            sizes=("7", "8"),
        ),
        Kind(
            "windows",
            opening=(lambda rng: _planned(rng, 2), _passing),
            actions=(*(_planned,) * 4, *(_passing,) * 4),
            steady=True,
        ),
        Kind(
            "schedules",
            opening=(_schedule, _time),
            actions=(
                *(_schedule,) * 2,
                *(_edit_schedule,) * 3,
                *(_time,) * 2,
                *(_minute,) * 2,
                *(pod,) * 2,
                numbered("delete schedule"),
                _one_of("delete window"),
            ),
            watched=("reservationschedules",),
            writes=("member", "member", "schedule status", "schedule status"),
            steady=True,
        ),
    )
}
