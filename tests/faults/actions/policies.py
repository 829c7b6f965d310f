"""WaterLevels, quotes and quotas of a run."""

from faults.fault_run import FaultRun
from faults.history import WORLD_LABEL, Json
from tidelock.kube.client import RESERVATIONQUOTAS, RESERVATIONQUOTES, WATERLEVELS


async def create_level(run: FaultRun, number: int, refresh: int) -> None:
    """Create a WaterLevel with a source that does not exist."""
    body = {
        "apiVersion": WATERLEVELS.api_version,
        "kind": WATERLEVELS.kind,
        "metadata": {"name": _level(run, number), "labels": {WORLD_LABEL: run.world}},
        "spec": {
            "nodeSelector": {"matchLabels": {WORLD_LABEL: run.world}},
            "source": {"metricsServer": {}},
            "refreshSeconds": refresh,
        },
    }
    await run.site.admin.create(WATERLEVELS.collection(), body)


async def edit_level(run: FaultRun, number: int, refresh: int) -> None:
    path = WATERLEVELS.item(_level(run, number))
    await run.site.admin.patch(path, {"spec": {"refreshSeconds": refresh}})


async def delete_level(run: FaultRun, number: int) -> None:
    await run.site.admin.delete(WATERLEVELS.item(_level(run, number)))


def _level(run: FaultRun, number: int) -> str:
    return f"{run.world}-level-{number}"


async def create_quote(run: FaultRun, number: int, cpu: str, node: str, ttl: int) -> None:
    place = {"nodeName": run.name_of(node)} if node else {}
    spec = {"resources": {"cpu": cpu}, "ttlSeconds": ttl, **place}
    await run.create(RESERVATIONQUOTES, f"quote-{number}", spec)


async def delete_quote(run: FaultRun, number: int) -> None:
    await run.site.admin.delete(RESERVATIONQUOTES.item(f"quote-{number}", run.world))


async def create_quota(run: FaultRun, number: int, spec: Json) -> None:
    await run.create(RESERVATIONQUOTAS, f"quota-{number}", spec)


async def edit_quota(run: FaultRun, number: int, spec: Json) -> None:
    """Replace the limits of a quota."""
    path = RESERVATIONQUOTAS.item(f"quota-{number}", run.world)
    stored = await run.stored(path)
    none = dict.fromkeys(stored["spec"])
    await run.site.admin.patch(path, {"spec": none | spec})


async def delete_quota(run: FaultRun, number: int) -> None:
    await run.site.admin.delete(RESERVATIONQUOTAS.item(f"quota-{number}", run.world))
