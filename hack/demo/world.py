"""The actions and observations of the story in the cluster, through the API alone."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from devcluster import Cluster
from tidelock.kube.client import EVENTS, NODES, PODS, RESERVATIONS, KubeClient
from tidelock.kube.errors import NotFound
from tidelock.model.instants import parse_instant
from tidelock.model.pods import decode_pod
from tidelock.model.quantities import CPU, format_quantity, parse_quantity

T = TypeVar("T")

NAMESPACE = "demo"
SCHEDULER = "tidelock-scheduler"
_POLL_SECONDS = 0.005
_PATIENCE_SECONDS = 60.0
_MILLI = 1000
_WORKER = 3900  # millicores of the workers that the story is written for
GPU = "gpu.demo.tidelock.dev"
"""Name of the device's driver, class, slice and template of claims."""
_CLAIMING = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": GPU}]}


class StepError(AssertionError):
    """A claim of the story does not hold in the cluster."""


class World:
    """A cluster, with the helpers of the story. Its pods and reservations fit the workers alone."""

    def __init__(self, cluster: Cluster, client: KubeClient, workers: Sequence[str], image: str) -> None:
        self.cluster = cluster
        self._client = client
        self._workers = workers
        self._image = image
        self._core = _MILLI

    async def prepare(self) -> None:
        """Shrink the story's cores to fit the smallest worker, and fill the others until all are equal."""
        free = await self.free_cpu()
        self._core = min(_MILLI, *(free[worker] * _MILLI // _WORKER for worker in self._workers))
        for number, worker in enumerate(self._workers, start=1):
            if surplus := free[worker] - _WORKER * self._core // _MILLI:
                await self.create_pod(f"filling-{number}", format_quantity(CPU, surplus), on=[worker])
                await self.bound(f"filling-{number}")

    def cores(self, count: float) -> str:
        """Return an amount of cpu from the story's cores, of which a worker has 3.9."""
        return format_quantity(CPU, int(count * self._core))

    def publish_gpu(self, node: str) -> None:
        """Publish one device of a node, as its driver does, with a class and a template of claims for it."""
        selector = {"cel": {"expression": f"device.driver == '{GPU}'"}}
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        request = {"name": "gpu", "exactly": {"deviceClassName": GPU}}
        specs = {
            "DeviceClass": {"selectors": [selector]},
            "ResourceSlice": {"driver": GPU, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]},
            "ResourceClaimTemplate": {"spec": {"devices": {"requests": [request]}}},
        }
        items = [
            {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": GPU}, "spec": spec}
            for kind, spec in specs.items()
        ]
        objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        self.cluster.kubectl("apply", f"--namespace={NAMESPACE}", "--filename=-", input=objects)

    def withdraw_gpu(self) -> None:
        """Delete the device and its class, which do not go with the namespace."""
        self.cluster.kubectl("delete", f"resourceslice/{GPU}", f"deviceclass/{GPU}", "--wait=false")

    async def create_pod(
        self, name: str, cpu: str, *, gpu: bool = False, on: Collection[str] | None = None
    ) -> None:
        """Create a pod of one container that requests this much cpu, and a device if it is to have one.

        It fits the nodes in `on`, or all workers.
        """
        container = {
            "name": "main",
            "image": self._image,
            "command": ["sleep", "1h"],
            "resources": {"requests": {"cpu": cpu}},
        }
        spec: dict[str, object] = {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 1,  # `sleep` would use up the 30 that are the default
            "containers": [container],
            "affinity": _affinity_to(self._workers if on is None else on),
        }
        spec |= _CLAIMING if gpu else {}
        await self._client.create(PODS.collection(NAMESPACE), {"metadata": {"name": name}, "spec": spec})

    async def reserve(self, name: str, cpu: str, owner: str, *, gpu: bool = False, **spec: object) -> None:
        """Create a Reservation of this much cpu for the pod named `owner`, which lives for 10 minutes.

        With `gpu` it also holds a device, for a claim of the pod.
        """
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        pod = {"containers": [container], "affinity": _affinity_to(self._workers)}
        pod |= _CLAIMING if gpu else {}
        whole: dict[str, object] = {"template": {"spec": pod}}
        whole |= {"owners": [{"pod": {"name": owner}}], "ttlSeconds": 600}
        await self._client.create(
            RESERVATIONS.collection(NAMESPACE),
            {
                "apiVersion": RESERVATIONS.api_version,
                "kind": RESERVATIONS.kind,
                "metadata": {"name": name},
                "spec": whole | spec,
            },
        )

    async def pod(self, name: str) -> dict[str, Any]:
        """Read a pod."""
        return _parsed(await self._client.get(PODS.item(name, NAMESPACE)))

    async def reservation(self, name: str) -> dict[str, Any] | None:
        """Read a Reservation, or return None if there is none."""
        try:
            return _parsed(await self._client.get(RESERVATIONS.item(name, NAMESPACE)))
        except NotFound:
            return None

    def allocated(self, pod: str) -> list[str]:
        """Return the devices that claims of a pod have got."""
        listed = self.cluster.kubectl("get", "resourceclaims", f"--namespace={NAMESPACE}", "--output=json")
        return [
            result["device"]
            for claim in json.loads(listed)["items"]
            if any(user["name"] == pod for user in claim.get("status", {}).get("reservedFor", []))
            for result in claim["status"]["allocation"]["devices"]["results"]
        ]

    async def delete_pod(self, name: str) -> None:
        """Delete a pod, and wait until it is gone."""
        await self._client.delete(PODS.item(name, NAMESPACE))
        await self.until(f"pod {name} is gone", lambda: self._gone(name))

    async def bound(self, name: str) -> tuple[str, float]:
        """Wait until a pod is bound, and return its node and the time at which this was seen."""
        pod = await self.until(
            f"pod {name} is bound", lambda: self.pod(name), lambda pod: pod["spec"].get("nodeName")
        )
        return pod["spec"]["nodeName"], time.time()

    async def active(self, name: str) -> dict[str, Any]:
        """Wait until a reservation is Active, and return its status."""
        what = f"reservation {name} is Active"
        held = await self.until(
            what, lambda: self.reservation(name), lambda seen: seen and condition(seen, "Active")
        )
        status: dict[str, Any] = held["status"] if held else {}
        return status

    async def refused(self, name: str, reason: str = "") -> str:
        """Wait until a pod has a FailedScheduling event with a reason, and return the event's note."""
        path = EVENTS.collection(NAMESPACE)

        async def notes() -> list[str]:
            events = _parsed(await self._client.get(path))["items"]
            return [
                e["note"]
                for e in events
                if e["regarding"]["name"] == name
                and e["reason"] == "FailedScheduling"
                and reason in e["note"]
            ]

        return (await self.until(f"pod {name} is refused", notes))[-1]

    async def free_cpu(self) -> dict[str, int]:
        """Return the cpu of each worker that no pod has requested, in millicores."""
        free = {
            node["metadata"]["name"]: parse_quantity(CPU, node["status"]["allocatable"][CPU])
            for node in _parsed(await self._client.get(NODES.collection()))["items"]
            if node["metadata"]["name"] in self._workers
        }
        for plain in _parsed(await self._client.get(PODS.collection()))["items"]:
            pod = decode_pod(json.dumps(plain).encode())
            if pod.node_name in free and not pod.finished:
                free[pod.node_name] -= pod.requests.get(CPU, 0)
        return free

    async def node_count(self) -> int:
        """Return the number of all nodes, which a refusal counts."""
        return len(_parsed(await self._client.get(NODES.collection()))["items"])

    async def show(self) -> None:
        """Print workers and Reservations as a user sees them."""
        for node, cpu in sorted((await self.free_cpu()).items()):
            print(f"    {node:<16} {format_quantity(CPU, cpu):>6} cpu without a pod")
        table = self.cluster.kubectl("get", "reservations", "--namespace", NAMESPACE)
        for line in table.splitlines() or ["no reservations"]:
            print(f"    {line}")

    async def until(
        self, what: str, probe: Callable[[], Awaitable[T]], accept: Callable[[T], object] = bool
    ) -> T:
        """Probe until the result is accepted.

        Raises:
            StepError: no result was accepted in time.

        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not accept(seen := await probe()):
            if time.monotonic() > deadline:
                raise StepError(
                    f"{what}: not within {_PATIENCE_SECONDS:g} s; last seen: {json.dumps(seen, default=str)}"
                )
            await asyncio.sleep(_POLL_SECONDS)
        return seen

    async def _gone(self, name: str) -> bool:
        try:
            await self.pod(name)
        except NotFound:
            return True
        return False


def condition(seen: dict[str, Any], name: str) -> bool:
    """Return whether a condition is True."""
    conditions = seen.get("status", {}).get("conditions", [])
    return any(each["type"] == name and each["status"] == "True" for each in conditions)


def message(seen: dict[str, Any], name: str) -> str:
    """Return the message of a condition, or an empty text if there is no such condition."""
    conditions = seen.get("status", {}).get("conditions", [])
    return next((str(each["message"]) for each in conditions if each["type"] == name), "")


def expiry(status: dict[str, Any]) -> float:
    """Return the instant at which a reservation ends, in seconds since the epoch."""
    return parse_instant(status["expiresAt"])


def _parsed(body: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(body)
    return parsed


def _affinity_to(nodes: Collection[str]) -> dict[str, Any]:
    """Return the affinity of a pod that fits these nodes alone, whatever their labels are."""
    fields = ({"key": "metadata.name", "operator": "In", "values": [node]} for node in nodes)
    terms = [{"matchFields": [field]} for field in fields]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
