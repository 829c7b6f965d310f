"""The worked example of docs/shadow.md: two teams that train models, and a scheduler that packs."""

from collections.abc import Callable
from functools import partial

from unit.shadow.trace import Trace

MINUTE = 60
LOOK = 5
END = 10 * MINUTE


def replayed() -> Trace:
    """Replay ten minutes of a cluster of three nodes with four cores each."""
    trace = Trace({name: {"cpu": "4", "memory": "16Gi"} for name in "abc"}, leads=(60.0, 300.0))
    story: dict[int, Callable[[], None]] = {
        1 * MINUTE: partial(send, trace, "red-0", "red", "a"),
        2 * MINUTE: partial(send, trace, "blue-0", "blue", "b"),
        3 * MINUTE: partial(race, trace),
        5 * MINUTE: partial(trace.finish, "red-0"),
        5 * MINUTE + 30: partial(trace.bind, "blue-1", "a"),
        6 * MINUTE: partial(trace.finish, "blue-0"),
        7 * MINUTE: partial(pack, trace),
        8 * MINUTE: partial(trace.finish, "red-1"),
    }
    for second in range(LOOK, END + 1, LOOK):
        trace.at(second)
        if second in story:
            story[second]()
    return trace


def send(trace: Trace, name: str, team: str, node: str, cpu: str = "3") -> None:
    """Create a pod that is bound at once."""
    create(trace, name, team, cpu)
    trace.bind(name, node)


def create(trace: Trace, name: str, team: str, cpu: str = "3") -> None:
    trace.create(
        name, cpu, namespace=team, controller=f"apps/v1/StatefulSet/{team}", requests={"memory": "1Gi"}
    )


def pack(trace: Trace) -> None:
    """Send four small pods to the two nodes that are nearly full."""
    for number, node in enumerate("aacc"):
        send(trace, f"web-{number}", "web", node, cpu="500m")


def race(trace: Trace) -> None:
    """Let both teams send a pod, and bind one of them to the last node with three free cores."""
    create(trace, "red-1", "red")
    create(trace, "blue-1", "blue")
    trace.bind("red-1", "c")
    trace.refuse("blue-1")
