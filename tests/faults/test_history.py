from faults.history import Json, Record


def _pod(name: str, uid: str, version: int) -> Json:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}}


async def test_a_list_adds_all_changes_during_an_outage_to_the_record() -> None:
    record = Record(lambda: 0.0)
    before = [_pod("same", "s", 1), _pod("changed", "c", 2), _pod("replaced", "r", 3), _pod("gone", "g", 4)]
    for state in before:
        record.note("pods", {"type": "ADDED", "object": state})

    listed = [_pod("same", "s", 1), _pod("changed", "c", 7), _pod("replaced", "x", 8), _pod("new", "n", 9)]
    record.note_list("pods", {"items": listed, "metadata": {"resourceVersion": "10"}})

    assert {name: state for (_, name), state in record.current().items()} == {
        state["metadata"]["name"]: state for state in listed
    }
    told = [(each.version, each.uid, each.gone) for each in record.changes[len(before) :]]
    assert told == [(7, "c", False), (8, "r", True), (8, "x", False), (9, "n", False), (10, "g", True)]


async def test_a_list_tells_objects_of_two_namespaces_apart() -> None:
    record = Record(lambda: 0.0)
    mine, other = (_pod("web", uid, version) for uid, version in (("m", 1), ("o", 2)))
    mine["metadata"]["namespace"] = "mine"
    for state in (mine, other):
        record.note("pods", {"type": "ADDED", "object": state})

    record.note_list("pods", {"items": [mine, other], "metadata": {"resourceVersion": "3"}})
    assert len(record.changes) == 2

    record.note_list("pods", {"items": [mine], "metadata": {"resourceVersion": "4"}})
    assert [(each.uid, each.gone) for each in record.changes[2:]] == [("o", True)]
