"""The worked example of docs/autoscalers.md, for a scripted autoscaler and for Karpenter."""

from dataclasses import dataclass

from cluster.api import Manifest
from cluster.live import Lock, Node, Pod, condition
from cluster.world import World
from documents import ROOT, page_block
from tidelock.kube.client import NODES

_PAGE = ROOT / "docs" / "autoscalers.md"
NODE_CPU = "2"


@dataclass(frozen=True)
class Example:
    """The objects of the example after its last node was added.

    The reservation `second` has the added node `made`, and the pod `guest` is on the added node `guest_node`.
    """

    first: Node
    second: Lock
    made: str
    guest: Pod
    guest_node: str

    @property
    def nodes(self) -> set[str]:
        """The names of all nodes."""
        return {self.first.name, self.made, self.guest_node}


def reservation(world: World, name: str = "web-1") -> Manifest:
    """Return the reservation of the page, with a name, for the nodes of a test."""
    (found,) = page_block(_PAGE, "web-1.yaml").documents
    found["metadata"] = {"name": name, "namespace": world.namespace}
    found["spec"] |= {"owners": [{"pod": {"name": name}}], "nodeSelector": world.selector}
    return dict(found)


def permit(world: World) -> None:
    """Create the quota of the page."""
    (found,) = page_block(_PAGE, "quota.yaml").documents
    world.quota(found["metadata"]["name"], **found["spec"])


def run_example(world: World) -> Example:
    """Run the example up to the pod's binding, beside an autoscaler that runs."""
    first = world.node("first", cpu=NODE_CPU)
    permit(world)
    world.store(reservation(world, "web-0")).until_phase("Active")
    second = world.store(reservation(world))
    made = second.until_phase("Active")["nodeName"]

    # Both nodes are empty, so only the reservations are in the pod's way.
    guest = world.pod("guest", reservation(world)["spec"]["resources"]["cpu"])
    guest_node = guest.until_bound()
    refusals = [condition(each["status"], "PodScheduled").get("message", "") for _, each in guest.history()]
    assert any("Insufficient cpu beside reservations" in each for each in refusals)
    example = Example(first, second, made, guest, guest_node)
    assert len(example.nodes) == 3
    label, value = next(iter(world.selector.items()))
    listed = world.admin.get(f"{NODES.collection()}?labelSelector={label}={value}")["items"]
    assert {each["metadata"]["name"] for each in listed} == example.nodes
    return example
