"""Nodes of a run."""

from contextlib import suppress

from faults.fault_run import FaultRun
from faults.history import WORLD_LABEL
from tidelock.kube.client import NODES
from tidelock.kube.errors import ApiError

NODE_LABEL = "kubernetes.io/hostname"


async def put_node(run: FaultRun, node: str, cpu: str = "4") -> None:
    size = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    body = {
        "metadata": {
            "name": run.name_of(node),
            "labels": {WORLD_LABEL: run.world, NODE_LABEL: run.name_of(node)},
        },
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    await run.site.admin.create(NODES.collection(), body)
    # Admission taints every new node, and the controllers that remove the taint do not run here.
    await run.site.admin.patch(NODES.item(run.name_of(node)), {"spec": {"taints": None}})
    if run.plan.devices:
        await run.devices.publish(node, run.name_of(node))


async def resize_node(run: FaultRun, node: str, cpu: str) -> None:
    path = NODES.item(run.name_of(node), subresource="status")
    await run.site.admin.patch(path, {"status": {"allocatable": {"cpu": cpu}, "capacity": {"cpu": cpu}}})


async def cordon(run: FaultRun, node: str, *, on: bool) -> None:
    await run.site.admin.patch(NODES.item(run.name_of(node)), {"spec": {"unschedulable": on}})


async def delete_node(run: FaultRun, node: str) -> None:
    await run.site.admin.delete(NODES.item(run.name_of(node)))


async def replace_node(run: FaultRun, node: str) -> None:
    with suppress(ApiError):
        await delete_node(run, node)
    await put_node(run, node)
