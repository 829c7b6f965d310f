"""The extender API in kube-scheduler's JSON."""

import json
from typing import Any

import pytest

from builders import NOW, TOO_DEEP, Json, node, node_json, pod_json
from tidelock.binders.admission_check import AdmissionCheck
from tidelock.binders.extender_api import VERBS, BadRequestError
from tidelock.model.pods import decode_pod
from tidelock.model.quantities import CPU
from tidelock.plugins.reservation.plugin import insufficient_beside
from unit.scheduler.machinery import Core


@pytest.fixture
def core() -> Core:
    """Return two nodes, the first of them reserved for web-0."""
    core = Core(node("a", cpu="2"), node("b", cpu="2"))
    core.reservation(resources={"cpu": "2"}, nodeName="a", owner="web-0")
    core.step()
    return core


def ask(core: Core, verb: str, **args: Any) -> Any:
    body = json.dumps(args).encode()
    return json.loads(VERBS[verb](AdmissionCheck(core.decider), body, NOW, False) or b"null")


def test_names_are_answered_with_names(core: Core) -> None:
    answer = ask(core, "filter", Pod=pod_json("stranger"), Nodes=None, NodeNames=["a", "b"])
    assert answer == {
        "Nodes": None,
        "NodeNames": ["b"],
        "FailedNodes": {"a": insufficient_beside(CPU)},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_whole_nodes_are_answered_with_unchanged_whole_nodes(core: Core) -> None:
    sent = [node_json(name, example="1") for name in ("a", "b")]
    nodes = {"kind": "NodeList", "metadata": {}, "items": sent}
    answer = ask(core, "filter", Pod=pod_json("stranger"), Nodes=nodes, NodeNames=None)
    assert answer["Nodes"] == {"metadata": {}, "items": [sent[1]]}
    assert answer["NodeNames"] is None


def test_an_answer_without_nodes_is_an_empty_list_and_not_null(core: Core) -> None:
    """kube-scheduler could not read an answer without lists, and would take null for a missing answer."""
    whole = pod_json("stranger", requests={"cpu": "9"})
    assert ask(core, "filter", Pod=whole, NodeNames=["a", "b"])["NodeNames"] == []
    nodes = {"items": [node_json("a")]}
    assert ask(core, "filter", Pod=whole, Nodes=nodes)["Nodes"] == {"metadata": {}, "items": []}


@pytest.mark.parametrize(
    "nodes",
    [{"NodeNames": ["a", "b"]}, {"Nodes": {"items": [node_json("a"), node_json("b")]}}],
    ids=["names", "whole"],
)
def test_the_node_of_an_own_reservation_has_the_maximum_score(core: Core, nodes: Json) -> None:
    scores = ask(core, "prioritize", Pod=pod_json("web-0"), **nodes)
    assert scores == [{"Host": "a", "Score": 10}, {"Host": "b", "Score": 0}]


@pytest.mark.parametrize("capable", [True, False])
def test_victims_are_answered_by_uid_where_they_suffice(core: Core, capable: bool) -> None:
    resident = pod_json("resident", node_name="b", requests={"cpu": "2"})
    core.add(decode_pod(json.dumps(resident).encode()))
    proposed = {
        name: {"Pods": [{"UID": "uid-resident"} if capable else resident], "NumPDBViolations": 1}
        for name in ("a", "b")
    }
    field = "NodeNameToMetaVictims" if capable else "NodeNameToVictims"
    answer = ask(core, "preempt", Pod=pod_json("stranger"), **{field: proposed})
    assert answer == {
        "NodeNameToMetaVictims": {"b": {"Pods": [{"UID": "uid-resident"}], "NumPDBViolations": 1}}
    }


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{}", b'{"Pod": 3}', b'{"Pod": {}}', b'{"Pod": {"metadata": {"name": 1}}}'),
        b'{"Pod": {"metadata": {"name": "web-0"}, "unknown": %b}}' % (b"[" * TOO_DEEP + b"]" * TOO_DEEP),
    ],
)
def test_invalid_requests_are_refused(core: Core, verb: str, body: bytes) -> None:
    with pytest.raises(BadRequestError):
        VERBS[verb](AdmissionCheck(core.decider), body, NOW, False)


def test_an_invalid_quantity_is_named(core: Core) -> None:
    with pytest.raises(BadRequestError, match=r"^Pod: spec\..*cpu: 'many' is not a quantity"):
        ask(core, "filter", Pod=pod_json("x", requests={"cpu": "many"}), NodeNames=[])
