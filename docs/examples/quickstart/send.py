"""Sends a pod to the first of two clusters that has reserved capacity for it."""

import asyncio

from tidelock.client import PODS, Cluster, Taken, race

CONTAINER = {
    "name": "web",
    "image": "example.com/web",
    "resources": {"requests": {"cpu": "2", "memory": "4Gi"}},
}
POD = {
    "metadata": {"name": "web-0"},
    "spec": {"schedulerName": "tidelock-scheduler", "containers": [CONTAINER]},
}
SPEC = {"template": {"spec": POD["spec"]}, "owners": [{"pod": {"name": "web-0"}}], "ttlSeconds": 300}


async def main() -> None:
    """Reserve in both clusters, commit one reservation, and create the pod there."""
    east, west = Cluster("east", kubeconfig="east.yaml"), Cluster("west", kubeconfig="west.yaml")
    try:
        async with east, west, race([east, west], SPEC, name="web-0", namespace="shop") as held:
            await held.cluster.create(PODS, POD, "shop")
            held.keep()
            print(f"web-0 goes to {held.node} in {held.cluster.name}")
    except Taken as earlier:
        print(f"web-0 is in {earlier.cluster} already")


if __name__ == "__main__":
    asyncio.run(main())
