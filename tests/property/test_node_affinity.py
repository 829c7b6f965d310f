"""NodeAffinity over all nodes at once against the same rules for one node."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import node, pod
from property.oracles import node_affinity as oracle
from tidelock.framework.api import Code
from tidelock.model.nodes import Node
from tidelock.model.pod_placement import NodeAffinity as Affinity
from tidelock.plugins.node_affinity import NodeAffinityPlugin
from unit.plugins.scene import Scene

Json = dict[str, Any]

NAMES = ["node-a", "node-b", "node-c", "node-d"]
LABELS = st.fixed_dictionaries(
    {},
    optional={"zone": st.sampled_from(["a", "b", ""]), "cores": st.sampled_from(["8", "16", "-1", "many"])},
)
NODES = st.lists(st.sampled_from(NAMES), min_size=1, unique=True).flatmap(
    lambda names: st.tuples(*(st.builds(node, st.just(name), labels=LABELS) for name in names))
)
REQUIREMENTS = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["zone", "cores", "rack"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(["a", "b", "", "8", "x"]), min_size=1, unique=True),
        }
    ),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["zone", "rack"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["zone", "cores"]),
            "operator": st.sampled_from(["Gt", "Lt"]),
            "values": st.sampled_from([["8"], ["0"], ["-2"]]),
        }
    ),
)
FIELDS = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.sampled_from([[name] for name in NAMES]),
    }
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(REQUIREMENTS, max_size=2),
        "matchFields": st.lists(FIELDS, max_size=2),
    },
)
PREFERRED = st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": TERMS})
AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(TERMS, min_size=1, max_size=3)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(PREFERRED, max_size=3),
    },
)
# A negative number is no label value, so it is refused in args. In a pod it is accepted, and matches nothing.
ADDED: st.SearchStrategy[Json] = AFFINITIES.filter(lambda affinity: "-2" not in str(affinity))
SELECTORS = st.sampled_from([{}, {}, {"zone": "a"}, {"zone": "a", "cores": "8"}, {"rack": "r"}])


@given(NODES, AFFINITIES, SELECTORS, ADDED)
@settings(deadline=None)
def test_all_nodes_are_filtered_and_scored_as_one_node_at_a_time(
    nodes: tuple[Node, ...], affinity: Json, selector: dict[str, str], added: Json
) -> None:
    wanting = pod(affinity={"nodeAffinity": affinity}, nodeSelector=selector)
    enforced = msgspec.convert(added, Affinity)
    judgement = Scene(*nodes).judge(NodeAffinityPlugin, wanting, addedAffinity=added)
    expected = {each.name for each in nodes if oracle.fits(wanting, each, enforced)}

    assert judgement.fitting == expected
    assert judgement.status.ok or not expected
    if judgement.status.code is Code.SKIP:
        assert len(expected) == len(nodes)
    feasible = [each for each in nodes if each.name in expected] or nodes
    names = [each.name for each in feasible]
    assert judgement.scores_among(*names) == oracle.scores(wanting, feasible, enforced)
