"""Pods of a run, also those that others bind."""

from typing import Any

from faults.devices import gpu_of, pod_spec
from faults.fault_run import FaultRun
from faults.history import Json
from faults.operator_instance import SCHEDULER
from tidelock.kube.client import PODS
from tidelock.kube.errors import ApiError
from tidelock.model.instants import format_instant

RUN_SECONDS = "tidelock.dev/run-seconds"
"""Annotation of a pod with the seconds after which it leaves its node."""
# Seconds after which a pod that has run for its time is certainly gone.
_GRACE = 2


async def create_borrower(run: FaultRun, number: int, cpu: str) -> None:
    """Create a pod that borrows reserved capacity until it is evicted."""
    await create_pod_of(run, f"batch-{number}", cpu, {}, {"tidelock.dev/borrows": "true"})


async def create_passing(run: FaultRun, number: int, cpu: str, seconds: int, app: str) -> None:
    """Create a pod that leaves its node some seconds after it has started there."""
    annotations = {RUN_SECONDS: str(seconds)}
    await create_pod_of(
        run, f"web-{number}", cpu, {"app": app}, annotations, terminationGracePeriodSeconds=_GRACE
    )


async def start_pod(run: FaultRun, name: str) -> None:
    """Start a pod as its kubelet would, by the operator's clock."""
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "startTime": format_instant(int(run.clock.now())), "conditions": ready}
    path = PODS.item(name, run.world, "status")
    await run.site.admin.patch(path, {"status": status}, kind="strategic")


async def end_borrower(run: FaultRun, number: int) -> None:
    await delete_pod(run, PODS.item(f"batch-{number}", run.world), 30)


async def create_pod(
    run: FaultRun, number: int, cpu: str, app: str, *, requires: bool, gpu: str = ""
) -> None:
    annotations = {"tidelock.dev/require-reservation": "true"} if requires else {}
    await create_pod_of(run, f"web-{number}", cpu, {"app": app}, annotations, gpu=gpu)


async def stranger(run: FaultRun, node: str, cpu: str) -> None:
    """Create a pod that is bound without a scheduler."""
    await create_pod_of(run, f"stranger-{len(run.log)}", cpu, {}, {}, nodeName=run.name_of(node))


async def create_pod_of(
    run: FaultRun,
    name: str,
    cpu: str,
    labels: Json,
    annotations: Json,
    owner: Json | None = None,
    gpu: str = "",
    **spec: Any,
) -> None:
    owners = [owner] if owner else []
    body = {
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": owners,
        },
        "spec": {"schedulerName": SCHEDULER, **pod_spec(run.world, cpu, gpu), **spec},
    }
    await run.site.admin.create(PODS.collection(run.world), body)


async def end_pod(run: FaultRun, number: int) -> None:
    await end_pod_named(run, f"web-{number}")


async def end_pod_named(run: FaultRun, name: str) -> None:
    """Ask a pod to end, as its kubelet would not end it here. A pod that is asked again is removed."""
    path = PODS.item(name, run.world)
    stored = await run.stored(path)
    leaving = "deletionTimestamp" in stored["metadata"]
    await delete_pod(run, path, 0 if leaving else 30)


async def replace_pod(run: FaultRun, number: int) -> None:
    """Delete a pod at once, and create another one of its name."""
    path = PODS.item(f"web-{number}", run.world)
    stored = await run.stored(path)
    await delete_pod(run, path, 0)
    cpu = stored["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    gpu = gpu_of(run.world, stored["spec"])
    await create_pod_of(run, f"web-{number}", cpu, stored["metadata"].get("labels", {}), {}, gpu=gpu)


async def delete_pod(run: FaultRun, path: str, grace: int, uid: str | None = None) -> None:
    """Delete a pod, at once if there is no grace period, and only with this uid if one is given."""
    options = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": grace,
        "preconditions": {"uid": uid},
    }
    await run.site.admin.request("DELETE", path, body=options)


async def bind_by_another(run: FaultRun, number: int, node: str) -> None:
    path = PODS.item(f"web-{number}", run.world)
    uid = (await run.stored(path))["metadata"]["uid"]
    bound_before = uid in run.foreign
    run.foreign.add(uid)
    run.proxy.stamps.note(uid)
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": f"web-{number}", "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": run.name_of(node)},
    }
    try:
        await run.site.admin.create(f"{path}/binding", body)
    except ApiError as error:
        if not bound_before and not error.outcome_unknown:
            run.foreign.discard(uid)
        raise
