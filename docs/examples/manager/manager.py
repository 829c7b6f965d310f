"""A small global manager: it asks several clusters for capacity, and sends a pod to one that reserved it.

    python manager.py --deadline 10 --kubeconfig east.yaml --kubeconfig west.yaml pod.yaml

It has no state of its own: everything is in the clusters, so it may crash at any step and be restarted.

    prepare a reservation in every cluster -> commit the best -> release the others -> send the pod

The commit decides: it is one write to one object, and counts only if the promised capacity is still held.
Before the commit, a restarted manager asks again, and the existing reservations answer at once. After the
commit, it continues with the cluster whose reservation has a commit. A reservation without a commit releases
itself.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

Manifest = dict[str, Any]

ANSWER = "tidelock.dev/answer"
GROUP, VERSION, PLURAL = "tidelock.dev", "v1alpha1", "reservations"
GONE, EXISTS, REFUSED = 404, 409, 422
LOOK_AGAIN = 0.05  # seconds
# Lifetime of a committed reservation from Active: enough time to send, even after a crash.
LIFE_SECONDS = 300
# Seconds for which prepared capacity is held beyond the deadline, when all clusters have answered.
COMMIT_SECONDS = 20


class NoCapacityError(Exception):
    """No cluster granted a reservation in time. The message has the reason of each cluster."""


class Member:
    """One cluster, and the requests of the manager there for one pod."""

    def __init__(self, kubeconfig: str, pod: Manifest) -> None:
        self.name = kubeconfig
        api = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
        self._core, self._custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
        self._pod: Any = pod
        self._namespace, self._key = pod["metadata"]["namespace"], pod["metadata"]["name"]

    def prepare(self, deadline: int) -> Manifest | None:
        """Create a reservation of the amounts that the pod needs, unless it exists, and return it.

        Where the cluster serves immediate answers, the response already has the node and the token.
        """
        reservation = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Reservation",
            "metadata": {"name": self._key},
            "spec": {
                "template": {"metadata": self._labels(), "spec": self._pod["spec"]},
                "owners": [{"pod": {"name": self._key}}],
                "commit": {"withinSeconds": deadline + COMMIT_SECONDS},
                "ttlSeconds": LIFE_SECONDS,
                "pendingDeadlineSeconds": deadline,
                "answer": "Immediate",
            },
        }
        created: Manifest | None = _unless(
            (EXISTS,),
            lambda: self._custom.create_namespaced_custom_object(
                GROUP, VERSION, self._namespace, PLURAL, reservation
            ),
        )
        return self.reservation() if created is None else _with_answer(created)

    def reservation(self) -> Manifest | None:
        """Read the reservation."""
        found: Manifest | None = _unless(
            (GONE,),
            lambda: self._custom.get_namespaced_custom_object(
                GROUP, VERSION, self._namespace, PLURAL, self._key
            ),
        )
        return found and _with_answer(found)

    def commit(self, reservation: Manifest) -> None:
        """Commit the capacity that the reservation holds now. Do nothing if the reservation has ended."""
        token = {"spec": {"commit": {"token": reservation["status"]["commit"]["token"]}}}
        _unless(
            (GONE, REFUSED),
            lambda: self._custom.patch_namespaced_custom_object(
                GROUP, VERSION, self._namespace, PLURAL, self._key, token
            ),
        )

    def release(self) -> None:
        """Release the reservation, unless it is gone."""
        _unless(
            (GONE,),
            lambda: self._custom.delete_namespaced_custom_object(
                GROUP, VERSION, self._namespace, PLURAL, self._key
            ),
        )

    def send(self) -> None:
        """Create the pod, unless it exists."""
        _unless((EXISTS,), lambda: self._core.create_namespaced_pod(self._namespace, self._pod))

    def has_pod(self) -> bool:
        """Return whether the pod was sent to this cluster."""
        return (
            _unless((GONE,), lambda: self._core.read_namespaced_pod(self._key, self._namespace)) is not None
        )

    def _labels(self) -> Manifest:
        return {"labels": self._pod["metadata"].get("labels", {})}


def dispatch(
    members: Sequence[Member], deadline: int, step: Callable[[str], None] = lambda _name: None
) -> str:
    """Send the pod to a cluster that has capacity, and return the name of the cluster.

    `step` is called with the name of each finished step.

    Raises:
        NoCapacityError: no cluster has capacity within `deadline` seconds. All reservations are released.

    """
    home = next((member for member in members if member.has_pod()), None)
    while home is None:
        chosen = next((member for member in members if _is_chosen(member.reservation())), None)
        if chosen is None:
            chosen = _choose(members, deadline, step)
        if _is_committed(chosen):
            for member in members:
                if member is not chosen:
                    member.release()
            step("released")
            chosen.send()
            home = chosen
        else:
            chosen.release()  # the promised capacity is gone: start over
    step("sent")
    for member in members:
        if member is not home:
            member.release()
    return home.name


def _choose(members: Sequence[Member], deadline: int, step: Callable[[str], None]) -> Member:
    """Prepare all clusters, and commit the first one that has capacity, in the given order."""
    end = time.monotonic() + deadline
    reservations = [member.prepare(deadline) for member in members]
    step("prepared")
    while time.monotonic() < end and not _have_answered(reservations):
        time.sleep(LOOK_AGAIN)
        reservations = [member.reservation() for member in members]
    for member, reservation in zip(members, reservations, strict=True):
        if reservation is not None and is_active(reservation):
            member.commit(reservation)
            step("committed")
            return member
    for member in members:
        member.release()
    reasons = [
        f"{member.name}: {_why(reservation)}"
        for member, reservation in zip(members, reservations, strict=True)
    ]
    raise NoCapacityError("; ".join(reasons))


def _with_answer(reservation: Manifest) -> Manifest:
    """Return a reservation with the status that the response to its creation had, if it has none yet."""
    answer = reservation["metadata"].get("annotations", {}).get(ANSWER)
    if answer is None or "phase" in reservation.get("status", {}):
        return reservation
    return {**reservation, "status": json.loads(answer)["status"]}


def is_active(reservation: Manifest | None) -> bool:
    """Return whether a reservation holds its capacity."""
    return _condition(reservation, "Active").get("status") == "True"


def _have_answered(reservations: Sequence[Manifest | None]) -> bool:
    """Return whether all reservations were tried, and one is active or none will be."""
    reasons = [
        _condition(reservation, "Active").get("reason", "Waiting")
        for reservation in reservations
        if reservation is not None
    ]
    over = all(
        reservation is None or reservation["status"].get("phase") == "Rejected"
        for reservation in reservations
    )
    return "Waiting" not in reasons and (over or any(map(is_active, reservations)))


def _is_chosen(reservation: Manifest | None) -> bool:
    return reservation is not None and "token" in reservation["spec"]["commit"]


def _is_committed(member: Member) -> bool:
    """Wait until the operator has processed a commit, and return whether the commit counts."""
    reservation = member.reservation()
    while reservation is not None and _condition(reservation, "Committed").get("reason") == "AwaitingCommit":
        time.sleep(LOOK_AGAIN)
        reservation = member.reservation()
    return is_active(reservation) and _condition(reservation, "Committed").get("status") == "True"


def _why(reservation: Manifest | None) -> str:
    return str(_condition(reservation, "Active").get("message") or "no answer")


def _condition(reservation: Manifest | None, kind: str) -> Manifest:
    conditions = (reservation or {}).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def _unless(statuses: tuple[int, ...], call: Callable[[], Any]) -> Any:
    """Return the answer of a call, or None if it fails with one of these statuses."""
    try:
        return call()
    except ApiException as error:
        if error.status not in statuses:
            raise
        return None


def main() -> int:
    """Read the command line and dispatch one pod. The exit status is 1 without capacity."""
    parser = argparse.ArgumentParser(description="Send a pod to a cluster that has reserved capacity for it.")
    parser.add_argument(
        "--kubeconfig", action="append", required=True, help="of each cluster, the best first"
    )
    parser.add_argument("--deadline", type=int, default=10, help="seconds to wait for capacity")
    parser.add_argument("pod", type=argparse.FileType(), help="manifest of the pod, with its namespace")
    options = parser.parse_args()
    pod = yaml.safe_load(options.pod)
    try:
        print(f"sent to {dispatch([Member(path, pod) for path in options.kubeconfig], options.deadline)}")
    except NoCapacityError as error:
        print(f"no capacity: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
