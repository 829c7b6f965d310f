"""Search results that pods share: they equal those of a plugin that has never seen an earlier state."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW, node, pod
from devices import claiming, device_class, put, taint_rule
from property.oracles.dynamic_resources import Inventory
from property.test_dynamic_resources import claims, inventories
from tidelock.devices.allocator import Solution
from tidelock.framework.api import Code
from tidelock.model.devices import DeviceId
from tidelock.model.resource_claims import ResourceClaim
from tidelock.plugins.dynamic_resources.node_allocations import NodeAllocations
from tidelock.plugins.dynamic_resources.plugin import DynamicResources
from unit.plugins.scene import Judgement, Scene

MODEL = "'gpu.example.com' in device.attributes && device.attributes['gpu.example.com'].model == '{}'"


class Twin:
    """A plugin that keeps its results, and new ones that must agree with it."""

    def __init__(self) -> None:
        self.scene = Scene(node("node-a", labels={"zone": "a"}), node("node-b", labels={"zone": "b"}))
        self.objects = self.scene.objects
        self.plugin = DynamicResources(self.scene.handle, {})
        put(self.objects, device_class("gpu"), device_class("only-x", MODEL.format("x")))

    def show(self, inventory: Inventory) -> None:
        """Replace slices, claims in use and rules, and let other nodes come."""
        for lister, wanted in (
            (self.objects.resource_slices, inventory.slices),
            (self.objects.resource_claims, inventory.allocated),
            (self.objects.device_taint_rules, inventory.rules),
        ):
            names = {each.meta.name for each in wanted}
            for known in [*lister.all()]:
                if known.meta.name not in names and not known.meta.name.startswith("c"):
                    lister.remove(known)
            put(self.objects, *wanted)

    def judge(self, name: str) -> Judgement:
        wanted = pod(**claiming(name))
        kept = self.scene.judging(self.plugin, wanted)
        new = self.scene.judging(DynamicResources(self.scene.handle, {}), wanted)
        assert kept.status == new.status
        if kept.status.code is not Code.SUCCESS:
            return kept
        masks = [each.mask for each in (kept, new)]
        assert masks[0].tolist() == masks[1].tolist()
        found = [each.state.expect(NodeAllocations) for each in (kept, new)]
        for row in np.flatnonzero(masks[0]).tolist():
            one, other = (each.solution(kept.snapshot.nodes[row].name) for each in found)
            assert one is not None
            assert other is not None
            assert _ids(one) == _ids(other)
        for row in np.flatnonzero(~masks[0]).tolist():
            assert found[0].reason(kept.snapshot.nodes[row]) == found[1].reason(kept.snapshot.nodes[row])
        return kept

    def reserve(self, judged: Judgement, row: int) -> None:
        """Put the devices of a node in flight, if it fits."""
        name = judged.snapshot.nodes[row % len(judged.snapshot)].name
        if judged.status.code is Code.SUCCESS and name in judged.fitting:
            assert self.plugin.reserve(judged.state, judged.pod, name, NOW).ok


def _ids(solution: Solution) -> list[list[DeviceId]]:
    return [[each.candidate.id for each in claim] for claim in solution.devices]


@given(
    st.lists(
        st.tuples(inventories(), st.sampled_from(["c0", "c1"]), st.integers(0, 4)), min_size=2, max_size=5
    ),
    claims("c0", 2),
    claims("c1", 1),
)
@settings(deadline=None, max_examples=40)
def test_shared_results_follow_every_change(
    changes: list[tuple[Inventory, str, int]], one: ResourceClaim, other: ResourceClaim
) -> None:
    twin = Twin()
    put(twin.objects, one, other)
    for inventory, wanted, choice in changes:
        twin.show(inventory)
        judged = twin.judge(wanted)
        if choice == 0:
            twin.reserve(judged, 0)
        elif choice == 1:
            twin.scene.cache.put_node(node("node-b", labels={"zone": "a"}))
        elif choice == 2:
            twin.scene.cache.put_node(node("node-c", labels={"zone": "b"}))
            twin.scene.cache.drop_node("node-a")
        elif choice == 3:
            put(twin.objects, device_class("gpu", MODEL.format("y")))
        else:
            put(twin.objects, taint_rule("hot", device="d0"))
        twin.judge(wanted)
        twin.judge("c1" if wanted == "c0" else "c0")
