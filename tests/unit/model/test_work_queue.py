"""Queues of work that one object leaves to another."""

from tidelock.model.work_queue import WorkQueue


def test_an_item_that_is_added_again_is_processed_once_in_its_first_place() -> None:
    queue = WorkQueue[str]()
    for item in ("web", "db", "web"):
        queue.add(item)
    assert (len(queue), list(queue), "db" in queue, "cache" in queue) == (2, ["web", "db"], True, False)
    assert queue.take() == ["web", "db"]


def test_taken_items_are_gone_and_come_back_if_added_while_they_are_processed() -> None:
    queue = WorkQueue[str]()
    queue.add("web")
    for item in queue.take():
        assert not queue
        queue.add(item)
    assert queue.take() == ["web"]
    assert queue.take() == []


def test_a_discarded_item_is_not_processed() -> None:
    queue = WorkQueue[str]()
    queue.add("web")
    queue.discard("db")
    queue.discard("web")
    assert not queue


def test_of_items_with_the_same_key_the_newest_is_kept() -> None:
    queue = WorkQueue[tuple[str, int]](lambda item: item[0])
    queue.add(("web", 1))
    queue.add(("web", 2))
    assert queue.take() == [("web", 2)]


def test_with_the_identity_as_key_equal_objects_are_separate_items() -> None:
    queue = WorkQueue[list[int]](id)
    queue.add([])
    queue.add([])
    assert queue.take() == [[], []]
