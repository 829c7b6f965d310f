from contextlib import nullcontext

import msgspec
import pytest

from builders import NAMESPACE
from storage import claim, drop, put
from tidelock.cluster.assume_cache import AssumeCache
from tidelock.cluster.objects import Objects
from tidelock.model.meta import Key
from tidelock.model.storage import PersistentVolumeClaim

KEY = Key(NAMESPACE, "data")


class Book:
    """The assumed node of the claim `data`, which is stored in version 5."""

    def __init__(self) -> None:
        self.objects = Objects()
        put(self.objects, claim(version=5))
        lister = self.objects.persistent_volume_claims
        self.nodes: AssumeCache[PersistentVolumeClaim, str] = AssumeCache(
            lister, lambda each: each.selected_node
        )
        self.nodes.make(KEY, "node-a", "uid-p")


def test_an_assumption_stays_while_the_object_has_no_such_value() -> None:
    ledger = Book()
    put(ledger.objects, claim(version=6), claim("other", selected_node="node-b"))
    assert ledger.nodes.get(KEY) == "node-a"
    assert list(ledger.nodes.items()) == [(KEY, "node-a")]


def test_an_assumption_ends_when_the_object_has_a_value_of_its_own() -> None:
    ledger = Book()
    put(ledger.objects, claim(version=6, selected_node="node-b"))
    assert ledger.nodes.get(KEY) is None


def test_an_assumption_ends_when_the_object_is_deleted_or_replaced() -> None:
    ledger = Book()
    drop(ledger.objects, claim())
    assert ledger.nodes.get(KEY) is None

    ledger = Book()
    stored = claim(version=9)
    successor = msgspec.structs.replace(stored, metadata=msgspec.structs.replace(stored.meta, uid="another"))
    put(ledger.objects, successor)
    assert ledger.nodes.get(KEY) is None


def test_a_written_value_stays_until_it_is_seen_even_after_its_release() -> None:
    ledger = Book()
    ledger.nodes.wrote(KEY, 7)
    ledger.nodes.release(KEY, "uid-p")
    put(ledger.objects, claim(version=6))
    assert ledger.nodes.get(KEY) == "node-a"
    put(ledger.objects, claim(version=8))
    assert ledger.nodes.get(KEY) is None


def test_the_release_by_the_last_pod_ends_an_assumption() -> None:
    ledger = Book()
    ledger.nodes.make(KEY, "node-a", "uid-q")
    ledger.nodes.release(KEY, "uid-p")
    assert ledger.nodes.get(KEY) == "node-a"
    for _ in range(2):
        ledger.nodes.release(KEY, "uid-q")
    assert ledger.nodes.get(KEY) is None


def test_a_value_that_is_not_assumed_is_not_noted_as_written() -> None:
    ledger = Book()
    ledger.nodes.wrote(Key(NAMESPACE, "other"), 7)
    assert ledger.nodes.get(Key(NAMESPACE, "other")) is None


@pytest.mark.parametrize("change", ["update", "removal"])
def test_an_assumption_stays_when_the_change_that_ends_it_is_undone(change: str) -> None:
    """The value counted neither as assumed nor as the object's own, so the volume was free."""
    ledger = Book()
    failures = [LookupError("planted")]

    def fails(*_: object) -> None:
        if failures:
            raise failures.pop()

    ledger.objects.persistent_volume_claims.on_change(fails)
    for expected in ("node-a", None):
        with pytest.raises(LookupError) if expected else nullcontext():
            if change == "update":
                put(ledger.objects, claim(version=6, selected_node="node-b"))
            else:
                drop(ledger.objects, claim())
        assert ledger.nodes.get(KEY) == expected


def test_an_assumption_whose_end_fails_never_hides_the_value_of_the_object() -> None:
    ledger = Book()
    lister = ledger.objects.persistent_volume_claims
    counted: list[tuple[str, int]] = []

    def count(_key: Key, value: str, sign: int) -> None:
        if sign < 0:
            raise LookupError("planted")
        counted.append((value, sign))

    other: AssumeCache[PersistentVolumeClaim, str] = AssumeCache(
        lister, lambda each: each.selected_node, count
    )
    other.make(KEY, "node-a", "uid-p")
    with pytest.raises(LookupError):
        put(ledger.objects, claim(version=6, selected_node="node-b"))
    known = lister.get(KEY.name, KEY.namespace)
    assert known is not None
    assert known.selected_node == "node-b"
    put(ledger.objects, claim(version=6, selected_node="node-b"))
    assert (other.get(KEY), counted) == (None, [("node-a", 1)])


def test_an_assumption_about_another_object_of_the_name_is_not_dropped() -> None:
    ledger = Book()
    key = Key(NAMESPACE, "new")
    ledger.nodes.make(key, "node-a", "uid-p", "uid-second")
    ledger.nodes.drop(key, "uid-first")
    assert ledger.nodes.get(key) == "node-a"
    ledger.nodes.drop(key, "uid-second")
    assert ledger.nodes.get(key) is None
