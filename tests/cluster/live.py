"""Objects on the API server, with the operations of tests: read, wait, change."""

import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from cluster.api import Api, Manifest, RefusedError
from devcluster import wait_for
from tidelock.kube.client import ApiResource
from tidelock.model.instants import format_instant, parse_instant

_INTERVAL = 0.03  # seconds between two polls
_REPLAY_SECONDS = 60  # within which a watch replays the past events


class Live:
    """An object on the API server."""

    def __init__(self, api: Api, resource: ApiResource, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        self.api = api
        self.name: str = metadata["name"]
        self.namespace: str | None = metadata.get("namespace")
        self.uid: str = metadata["uid"]
        self.path = resource.item(self.name, self.namespace)
        self._collection = resource.collection(self.namespace)
        self._version: str = metadata["resourceVersion"]

    def read(self) -> Manifest | None:
        """Read the object. Return None if it is gone or another object has its name."""
        try:
            found = self.api.get(self.path)
        except RefusedError as refusal:
            if refusal.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return found if found["metadata"]["uid"] == self.uid else None

    def until(self, accept: Callable[[Manifest], object], what: str) -> Manifest:
        """Wait until the object is as described, and return it. It must not be deleted meanwhile."""
        seen = wait_for(
            self.read,
            until=lambda found: found is None or accept(found),
            what=f"{self.name} to {what}",
            interval=_INTERVAL,
        )
        assert seen is not None, f"{self.name} is gone before it could {what}"
        return seen

    def until_gone(self) -> None:
        """Wait until the object is deleted."""
        wait_for(self.read, until=lambda found: found is None, what=f"{self.name} to go", interval=_INTERVAL)

    def history(self) -> list[tuple[str, Manifest]]:
        """Return all events of the object from its creation until now, as (event type, object).

        A test looks up a short-lived state here, because polling can miss it.
        """
        now = self.read()
        version = now["metadata"]["resourceVersion"] if now else None
        past: list[tuple[str, Manifest]] = []
        if version == self._version:
            return past
        selector = f"metadata.name={self.name}"
        for kind, told in self.api.watch(
            self._collection, _REPLAY_SECONDS, fieldSelector=selector, resourceVersion=self._version
        ):
            assert kind != "ERROR", told
            past.append((kind, told))
            if kind == "DELETED" or told["metadata"]["resourceVersion"] == version:
                return past
        raise AssertionError(f"the watch did not tell all of {self.name}: {past}")

    def merge(self, patch: Manifest, subresource: str = "") -> Manifest:
        """Merge a patch into the object, or into one of its subresources."""
        return self.api.merge(f"{self.path}/{subresource}" if subresource else self.path, patch)

    def delete(self) -> None:
        """Delete the object at once."""
        self.api.delete(self.path)


class Node(Live):
    """A node without a machine."""

    def cordon(self, *, on: bool = True) -> None:
        """Keep new pods off the node, or admit them again."""
        self.merge({"spec": {"unschedulable": on}})

    def set_ready(self, status: str) -> None:
        """Report the Ready condition as a kubelet would, on a cluster where no other program does."""
        self.merge(
            {"status": {"conditions": [{"type": "Ready", "status": status, "reason": "Test"}]}}, "status"
        )

    def resize(self, **allocatable: str) -> None:
        """Change the allocatable amounts of the node."""
        self.merge({"status": {"allocatable": allocatable}}, "status")


class Pod(Live):
    """A pod for the operator's scheduler."""

    def until_bound(self) -> str:
        """Wait until the pod is bound, and return the name of its node."""
        bound = self.until(lambda pod: pod["spec"].get("nodeName"), "be bound")
        return str(bound["spec"]["nodeName"])

    def until_refused(self, *words: str) -> str:
        """Wait until the pod's condition says in these words that no node fits, and return its message."""
        refused = self.until(
            lambda pod: all(word in _diagnosis(pod) for word in ("0/", *words)), f"be refused with {words}"
        )
        assert "nodeName" not in refused["spec"]
        return _diagnosis(refused)

    def ask_for(self, cpu: str) -> None:
        """Request a resize of the first container in place."""
        pod = self.api.get(self.path)
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        self.merge({"spec": {"containers": pod["spec"]["containers"]}}, "resize")

    def grant(self, cpu: str) -> None:
        """Report the new size of the first container, as a kubelet does once it is in effect."""
        running = self.until(lambda pod: pod["status"].get("phase") == "Running", "run")
        statuses = running["status"]["containerStatuses"]
        statuses[0] |= {"allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}
        self.merge({"status": {"containerStatuses": statuses}}, "status")


class Lock(Live):
    """A Reservation."""

    def until_phase(self, phase: str) -> Manifest:
        """Wait for a phase that lasts, and return the status."""
        found = self.until(
            lambda reservation: reservation.get("status", {}).get("phase") == phase, f"be {phase}"
        )
        status: Manifest = found["status"]
        return status

    def until_condition(self, kind: str, status: str, reason: str) -> Manifest:
        """Wait for a condition that lasts, and return it."""
        found = self.until(
            lambda reservation: _matches(condition(reservation["status"], kind), status, reason),
            f"have {kind}={status} with reason {reason}",
        )
        return condition(found["status"], kind)

    def status(self) -> Manifest:
        """Read the status as it is now."""
        status: Manifest = self.api.get(self.path)["status"]
        return status

    def edit(self, **spec: Any) -> None:
        """Merge changes into the spec. None removes a field."""
        self.merge({"spec": spec})

    def phases(self) -> list[str]:
        """Return the phases that the object has had, in order, each change once.

        A status without a phase is left out: the operator has not written it yet. So is a first `Pending` of
        a reservation that gets capacity, as the operator can see it before the node that the test has made.
        """
        seen: list[str] = []
        for _, reservation in self.history():
            phase = reservation["status"].get("phase", "")
            if phase and phase not in seen[-1:]:
                seen.append(phase)
        placed = seen[:1] == ["Pending"] and seen[1:2] in (["Active"], ["Planned"])
        return seen[1:] if placed else seen


def condition(status: Manifest, kind: str) -> Manifest:
    """Return a condition of a status, empty if it is absent."""
    conditions: list[Manifest] = status.get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def in_seconds(seconds: float) -> str:
    """Return the instant this many seconds from now, as text."""
    return format_instant(time.time() + seconds)


def until_past(instant: str) -> None:
    """Wait until an instant of a status has passed."""
    time.sleep(max(parse_instant(instant) - time.time(), 0.0) + 0.1)


def _matches(found: Manifest, status: str, reason: str) -> bool:
    return (found.get("status"), found.get("reason")) == (status, reason)


def _diagnosis(pod: Manifest) -> str:
    return str(condition(pod["status"], "PodScheduled").get("message", ""))
