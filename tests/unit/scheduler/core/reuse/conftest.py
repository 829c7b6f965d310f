"""One node, and a reservation for reuse on it."""

import pytest

from builders import node, pod
from unit.scheduler.machinery import Core
from unit.scheduler.reuse import TWO, reservation


@pytest.fixture
def core() -> Core:
    """Build two nodes of 4 CPU. The first has a reservation of 2 CPU, and a pod that uses the rest."""
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="4", cordoned=True))
    core.add(pod("other", requests=TWO, node_name="node-a"))
    assert reservation(core).node == "node-a"
    return core
