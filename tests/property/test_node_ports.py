"""NodePorts and its index, after any history, against a scan of all pods."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import node, pod
from property.oracles import node_ports as oracle
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import reserve_pod_of
from tidelock.plugins.node_ports import NodePorts
from unit.plugins.scene import Scene

NAMES = ["node-a", "node-b", "node-c"]
PORTS = st.fixed_dictionaries(
    {"containerPort": st.sampled_from([80, 81])},
    optional={
        "hostPort": st.sampled_from([80, 81]),
        "hostIP": st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),  # noqa: S104
        "protocol": st.sampled_from(["TCP", "UDP"]),
    },
)


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    lists = st.lists(PORTS, max_size=2)
    init = {"name": "init", "ports": draw(lists), "restartPolicy": draw(st.sampled_from([None, "Always"]))}
    main = {"name": "main", "ports": draw(lists), "resources": {}}
    return pod(name, initContainers=[init], containers=[main], hostNetwork=draw(st.booleans()))


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, str, Pod]]:
    """Draw histories of nodes, pods and reserve pods that come and go, also where there is no node."""
    steps = st.tuples(
        st.sampled_from(["put", "put", "drop", "place", "place", "remove", "reserve", "reserve", "release"]),
        st.sampled_from(NAMES),
        st.sampled_from(["pod-0", "pod-1", "pod-2", "pod-3"]).flatmap(pods),
    )
    return draw(st.lists(steps, max_size=16))


def replay(history: Sequence[tuple[str, str, Pod]]) -> Scene:
    scene = Scene()
    for act, name, each in history:
        match act:
            case "put":
                scene.cache.put_node(node(name))
            case "drop":
                scene.cache.drop_node(name)
            case "place":
                scene.cache.assume(each, name)
            case "remove":
                scene.cache.remove(each.uid)
            case "reserve":
                scene.cache.reserve_pods.put(reserve_pod_of(each.metadata, each.spec, each.requests), name)
            case "release":
                scene.cache.reserve_pods.discard(each.uid)
    return scene


def there(scene: Scene, name: str) -> list[Pod]:
    placed = scene.cache.pods_in("shop")
    return [*(each.pod for each in placed if each.node_name == name), *scene.cache.reserve_pods.on(name)]


@given(histories(), pods("web-0"))
@settings(deadline=None)
def test_a_node_fits_if_its_host_ports_are_free(history: list[tuple[str, str, Pod]], wanting: Pod) -> None:
    scene = replay(history)

    judgement = scene.judge(NodePorts, wanting)

    assert (judgement.status.code is Code.SKIP) == (not oracle.ports(wanting))
    assert judgement.fitting == {
        name for name in scene.columns.row_of if oracle.fits(wanting, there(scene, name))
    }


@given(histories(), pods("web-0"), pods("other"), st.data())
@settings(deadline=None)
def test_add_pod_and_remove_pod_give_the_same_answer_as_a_changed_cluster(
    history: list[tuple[str, str, Pod]], wanting: Pod, other: Pod, data: st.DataObject
) -> None:
    scene = replay([("put", "node-a", other), *history, ("put", "node-a", other)])
    plugin = NodePorts(scene.handle, {})
    scene.columns.vector(wanting.requests)
    whole, state = Snapshot.of(scene.columns), CycleState()
    rows = np.array(data.draw(st.permutations(range(len(whole)))), np.intp)
    few = whole.take(rows[: data.draw(st.integers(1, len(rows)))])
    if plugin.pre_filter(state, wanting, whole).code is Code.SKIP:
        return
    tried = state.clone()
    scene.cache.assume(other, "node-a")
    placed = scene.cache.get(other.uid)
    assert placed is not None

    plugin.add_pod(tried, wanting, placed, few)
    mask = plugin.filter(tried, wanting, few)
    assert mask.tolist() == [oracle.fits(wanting, there(scene, each.name)) for each in few.nodes]

    plugin.remove_pod(tried, wanting, placed, few)
    assert np.array_equal(plugin.filter(tried, wanting, whole), plugin.filter(state, wanting, whole))
