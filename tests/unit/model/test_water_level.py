from builders import encode, water_level
from tidelock.model.selectors import NodeSelectorTerm, Requirement
from tidelock.model.water_level import decode_water_level


def test_a_water_level_applies_to_all_nodes_unless_it_selects_some() -> None:
    assert water_level().nodes is None
    assert water_level(nodeSelector={}).nodes is None
    assert water_level(nodeSelector={"matchLabels": {}, "matchExpressions": []}).nodes is None
    selector = {
        "matchLabels": {"pool": "a"},
        "matchExpressions": [
            {"key": "zone", "operator": "NotIn", "values": ["b"]},
            {"key": "x", "operator": "Exists"},
        ],
    }
    assert water_level(nodeSelector=selector).nodes == NodeSelectorTerm(
        (Requirement("pool", "In", ("a",)), Requirement("zone", "NotIn", ("b",)), Requirement("x", "Exists"))
    )


def test_an_unreadable_spec_is_a_problem_and_no_error() -> None:
    broken = decode_water_level(encode({"metadata": {"name": "all"}, "spec": {"source": {}, "windows": 1}}))
    assert broken.spec is None
    assert broken.nodes is None
    assert broken.problem.startswith("spec.windows: ")
