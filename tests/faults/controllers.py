"""Simulation of a cluster's controllers and kubelets, as none of them runs here.

It deletes reservations with the group or schedule that made them. It ends pods that were evicted, or that
have run for their declared time. It replaces pods of the StatefulSet, and it updates the statuses of budgets.
It makes the claims of pods, and frees the devices of claims without a pod.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NoReturn

from faults.actions.pods import RUN_SECONDS, delete_pod, start_pod
from faults.actions.sets import delete_unwanted
from faults.actions.stateful_set import restart_pod, settle_budget
from faults.fault_run import FaultRun
from faults.history import BUDGETS, CLAIMS, Json, Record
from faults.reading import controller_of, is_bound, is_leaving, says, selects
from tidelock.kube.client import PODS, RESERVATIONGROUPS, RESERVATIONSCHEDULES
from tidelock.kube.errors import ApiError, NotFound
from tidelock.model.instants import parse_instant

# Pauses in seconds of the loop.
_PAUSE = 0.3
_LOOK = 1.0


class SimulatedControllers:
    """Does the work of controllers and kubelets for the objects of a run.

    Attributes:
        done: number of actions so far.

    """

    def __init__(self, run: FaultRun, record: Record) -> None:
        self._run = run
        self._record = record
        self.done = 0
        self._gone_by: dict[str, float] = {}  # loop times at which leaving pods of the set are gone, by uid

    async def run(self) -> NoReturn:
        """Do all pending work, for ever."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._record.news.wait()
            self._record.news.clear()
            await asyncio.sleep(_PAUSE)
            for work in list(self._work()):
                self.done += 1
                with suppress(ApiError):
                    await work()

    @property
    def busy(self) -> bool:
        """Whether work is pending."""
        current = self._record.current().items()
        leaving = any(kind == "pods" and _is_to_be_replaced(state) for (kind, _), state in current)
        return leaving or next(self._work(), None) is not None

    def _work(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield all work that is known to be pending now."""
        current, now = self._record.current(), self._run.clock.now()
        yield from self._claim_work(current)
        owners = {state["metadata"]["uid"] for (kind, _), state in current.items() if kind in _OWNERS}
        for (kind, name), state in current.items():
            meta = state["metadata"]
            if kind == "reservations":
                if any(owner["uid"] not in owners for owner in meta.get("ownerReferences", ())):
                    yield partial(self._delete_orphan, meta)
            elif kind == BUDGETS.plural and (news := _news(state, current)):
                yield partial(settle_budget, self._run, meta, news)
            elif kind == "pods" and _is_to_be_replaced(state):
                if self._has_ended(state):
                    yield partial(restart_pod, self._run, state)
            elif kind == "pods" and _is_over(state, now):
                yield partial(delete_pod, self._run, PODS.item(name, self._run.world), 0)
            elif kind == "pods" and _is_to_start(state):
                yield partial(start_pod, self._run, name)

    def _claim_work(self, current: Mapping[tuple[str, str], Json]) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield the work of the controllers of claims."""
        pods = {state["metadata"]["uid"] for (kind, _), state in current.items() if kind == "pods"}
        for (kind, _), state in current.items():
            if kind == CLAIMS.plural and controller_of(state)["uid"] not in pods:
                yield partial(self._run.devices.end_claim, state)
            elif kind == "pods" and _lacks_claims(state):
                yield partial(self._run.devices.create_claim, state)

    def _has_ended(self, pod: Json) -> bool:
        """Return whether the grace period of a leaving pod is over."""
        now, grace = asyncio.get_running_loop().time(), pod["spec"]["terminationGracePeriodSeconds"]
        return now >= self._gone_by.setdefault(pod["metadata"]["uid"], now + grace)

    async def _delete_orphan(self, meta: Json) -> None:
        """Delete a reservation unless its owner exists after all, as the garbage collector would."""
        (owner,) = meta["ownerReferences"]
        try:
            stored = await self._run.stored(_KINDS[owner["kind"]].item(owner["name"], self._run.world))
        except NotFound:
            stored = None
        if stored is None or stored["metadata"]["uid"] != owner["uid"]:
            await delete_unwanted(self._run, meta)


_KINDS = {resource.kind: resource for resource in (RESERVATIONGROUPS, RESERVATIONSCHEDULES)}
_OWNERS = {resource.plural for resource in _KINDS.values()}


def _is_over(pod: Json, now: float) -> bool:
    """Return whether a pod was evicted, or has run for its declared time."""
    annotations, started = pod["metadata"].get("annotations", {}), pod["status"].get("startTime")
    if "deletionTimestamp" in pod["metadata"]:
        return "tidelock.dev/borrows" in annotations or RUN_SECONDS in annotations
    passes = RUN_SECONDS in annotations and started is not None
    return passes and parse_instant(started) + int(annotations[RUN_SECONDS]) <= now


def _lacks_claims(pod: Json) -> bool:
    wanted = "resourceClaims" in pod["spec"] and "resourceClaimStatuses" not in pod["status"]
    return wanted and not is_leaving(pod)


def _is_to_be_replaced(pod: Json) -> bool:
    return bool(controller_of(pod)) and is_leaving(pod)


def _is_to_start(pod: Json) -> bool:
    runs = RUN_SECONDS in pod["metadata"].get("annotations", {}) or controller_of(pod)
    return bool(runs) and is_bound(pod) and "startTime" not in pod["status"]


def _news(budget: Json, current: Mapping[tuple[str, str], Json]) -> Json:
    """Return the changes that the disruption controller would make to the status of a budget."""
    told = budget.get("status", {})
    pods = [state for (kind, _), state in current.items() if kind == "pods" and selects(budget, state)]
    going = {name for pod in pods if (name := _granted(pod, told.get("disruptedPods", {})))}
    healthy = sum(
        says(pod, "Ready") and not is_leaving(pod) and pod["metadata"]["name"] not in going for pod in pods
    )
    least = budget["spec"]["minAvailable"]
    wanted: Json = {
        "disruptionsAllowed": max(healthy - least, 0),
        "currentHealthy": healthy,
        "desiredHealthy": least,
        "expectedPods": len(pods),
        "observedGeneration": budget["metadata"]["generation"],
    }
    over = dict.fromkeys(told.get("disruptedPods", {}).keys() - going)
    news = {name: value for name, value in wanted.items() if told.get(name) != value}
    return news | ({"disruptedPods": over} if over else {})


def _granted(pod: Json, disrupted: Json) -> str:
    """Return the name of a pod with a granted eviction that is not leaving yet, or an empty text."""
    meta = pod["metadata"]
    at = disrupted.get(meta["name"])
    return meta["name"] if at and not is_leaving(pod) and meta["creationTimestamp"] < at else ""
