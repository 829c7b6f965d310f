"""In which order locks are tried."""

from builders import NOW, reservation
from tidelock.ledger.entry import Entry
from tidelock.scheduler.line import Line


def waiting(name: str, namespace: str, *, created: float = 0, priority: int = 0) -> Entry:
    return Entry(reservation(name, namespace=namespace, created=NOW + created, priority=priority), NOW)


def names(line: Line) -> list[str]:
    return [str(line.pop().key) for _ in range(len(line))]


def test_the_oldest_of_a_namespace_comes_first_as_it_is_lined_up() -> None:
    line = Line()
    line.add([waiting("b", "shop"), waiting("a", "shop", created=1)])
    assert names(line) == ["shop/b", "shop/a"]


def test_namespaces_take_turns_whatever_the_age_of_their_locks() -> None:
    line = Line()
    line.add(waiting(f"flood-{n}", "noisy") for n in range(3))
    line.add(waiting(f"web-{n}", "shop", created=100 + n) for n in range(2))
    assert names(line) == ["noisy/flood-0", "shop/web-0", "noisy/flood-1", "shop/web-1", "noisy/flood-2"]


def test_who_comes_later_is_next_and_does_not_make_up_for_turns_without_locks() -> None:
    line = Line()
    line.add(waiting(f"flood-{n}", "noisy") for n in range(1000))
    for _ in range(500):
        line.pop()
    line.add(waiting(f"web-{n}", "shop", created=100 + n) for n in range(3))
    order = [line.pop().key.namespace for _ in range(6)]
    assert order.count("noisy") == 3


def test_priority_goes_before_turns() -> None:
    line = Line()
    line.add([waiting("high-0", "noisy", priority=1), waiting("high-1", "noisy", priority=1)])
    line.add([waiting("web-0", "shop")])
    assert names(line) == ["noisy/high-0", "noisy/high-1", "shop/web-0"]


def test_a_line_that_was_cleared_begins_anew() -> None:
    line = Line()
    line.add([waiting("a", "noisy"), waiting("b", "noisy")])
    line.clear()
    assert len(line) == 0
    line.add([waiting("a", "noisy", created=1), waiting("a", "shop")])
    assert names(line) == ["shop/a", "noisy/a"]
