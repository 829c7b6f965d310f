"""The StatefulSet whose pods are moved in a run, and its budgets."""

from faults.actions.pods import create_pod_of, delete_pod, end_pod_named
from faults.fault_run import FaultRun
from faults.history import BUDGETS, Json
from tidelock.kube.client import PODS

_MOVABLE = "tidelock.dev/movable"
_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "part", "uid": "part", "controller": True}


async def create_part(run: FaultRun, number: int, cpu: str, grace: int, *, stays: bool) -> None:
    """Create a pod of a StatefulSet, which is replaced when it is gone."""
    annotations = {_MOVABLE: "false"} if stays else {}
    await create_pod_of(
        run,
        f"part-{number}",
        cpu,
        {"app": "part"},
        annotations,
        owner=_SET,
        terminationGracePeriodSeconds=grace,
    )


async def tell_part(run: FaultRun, number: int, *, stays: bool) -> None:
    """Set whether a pod of the StatefulSet must stay on its node."""
    annotations = {_MOVABLE: "false" if stays else None}
    path = PODS.item(f"part-{number}", run.world)
    await run.site.admin.patch(path, {"metadata": {"annotations": annotations}})


async def end_part(run: FaultRun, number: int) -> None:
    await end_pod_named(run, f"part-{number}")


async def restart_pod(run: FaultRun, state: Json) -> None:
    """Remove a leaving pod, and create another one of its name."""
    meta, spec = state["metadata"], state["spec"]
    await delete_pod(run, PODS.item(meta["name"], run.world), 0, meta["uid"])
    kept = {field: spec[field] for field in ("containers", "terminationGracePeriodSeconds")}
    await create_pod_of(
        run, meta["name"], "", meta["labels"], meta.get("annotations", {}), owner=_SET, **kept
    )


async def create_budget(run: FaultRun, number: int, least: int) -> None:
    """Create a budget that keeps at least this many pods of the StatefulSet."""
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": "part"}}}
    await run.create(BUDGETS, f"budget-{number}", spec)


async def edit_budget(run: FaultRun, number: int, least: int) -> None:
    await run.site.admin.patch(_budget(run, number), {"spec": {"minAvailable": least}})


async def delete_budget(run: FaultRun, number: int) -> None:
    await run.site.admin.delete(_budget(run, number))


async def settle_budget(run: FaultRun, meta: Json, status: Json) -> None:
    """Write the status of a budget as its controller does, unless the budget has changed since."""
    body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
    await run.site.admin.patch(BUDGETS.item(meta["name"], run.world, "status"), body)


def _budget(run: FaultRun, number: int) -> str:
    return BUDGETS.item(f"budget-{number}", run.world)
