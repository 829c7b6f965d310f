import json
from typing import Any

from bench.claims import Claimant, ClaimMethod, Claims


def observer(*names: str, capacity: int = 1) -> Claims:
    return Claims(capacity, begun=dict.fromkeys(names, 0.0))


def pod(name: str, node: str = "", refused: bool = False, event: str = "MODIFIED") -> bytes:
    conditions = [{"type": "PodScheduled", "status": "False"}] if refused else []
    return _event(event, name, {"nodeName": node}, {"conditions": conditions})


def reservation(name: str, active: str, reason: str = "", node: str = "") -> bytes:
    condition = {"type": "Active", "status": active, "reason": reason}
    return _event(
        "MODIFIED", name, {"nodeName": "what it asks for"}, {"nodeName": node, "conditions": [condition]}
    )


def _event(kind: str, name: str, spec: dict[str, Any], status: dict[str, Any]) -> bytes:
    meta = {"name": name, "resourceVersion": "7"}
    return json.dumps({"type": kind, "object": {"metadata": meta, "spec": spec, "status": status}}).encode()


def test_the_first_answer_counts_despite_later_ones() -> None:
    seen = observer("a", "b")
    assert seen.take_pod(pod("a"), 1.0) == "7"
    seen.take_pod(pod("a", refused=True), 2.0)
    seen.take_pod(pod("a", node="n"), 3.0)
    seen.take_reservation(reservation("b", "False", "InsufficientCapacity"), 4.0)
    assert seen.answered == {"a": 2.0, "b": 4.0}
    assert seen.won == {"a": "n"}
    assert seen.faults == []


def test_a_reservation_that_is_not_processed_has_no_answer() -> None:
    seen = observer("a")
    seen.take_reservation(reservation("a", "False", "Waiting"), 1.0)
    assert seen.answered == {}


def test_a_node_with_more_claimants_than_fit_is_a_fault() -> None:
    seen = observer("a", "b", "c", capacity=2)
    for name in ("a", "b"):
        seen.take_pod(pod(name, node="n"), 1.0)
    assert seen.faults == []
    seen.take_reservation(reservation("c", "True", "Admitted", "n"), 2.0)
    assert seen.faults == ["n was given to 3 claimants and has capacity for 2"]


def test_capacity_that_is_given_and_taken_back_is_a_fault() -> None:
    seen = observer("a")
    seen.take_reservation(reservation("a", "True", "Admitted", "n"), 1.0)
    seen.take_reservation(reservation("a", "False", "Overcommitted"), 2.0)
    (fault,) = seen.faults
    assert fault.startswith("a was Active and is not any more")


def test_other_objects_and_deletions_are_not_counted() -> None:
    seen = observer("a")
    seen.take_pod(pod("other", node="n"), 1.0)
    seen.take_pod(pod("a", node="n", event="DELETED"), 1.0)
    assert (seen.answered, seen.won) == ({}, {})


def test_claimants_request_the_same_resources() -> None:
    pods = [
        Claimant("a", way, "any", {"round": "1"}, "n").pod
        for way in (ClaimMethod.POD, ClaimMethod.STOCK, ClaimMethod.BINDING)
    ]
    assert pods[0] == pods[1] == pods[2]
    assert pods[0]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
