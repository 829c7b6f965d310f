"""The resource claims of the benchmark's pods: their creation and release, and a check of their devices."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from bench.audit import read_all
from bench.nodes import Json
from bench.world import NAMESPACE, each
from tidelock.kube.client import KubeClient
from tidelock.scheduler.informers.informers import OTHERS

CLAIMS, SLICES, CLASSES = (
    OTHERS[kind][0] for kind in ("resource_claims", "resource_slices", "device_classes")
)


async def add_claims(client: KubeClient, claims: Iterable[Json]) -> None:
    """Create claims."""

    async def add(claim: Json) -> None:
        await client.create(CLAIMS.collection(NAMESPACE), claim)

    await each(add, claims)


async def release_claims(client: KubeClient) -> None:
    """Take the finalizers off all claims that have some, which a controller does where one runs."""

    async def release(claim: Json) -> None:
        path = CLAIMS.item(claim["metadata"]["name"], NAMESPACE)
        await client.patch(path, {"metadata": {"finalizers": None}})

    claims = await read_all(client, CLAIMS.collection(NAMESPACE))
    await each(release, [each for each in claims if each["metadata"].get("finalizers")])


async def audit_claims(client: KubeClient, nodes: Mapping[str, str]) -> list[str]:
    """Return a text for each device that several claims have, and for each claim without its pod's devices.

    Args:
        client: reads the claims.
        nodes: the node of each pod, by their names. Pools have the names of their nodes.

    """
    return [*wrong_devices(await read_all(client, CLAIMS.collection(NAMESPACE)), nodes)]


def wrong_devices(claims: Iterable[Json], nodes: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts. Each claim has the name of its pod."""
    users: Counter[tuple[str, str]] = Counter()
    for claim in claims:
        name = claim["metadata"]["name"]
        results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        users.update((each["pool"], each["device"]) for each in results)
        wanted = sum(each["exactly"]["count"] for each in claim["spec"]["devices"]["requests"])
        if len(results) != wanted:
            yield f"claim {name} has {len(results)} of {wanted} devices"
        if any(each["pool"] != nodes.get(name) for each in results):
            yield f"claim {name} has devices of another node than {nodes.get(name)}"
    for (pool, device), count in users.items():
        if count > 1:
            yield f"device {device} of {pool} is in {count} claims"
