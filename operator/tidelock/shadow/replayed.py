"""The replayed world: the same nodes and pods, with each new pod on the node that the profile chooses.

The choice is made when the cluster's scheduler binds the pod, over the nodes as they would be by all choices
so far. So the profile's choices spread there as they would in the cluster. Pods that were bound before the
run, pods of DaemonSets and pods that were created with a node are where they are in the cluster.
"""

from collections.abc import Iterator

from tidelock.clock import Clock
from tidelock.framework.config import Configuration
from tidelock.model.pods import Pod, assigned_to
from tidelock.shadow.decisions import ReplayedCounts
from tidelock.shadow.levels import MovedPod
from tidelock.shadow.world import ShadowWorld

# Pods without a node that are tried again at each look.
_AT_A_LOOK = 50


class ReplayedWorld:
    """Places pods in a world of its own."""

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        self.world = ShadowWorld(configuration, clock)
        self._moved: dict[str, MovedPod] = {}
        self._unplaced: dict[str, Pod] = {}
        self._never = 0

    def decide(self, pod: Pod, now: float) -> None:
        """Place a pod that the cluster's scheduler has just bound."""
        node_name = self.world.choose(pod, now)
        if not node_name:
            self._never += 1
            self._unplaced[pod.uid] = pod
        self._move(pod, node_name)

    def follow(self, pod: Pod) -> None:
        """Take over a change of a pod that was not decided here, or was decided before."""
        moved = self._moved.get(pod.uid)
        if moved is None:
            self.world.handlers.pods.upsert(None, pod)
        elif pod.finished:
            self.forget(pod)
        elif not moved.replayed:
            self._unplaced[pod.uid] = pod
        else:
            self.world.handlers.pods.upsert(None, assigned_to(pod, moved.replayed))

    def forget(self, pod: Pod) -> None:
        """Remove a pod that is gone."""
        self._moved.pop(pod.uid, None)
        self._unplaced.pop(pod.uid, None)
        self.world.handlers.pods.remove(pod)

    def retry(self, now: float) -> None:
        """Try some of the pods without a node again."""
        for uid, pod in list(self._unplaced.items())[:_AT_A_LOOK]:
            node_name = self.world.choose(pod, now)
            del self._unplaced[uid]
            if node_name:
                self._move(pod, node_name)
            else:
                self._unplaced[uid] = pod  # behind the others

    def moved(self) -> Iterator[MovedPod]:
        """Yield the pods that are on another node, or on none."""
        yield from self._moved.values()

    def counts(self) -> ReplayedCounts:
        """Return the number of pods without a node, and of those on another node."""
        return ReplayedCounts(self._never, len(self._unplaced), len(self._moved) - len(self._unplaced))

    def _move(self, pod: Pod, node_name: str) -> None:
        if node_name == pod.node_name:
            self._moved.pop(pod.uid, None)
        else:
            self._moved[pod.uid] = MovedPod(pod.key, pod.node_name, node_name)
        if node_name:
            self.world.handlers.pods.upsert(None, assigned_to(pod, node_name))
