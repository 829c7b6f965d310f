import json

from bench.bindings import Bindings


def event(kind: str, node: str) -> bytes:
    meta = {"name": "a", "resourceVersion": "7"}
    return json.dumps({"type": kind, "object": {"metadata": meta, "spec": {"nodeName": node}}}).encode()


def test_a_binding_is_seen_once() -> None:
    seen = Bindings()
    assert seen.take(event("ADDED", "n"), 1.0) == "7"
    seen.take(event("MODIFIED", "n"), 2.0)
    seen.take(event("ADDED", "n"), 3.0)  # after the watch started again
    assert (seen.seen, seen.nodes, seen.doubled) == ({"a": 1.0}, {"a": "n"}, [])


def test_a_pod_on_two_nodes_is_reported() -> None:
    seen = Bindings()
    seen.take(event("ADDED", "n"), 1.0)
    seen.take(event("MODIFIED", "m"), 2.0)
    assert seen.doubled == ["a was bound to n and then to m"]
