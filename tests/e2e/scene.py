"""Reservations of every kind that live while the installation changes under them."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e.stream import pod, reservation
from faults.history import Json
from faults.reading import says
from tidelock.kube.client import (
    PODS,
    RESERVATIONGROUPS,
    RESERVATIONQUOTAS,
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    ApiResource,
    KubeClient,
)
from tidelock.model.instants import format_instant

_PATIENCE = 150.0
_LOOK = 0.3
_HOUR = 3600.0
_EACH_MINUTE = {
    "schedule": "0 4 * * *",
    "durationSeconds": 600,
    "template": {"spec": {"resources": {"cpu": "10m"}, "owners": [{"pod": {"name": "nightly"}}]}},
}


@dataclass(slots=True)
class Scene:
    """A plain reservation, a window, a group, a lease, two phases, a schedule and a quota in a namespace."""

    client: KubeClient
    namespace: str
    now: Callable[[], float]

    async def create(self, resource: ApiResource, body: Json) -> None:
        """Create an object in the namespace."""
        await self.client.create(resource.collection(self.namespace), body)

    async def prepare(self) -> None:
        """Create all of them, and wait until each is active or planned."""
        await self.create(RESERVATIONQUOTAS, self._body(RESERVATIONQUOTAS, "quota", hard={"cpu": "200m"}))
        for each in (
            reservation("plain", "20m"),
            reservation(
                "window", "20m", startAt=format_instant(self.now() + _HOUR), pendingDeadlineSeconds=7200
            ),
            reservation("lease", "20m", lease={"durationSeconds": 30, "graceSeconds": 1200}),
            reservation("phases", "20m", commit={"withinSeconds": 3000}),
            reservation("reused", "20m", reuse="Always"),
        ):
            await self.create(RESERVATIONS, each)
        member = {"name": "member", "count": 2, "resources": {"cpu": "20m"}}
        member |= {"owners": [{"selector": {"matchLabels": {"job": "gang"}}}]}
        group = self._body(RESERVATIONGROUPS, "gang", members=[member], ttlSeconds=3600)
        await self.create(RESERVATIONGROUPS, group)
        await self.create(RESERVATIONSCHEDULES, self._body(RESERVATIONSCHEDULES, "nightly", **_EACH_MINUTE))
        await self.until("all are active or planned", self.stands)
        await self.create(RESERVATIONS, reservation("too-much", "150m", pendingDeadlineSeconds=3600))

    async def stands(self) -> str:
        """Return which object has not the state that it must have, or an empty text."""
        found = await self.reservations()
        wrong = [name for name in ("plain", "lease", "phases", "reused") if not _active(found.get(name))]
        members = [one for name, one in found.items() if name.startswith("gang-")]
        wrong += ["gang"] * (sum(map(_active, members)) != 2)
        planned = [one for name, one in found.items() if name == "window" or name.startswith("nightly-")]
        wrong += ["window"] * (not planned or any(_phase(one) != "Planned" for one in planned))
        wrong += ["schedule"] * (len(planned) < 2)
        if "too-much" in found and _active(found["too-much"]):
            wrong.append("quota")
        return ", ".join(wrong)

    async def finish(self) -> None:
        """Use each of them as its owner would: bind, commit, renew, and free the quota for the last one."""
        for name in ("plain", "lease", "reused"):
            await self.create(PODS, pod(name, "20m"))
        token = (await self.reservations())["phases"]["status"]["commit"]["token"]
        path = RESERVATIONS.item("phases", self.namespace)
        await self.client.patch(path, {"spec": {"commit": {"token": token}}}, kind="merge")
        await self.until("phases is committed", lambda: self._lacks("phases", "Committed"))
        for name in ("phases", "member-0", "member-1"):
            made = pod(name, "20m")
            made["metadata"]["labels"] = {"job": "gang"} if "member" in name else {}
            await self.create(PODS, made)
        await self.until("all owners are bound", self._unbound)
        await self.until("the quota is free", lambda: self._lacks("too-much", "Active"))

    async def reservations(self) -> dict[str, Json]:
        """Return all reservations by name."""
        listed = json.loads(await self.client.get(RESERVATIONS.collection(self.namespace)))
        return {each["metadata"]["name"]: each for each in listed["items"]}

    async def _lacks(self, name: str, kind: str) -> str:
        found = (await self.reservations()).get(name, {})
        return "" if found and says(found, kind) else f"{name} is {found.get('status')}"

    async def _unbound(self) -> str:
        listed = json.loads(await self.client.get(PODS.collection(self.namespace)))
        return ", ".join(
            each["metadata"]["name"] for each in listed["items"] if not each["spec"].get("nodeName")
        )

    async def until(self, what: str, lack: Callable[[], Any]) -> None:
        """Wait until nothing is lacking."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while lacking := await lack():
            late = asyncio.get_running_loop().time() > deadline
            assert not late, f"not within {_PATIENCE:g} s: {what}: {lacking}"
            await asyncio.sleep(_LOOK)

    def _body(self, resource: ApiResource, name: str, **spec: Any) -> Json:
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        }


def _active(found: Json | None) -> bool:
    return found is not None and says(found, "Active")


def _phase(found: Json) -> str:
    return str(found.get("status", {}).get("phase"))
