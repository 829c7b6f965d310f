import pytest
import uvloop

from bench.decisions import DecisionError
from bench.start import Parts, make_lists, parse, start
from tidelock.kube.client import PODS
from tidelock.model.pods import decode_pod

_SMALL = ["--nodes", "4", "--placed", "1200", "--locks", "3", "--templates", "2"]


def test_a_start_reads_all_lists_and_decides() -> None:
    parts = Parts()
    uvloop.run(start(make_lists(parse([*_SMALL, "--placed", "12"])), parts))
    assert {
        "list of pods",
        "list of reservations",
        "ledger in line",
        "first decision",
    } <= parts.figures.keys()


def test_a_start_on_full_nodes_is_an_error() -> None:
    with pytest.raises(DecisionError, match="fitted no node"):
        uvloop.run(start(make_lists(parse(_SMALL)), Parts()))


@pytest.mark.parametrize(("templates", "kinds"), [("2", 2), ("0", 12)])
def test_pods_have_as_many_templates_as_asked_for(templates: str, kinds: int) -> None:
    lists = make_lists(parse([*_SMALL, "--placed", "12", "--templates", templates]))
    assert len({tuple(decode_pod(body).requests.items()) for body in lists[PODS]}) == kinds
