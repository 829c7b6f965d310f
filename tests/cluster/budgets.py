"""PodDisruptionBudgets in a cluster without their controller. Tests write their status."""

from cluster.live import Live
from cluster.world import World
from tidelock.kube.client import ApiResource

_BUDGETS = ApiResource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


def budget(world: World, allowed: int, **labels: str) -> Live:
    """Create a budget for the pods with these labels, with the status that its controller would write."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    plain = world.api.create(
        _BUDGETS.collection(world.namespace), {"metadata": {"name": "budget"}, "spec": spec}
    )
    made = Live(world.api, _BUDGETS, plain)
    allow(made, allowed)
    return made


def allow(made: Live, allowed: int) -> None:
    """Let a budget allow this many evictions from now on."""
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 4,
        "observedGeneration": 1,
        "disruptedPods": None,
    }
    made.merge({"status": status}, "status")
