"""The look-up before a race: the reservations and the pod that an earlier run of it has left."""

import asyncio
from collections.abc import Sequence

from tidelock.client.errors import AlreadyExists, ClientError, NotFound, Taken, Unknown
from tidelock.client.remote import RemoteReservation, finish, release_all
from tidelock.kube.client import PODS
from tidelock.model.pods import decode_pod


async def look_up(remotes: Sequence[RemoteReservation]) -> None:
    """Take over the reservations that an earlier run has left. All clusters are asked at once.

    Raises:
        Taken: a cluster has the pod, or its reservation is consumed. The other clusters' are released.
        AlreadyExists: a reservation of the name asks for something else.
        Unknown: a cluster can't be asked.

    """
    failures = dict(zip(remotes, await asyncio.gather(*map(_look, remotes)), strict=True))
    if sent := [each for each in failures.values() if isinstance(each, Taken)]:
        left = [remote for remote, failure in failures.items() if not isinstance(failure, Taken)]
        await finish(release_all(left))
        raise sent[0]
    if others := [each for each in failures.values() if isinstance(each, AlreadyExists)]:
        raise others[0]
    if unknown := {remote.cluster.name: each for remote, each in failures.items() if each is not None}:
        raise Unknown(unknown)


async def _look(remote: RemoteReservation) -> ClientError | None:
    """Look for the reservation and the pods that its owners name. Return Taken, or another failure."""
    names = {owner.pod.name for owner in remote.spec.owners if owner.pod is not None}
    found = await asyncio.gather(_reservation(remote), *(_pod(remote, name) for name in names))
    failures = [each for each in found if each is not None]
    return min(failures, key=lambda each: not isinstance(each, Taken), default=None)


async def _reservation(remote: RemoteReservation) -> ClientError | None:
    try:
        await remote.find()
    except ClientError as error:
        return error
    return None


async def _pod(remote: RemoteReservation, name: str) -> ClientError | None:
    """Return Taken for a pod in any state: one that waits will run, and one that has ended has run."""
    try:
        pod = decode_pod(await remote.cluster.get(PODS, name, remote.namespace))
    except NotFound:
        return None
    except ClientError as error:
        return error
    state = "exists and is not bound" if not pod.node_name else f"is on node {pod.node_name}"
    text = f"pod {pod.key} {state}{f', {pod.status.phase}' if pod.finished else ''}"
    return Taken(text, cluster=remote.cluster.name, pod=name, node=pod.node_name)
