"""A small global manager: it sends a pod to one of several clusters that has reserved capacity for it.

    python manager.py --deadline 10 --kubeconfig east.yaml --kubeconfig west.yaml pod.yaml

It has no state of its own. Run again, it continues with the reservations of the pod's name, or finds the pod.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import yaml

from tidelock.client import PODS, AlreadyExists, ClientError, Cluster, Taken, race


async def dispatch(clusters: Sequence[Cluster], pod: dict[str, Any], deadline: int) -> str:
    """Send the pod to the first cluster with capacity, and return the name of the cluster.

    Raises:
        AllRefused: no cluster has capacity within `deadline` seconds. The error has the reason of each.
        Unknown: a cluster does not answer, and an earlier run may have sent the pod there.

    """
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    spec = {
        "template": {"metadata": {"labels": pod["metadata"].get("labels", {})}, "spec": pod["spec"]},
        "owners": [{"pod": {"name": name}}],
        "ttlSeconds": 300,  # enough time to send the pod, even after a crash
        "pendingDeadlineSeconds": deadline,
    }
    try:
        async with race(clusters, spec, name=name, namespace=namespace) as held:
            with suppress(AlreadyExists):  # another manager has sent it meanwhile, to the same cluster
                await held.cluster.create(PODS, pod, namespace)
            held.keep()
    except Taken as earlier:
        return earlier.cluster
    return held.cluster.name


async def run(options: argparse.Namespace) -> str:
    """Connect to all clusters, and dispatch one pod."""
    async with AsyncExitStack() as stack:
        opened = (Cluster(path, kubeconfig=path) for path in options.kubeconfig)
        clusters = [await stack.enter_async_context(each) for each in opened]
        return await dispatch(clusters, yaml.safe_load(options.pod), options.deadline)


def main() -> None:
    """Read the command line and dispatch one pod. The exit status is 1 without capacity."""
    parser = argparse.ArgumentParser(description="Send a pod to a cluster that has reserved capacity for it.")
    parser.add_argument(
        "--kubeconfig", action="append", required=True, help="of each cluster, the best first"
    )
    parser.add_argument("--deadline", type=int, default=10, help="seconds to wait for capacity")
    parser.add_argument("pod", type=argparse.FileType(), help="manifest of the pod, with its namespace")
    try:
        print(f"sent to {asyncio.run(run(parser.parse_args()))}")
    except ClientError as error:
        sys.exit(f"not sent: {error}")


if __name__ == "__main__":
    main()
