"""Requested and allocatable amounts of nodes as arrays, and the scores by requests."""

import numpy as np
import numpy.typing as npt

from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, MEMORY, PODS
from tidelock.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    evenness_of_pairs,
    gain_in_evenness,
)
from tidelock.plugins.node_resources_fit import NodeResourcesFit, whole_percent
from tidelock.plugins.registry import BUILTINS
from tidelock.simulation.world import Floats

Mask = npt.NDArray[np.bool_]

DEFAULT_WEIGHTS = {each.name: each.weight for each in BUILTINS.defaults}
"""The weights of the default profile by plugin."""

_FIT = DEFAULT_WEIGHTS[NodeResourcesFit.name]
_BALANCED = DEFAULT_WEIGHTS[NodeResourcesBalancedAllocation.name]


class NodeAmounts:
    """Requested and allocatable amounts of N nodes, and the requests of pods by workload.

    Attributes:
        capacity: allocatable cpu and memory (2 x N).
        requested: the requests of the pods of each node (2 x N).
        nonzero: the same as scoring counts them, where a pod without requests also weighs something.
        free_pods: how many more pods each node takes (N).
        wanted, weights: requests of a pod of each workload, and the same as scoring counts them.

    """

    def __init__(self, nodes: list[Node], pods: list[Pod]) -> None:
        names = (CPU, MEMORY)
        self.capacity = np.array(
            [[node.allocatable.get(name, 0) for node in nodes] for name in names], np.float64
        )
        self.requested = np.zeros_like(self.capacity)
        self.nonzero = np.zeros_like(self.capacity)
        self.free_pods = np.array([node.allocatable.get(PODS, 0) for node in nodes], np.int64)
        self.wanted = [[pod.requests.get(name, 0) for name in names] for pod in pods]
        self.weights = [list(pod.container_weights) for pod in pods]

    def take(self, workload: int, row: int, sign: int = 1) -> None:
        """Add a pod to a node, or remove it."""
        for resource in (0, 1):
            self.requested[resource, row] += sign * self.wanted[workload][resource]
            self.nonzero[resource, row] += sign * self.weights[workload][resource]
        self.free_pods[row] -= sign

    def fits(self, workload: int) -> Mask:
        """Return the nodes with enough of all resources for a pod."""
        cpu, memory = self.wanted[workload]
        fits: Mask = self.free_pods > 0
        fits &= self.requested[0] + cpu <= self.capacity[0]
        fits &= self.requested[1] + memory <= self.capacity[1]
        return fits

    def scores(self, workload: int) -> Floats:
        """Return the scores by requests: NodeResourcesFit and NodeResourcesBalancedAllocation."""
        capacity, requested = self.capacity, self.requested
        used = np.minimum(self.nonzero + np.array([self.weights[workload]]).T, capacity)
        points = whole_percent(capacity - used, capacity)
        least_allocated = np.floor((points[0] + points[1]) / 2)
        whole, with_pod = tuple(capacity), requested + np.array([self.wanted[workload]]).T
        before = evenness_of_pairs(tuple(requested), whole, np)
        after = evenness_of_pairs(tuple(with_pod), whole, np)
        scores: Floats = _FIT * least_allocated + _BALANCED * gain_in_evenness(before, after, np)
        return scores
