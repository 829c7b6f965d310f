"""Timers, which have one instant for each key, and return the earliest first."""

import weakref

from tidelock.ledger.lifecycle.timers import Timers


class Thing:
    """A key that supports weak references."""


def timers(**instants: float) -> Timers[str]:
    made: Timers[str] = Timers()
    for key, instant in instants.items():
        made.set(key, instant)
    return made


def test_nothing_is_due_where_nothing_is_set() -> None:
    assert timers().next() is None
    assert list(timers().pop_due(1e12)) == []


def test_keys_come_out_in_order_of_their_instants() -> None:
    assert list(timers(late=3, early=1, middle=2).pop_due(3)) == ["early", "middle", "late"]


def test_keys_of_one_instant_come_out_as_they_were_set() -> None:
    assert list(timers(b=1, c=1, a=1).pop_due(1)) == ["b", "c", "a"]


def test_an_instant_is_due_when_it_is_reached_and_not_before() -> None:
    made = timers(key=10)
    assert list(made.pop_due(9.999)) == []
    assert list(made.pop_due(10)) == ["key"]
    assert made.next() is None


def test_another_instant_replaces_the_first_whether_later_or_earlier() -> None:
    made = timers(key=10)
    made.set("key", 20)
    assert made.next() == 20
    made.set("key", 5)
    assert list(made.pop_due(100)) == ["key"]


def test_none_removes_a_key() -> None:
    made = timers(gone=1, kept=2)
    made.set("gone", None)
    made.set("never set", None)
    assert made.next() == 2
    assert list(made.pop_due(5)) == ["kept"]


def test_an_instant_that_is_set_again_comes_out_once() -> None:
    made = timers(key=1)
    made.set("key", 1)
    assert list(made.pop_due(1)) == ["key"]


def test_going_back_to_a_replaced_instant_comes_out_once() -> None:
    made = timers(key=1)
    made.set("key", 2)
    made.set("key", 1)
    assert list(made.pop_due(3)) == ["key"]
    assert made.next() is None


def test_a_due_key_that_is_set_during_the_iteration_comes_out_too() -> None:
    made = timers(first=1)
    out = []
    for key in made.pop_due(5):
        out.append(key)
        if key == "first":
            made.set("second", 4)
            made.set("third", 6)
    assert out == ["first", "second"]
    assert made.next() == 6


def test_removed_keys_are_released_long_before_they_are_due() -> None:
    made: Timers[Thing] = Timers()
    kept = Thing()
    made.set(kept, 2e9)
    seen: list[weakref.ref[Thing]] = []
    for instant in range(1000):
        thing = Thing()
        seen.append(weakref.ref(thing))
        made.set(thing, 1e9 + instant)
        made.set(thing, None)
    del thing
    assert sum(each() is not None for each in seen) < 100
    assert list(made.pop_due(3e9)) == [kept]
