import pytest

from tidelock.devices import change_log
from tidelock.devices.change_log import ChangeLog


def test_changes_since_a_number_are_those_keys() -> None:
    log: ChangeLog[str] = ChangeLog()
    log.note("a")
    log.note("b")
    seen = log.clock
    assert log.since(seen) == []
    log.note("c")
    log.note("a")
    assert log.since(seen) == ["a", "c"]
    assert log.since(0) == ["a", "c", "b"]
    assert log.changed_at("a") > log.changed_at("c") > log.changed_at("b") > log.changed_at("other")


def test_a_change_of_all_keys_hides_earlier_ones() -> None:
    log: ChangeLog[str] = ChangeLog()
    log.note("a")
    seen = log.clock
    log.note_all()
    assert log.since(seen) is None
    assert log.since(log.clock) == []
    assert log.changed_at("a") == log.changed_at("b") == log.clock


def test_too_many_keys_count_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "_MOST_KEYS", 2)
    log: ChangeLog[int] = ChangeLog()
    for key in range(3):
        log.note(key)
    assert log.since(0) is None
    log.note(9)
    assert log.since(log.clock - 1) == [9]
