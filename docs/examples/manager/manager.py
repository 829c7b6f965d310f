"""A global manager in small: it asks several clusters for room and sends a pod to one that has locked it.

    python manager.py --deadline 10 --kubeconfig east.yaml --kubeconfig west.yaml pod.yaml

It remembers nothing: all that it knows is in the clusters, so it may crash at any step and be started again.

    ask every cluster for a lock -> mark one that is Active -> release the others -> send the pod

The mark decides: it is one write to one object, which fails if that has changed meanwhile. Before it, a new
start asks again, and the locks that are there answer at once. After it, a new start goes on with the marked
cluster.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

Manifest = dict[str, Any]

GROUP, VERSION, PLURAL = "tidelock.dev", "v1alpha1", "reservations"
CHOSEN = "manager.example.com/chosen"
GONE, EXISTS, CHANGED = 404, 409, 409
LOOK_AGAIN = 0.05  # seconds
# How long a lock lives after its Active: time enough to decide and to send, also after a crash.
LIFE_SECONDS = 300


class NoRoomError(Exception):
    """No cluster has given a lock in time; says why, for each."""


class Member:
    """One cluster, and what the manager does there for one pod."""

    def __init__(self, kubeconfig: str, pod: Manifest) -> None:
        self.name = kubeconfig
        api = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
        self._core, self._custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
        self._pod: Any = pod
        self._namespace, self._key = pod["metadata"]["namespace"], pod["metadata"]["name"]

    def ask(self, deadline: int) -> None:
        """Ask for a lock of just what the pod needs; harmless if it has been asked for."""
        lock = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Reservation",
            "metadata": {"name": self._key},
            "spec": {
                "template": {"metadata": self._labels(), "spec": self._pod["spec"]},
                "owners": [{"pod": {"name": self._key}}],
                "ttlSeconds": LIFE_SECONDS,
                "pendingDeadlineSeconds": deadline,
            },
        }
        _unless(
            EXISTS,
            lambda: self._custom.create_namespaced_custom_object(
                GROUP, VERSION, self._namespace, PLURAL, lock
            ),
        )

    def lock(self) -> Manifest | None:
        """Read the lock."""
        found: Manifest | None = _unless(
            GONE,
            lambda: self._custom.get_namespaced_custom_object(
                GROUP, VERSION, self._namespace, PLURAL, self._key
            ),
        )
        return found

    def mark(self, lock: Manifest) -> bool:
        """Choose this cluster for good, unless its lock has changed meanwhile; whether that is done."""
        meta = {"annotations": {CHOSEN: "true"}, "resourceVersion": lock["metadata"]["resourceVersion"]}
        try:
            self._custom.patch_namespaced_custom_object(
                GROUP, VERSION, self._namespace, PLURAL, self._key, {"metadata": meta}
            )
        except ApiException as error:
            if error.status in (GONE, CHANGED):
                return False
            raise
        return True

    def release(self) -> None:
        """Give the lock back; harmless if it is gone."""
        _unless(
            GONE,
            lambda: self._custom.delete_namespaced_custom_object(
                GROUP, VERSION, self._namespace, PLURAL, self._key
            ),
        )

    def send(self) -> None:
        """Send the pod; harmless if it is there."""
        _unless(EXISTS, lambda: self._core.create_namespaced_pod(self._namespace, self._pod))

    def has_pod(self) -> bool:
        """Tell whether the pod has been sent here."""
        return _unless(GONE, lambda: self._core.read_namespaced_pod(self._key, self._namespace)) is not None

    def _labels(self) -> Manifest:
        return {"labels": self._pod["metadata"].get("labels", {})}


def dispatch(
    members: Sequence[Member], deadline: int, step: Callable[[str], None] = lambda _name: None
) -> str:
    """Send the pod to a cluster that has room; gives that cluster's name.

    `step` is told of each step that is done, in the order of their names in the code.

    Raises:
        NoRoomError: no cluster has room within `deadline` seconds; nothing is left behind.

    """
    home = next((member for member in members if member.has_pod()), None)
    while home is None:
        chosen = next((member for member in members if _is_chosen(member.lock())), None)
        if chosen is None:
            chosen = _choose(members, deadline, step)
        for member in members:
            if member is not chosen:
                member.release()
        step("released")
        if is_active(chosen.lock()):
            chosen.send()
            home = chosen
        else:
            chosen.release()  # it has ended while nobody looked: all from the start
    step("sent")
    for member in members:
        if member is not home:
            member.release()
    return home.name


def _choose(members: Sequence[Member], deadline: int, step: Callable[[str], None]) -> Member:
    """Ask all, and mark the first that has room."""
    for member in members:
        member.ask(deadline)
    step("asked")
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        for member in members:
            lock = member.lock()
            if lock is not None and is_active(lock) and member.mark(lock):
                step("chosen")
                return member
        time.sleep(LOOK_AGAIN)
    reasons = [f"{member.name}: {_why(member.lock())}" for member in members]
    for member in members:
        member.release()
    raise NoRoomError("; ".join(reasons))


def is_active(lock: Manifest | None) -> bool:
    """Tell whether a lock holds its room."""
    return _condition(lock).get("status") == "True"


def _is_chosen(lock: Manifest | None) -> bool:
    return lock is not None and CHOSEN in lock["metadata"].get("annotations", {})


def _why(lock: Manifest | None) -> str:
    return str(_condition(lock).get("message") or "no answer")


def _condition(lock: Manifest | None) -> Manifest:
    conditions = (lock or {}).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "Active"), {})


def _unless(status: int, call: Callable[[], Any]) -> Any:
    """Give the answer of a call, or None where it fails with this status."""
    try:
        return call()
    except ApiException as error:
        if error.status != status:
            raise
        return None


def main() -> int:
    """Read the command line and dispatch one pod; the exit status is 1 if there is no room."""
    parser = argparse.ArgumentParser(description="Send a pod to a cluster that has locked room for it.")
    parser.add_argument("--kubeconfig", action="append", required=True, help="of each cluster")
    parser.add_argument("--deadline", type=int, default=10, help="seconds to wait for room")
    parser.add_argument("pod", type=argparse.FileType(), help="manifest of the pod, with its namespace")
    options = parser.parse_args()
    pod = yaml.safe_load(options.pod)
    try:
        print(f"sent to {dispatch([Member(path, pod) for path in options.kubeconfig], options.deadline)}")
    except NoRoomError as error:
        print(f"no room: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
