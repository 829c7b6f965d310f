"""Reservations and pods that want devices, by claims and as extended resources, and moves of a cluster."""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from builders import NAMESPACE, NOW, Json, encode, node, pod, reservation_json
from devices import (
    claim_json,
    claim_template,
    claiming_from,
    device_class,
    device_slice,
    pod_template,
    put,
    request,
    wanting,
)
from tidelock.framework.events import RESOURCE_CLAIM_DELETE
from tidelock.ledger.output.status import render_reservation
from tidelock.model.api.reservation import Phase
from tidelock.model.devices import DeviceClass
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import Pod, assigned_to
from tidelock.model.reservation import decode_reservation
from tidelock.model.resource_claims import ResourceClaim, decode_resource_claim
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.device_core import DeviceCore, held

NODES = ("node-a", "node-b")
DEVICES = 3
GPU = "example.com/gpu"
WORKLOAD = [{"selector": {"matchLabels": {"app": "web"}}}]
ENDED = (Phase.CONSUMED, Phase.EXPIRED, Phase.REJECTED, Phase.LOST)


class Asked(NamedTuple):
    """The devices that a pod asks for: claims from templates by name, and an amount of GPUs."""

    claims: tuple[str, ...] = ()
    gpus: int = 0


ASKED = [
    *(Asked(("one",)), Asked(("one",)), Asked(("two",)), Asked(("one", "two"))),
    *(Asked(gpus=1), Asked(gpus=1), Asked(gpus=2), Asked(("one",), 1)),
]
LIVES: list[Json] = [
    *({}, {}, {}),
    {"reuse": "Always"},
    {"ttlSeconds": 30},
    {"priority": 5},
    {"borrowable": True},
]
MOVES = [
    *("reserve", "reserve", "reserve", "create_pod", "create_pod", "create_pod", "create_pod"),
    *("finish_binding", "finish_binding", "finish_binding", "end_pod", "cancel", "pass_time", "restart"),
    *("edit_owners", "edit_amounts", "delete_leftovers"),
]
FAILING = [
    *("reserve", "create_pod", "create_pod", "finish_binding", "finish_binding", "finish_binding"),
    *("pass_time", "end_pod", "restart", "delete_leftovers"),
]
CHANGING = [
    *MOVES,
    "reserve",
    "create_pod",
    "change_class",
    "change_class",
    "publish",
    "publish",
    "change_slice",
]


class DeviceWorld:
    """Two nodes with three devices each, which provide GPUs. The API server is a few dictionaries.

    Attributes:
        moves: the moves, of which frequent ones stand there several times.
        for_any: the share of reservations for any pod of the workload.
        bound, failed_late: the shares of bindings that succeed, and that fail after the claims are written.
        binding: the pods in binding, by UID. Some of them are gone.
        published: the GPUs that a node has itself, by its name.

    """

    moves = MOVES
    for_any, bound, failed_late = 0.4, 0.5, 0.25

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.reservations: dict[str, Json] = {}
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.binding: dict[str, AssumedPod] = {}
        self.classes = {"gpu": device_class(resource=GPU)}
        self.published = dict.fromkeys(NODES, 0)
        self.without_slice: set[str] = set()
        self.versions = 0
        self.core = self.new_core()
        self.core.list_all()

    def new_core(self) -> DeviceCore:
        core = DeviceCore(*NODES, devices=DEVICES, listed=False)
        put(core.objects, claim_template("one"), claim_template("two", request("gpu", wanting(count=2))))
        put(core.objects, *self.classes.values())
        for name, gpus in self.published.items():
            core.event_handlers.nodes.upsert(None, node(name, cpu="64", **{GPU: str(gpus)}))
        for name in self.without_slice:
            core.objects.resource_slices.remove(slice_of(name))
        return core

    # The API server.

    def version(self) -> int:
        self.versions += 1
        return self.versions

    def store_statuses(self) -> None:
        """Write the statuses that have changed. Ended reservations are deleted, as their specs ask."""
        for name, stored in list(self.reservations.items()):
            entry = self.core.ledger.entries.get(Key(NAMESPACE, name))
            if entry is None:
                continue
            stored["status"] = render_reservation(entry, self.core.clock.now())
            stored["metadata"]["resourceVersion"] = str(self.version())
            self.core.ledger.acknowledge(decode_reservation(encode(stored)))
            if entry.phase in ENDED:
                self.delete(name)

    def delete(self, name: str) -> None:
        del self.reservations[name]
        self.core.event_handlers.reservations.remove(self.core.entry(name).reservation)

    def show(self, claim: ResourceClaim) -> None:
        """Store a claim, and show it."""
        self.claims[claim.meta.name] = claim
        put(self.core.objects, claim)

    def delete_claim(self, claim: ResourceClaim) -> None:
        """Delete a claim, if it is still there."""
        if self.claims.pop(claim.meta.name, None) is not None:
            self.core.objects.resource_claims.remove(claim)
            self.core.event_handlers.notify(RESOURCE_CLAIM_DELETE, claim, None)

    def claims_of(self, uid: str) -> list[ResourceClaim]:
        """Return the claims of a pod, including that for its extended resources."""
        return [each for each in self.claims.values() if each.meta.owner_references[0].uid == uid]

    # Moves of reservations.

    def reserve(self) -> None:
        asked, life = self.rng.choice(ASKED), self.rng.choice(LIVES)
        for_any = self.rng.random() < self.for_any
        owners: Json = {"owners": WORKLOAD} if for_any else {"owners": self.one_owner()}
        name = f"lock-{self.rng.randrange(10)}-{self.version()}"
        fields = self.capacity(asked) | owners | life
        if not asked.claims and self.rng.random() < 0.1:
            fields["startAt"] = format_instant(self.core.clock.now() + 50)
        plain = reservation_json(
            name, uid=name, version=self.version(), created=self.core.clock.now(), **fields
        )
        self.reservations[name] = plain
        self.core.event_handlers.reservations.upsert(None, decode_reservation(encode(plain)))

    def capacity(self, asked: Asked, cpu: str = "1") -> Json:
        """Return what the spec of a reservation says about its capacity."""
        if not asked.claims and self.rng.random() < 0.5:
            return {"resources": {"cpu": cpu, GPU: str(asked.gpus)}}
        template = pod_template(*asked.claims, cpu=cpu)
        if asked.gpus:
            template["spec"]["containers"][0]["resources"]["requests"][GPU] = str(asked.gpus)
        return {"resources": None, "template": template}

    def one_owner(self) -> list[Json]:
        return [{"pod": {"name": self.rng.choice(["web-0", "web-1"])}}]

    def edit_owners(self) -> None:
        """Name another owner, which may be the same, or bound already."""
        if self.reservations:
            self.edit(self.rng.choice(sorted(self.reservations)), {"owners": self.one_owner()})

    def edit_amounts(self) -> None:
        """Ask for other amounts of CPU and GPUs."""
        if self.reservations:
            name = self.rng.choice(sorted(self.reservations))
            asked = self.asked_by(name)
            gpus = self.rng.choice([1, 1, 2, 3]) if asked.gpus else 0
            capacity = self.capacity(Asked(asked.claims, gpus), self.rng.choice("12"))
            self.edit(name, {"template": None, "resources": None} | capacity)

    def edit(self, name: str, fields: Json) -> None:
        """Change fields of a reservation's spec. None removes a field."""
        stored = self.reservations[name]
        known = self.core.entry(name).reservation
        spec = stored["spec"] | fields
        stored["spec"] = {field: value for field, value in spec.items() if value is not None}
        stored["metadata"]["generation"] += 1
        stored["metadata"]["resourceVersion"] = str(self.version())
        self.core.event_handlers.reservations.upsert(known, decode_reservation(encode(stored)))
        self.core.answer()

    def asked_by(self, name: str) -> Asked:
        """Return the devices that a reservation asks for."""
        asked = self.core.entry(name).reservation.pod
        assert asked is not None
        return Asked(tuple(each.name for each in asked.spec.resource_claims), asked.requests.get(GPU, 0))

    def cancel(self) -> None:
        if self.reservations:
            self.delete(self.rng.choice(sorted(self.reservations)))

    # Moves of pods.

    def create_pod(self) -> None:
        """Create a pod, mostly with the claims and amounts of a reservation for it."""
        own = self.rng.random() < 0.7
        asked, name = self.rng.choice(ASKED), f"{'web' if own else 'other'}-{self.rng.randrange(2)}"
        if name in self.pods:
            return
        locks = [lock for lock in self.reservations if self.owns(name, lock)]
        if locks and self.rng.random() < 0.8:
            asked = self.asked_by(self.rng.choice(locks))
        uid = f"{name}-{self.version()}"
        annotations = {"tidelock.dev/borrows": "true"} if self.rng.random() < 0.2 else {}
        labels = {"app": "web"} if own else {}
        fields = claiming_from(*asked.claims, pod=uid) | {"containers": list(self.containers(asked.gpus))}
        made = pod(name, uid=uid, labels=labels, annotations=annotations, **fields)
        self.pods[name] = made
        for kind in asked.claims:
            template = self.core.objects.resource_claim_templates.get(kind, NAMESPACE)
            assert template is not None
            plain = claim_json(f"{uid}-{kind}", owner=name, version=self.version())
            plain["metadata"]["ownerReferences"][0]["uid"] = uid
            self.show(replace(decode_resource_claim(encode(plain)), spec=template.spec.spec))
        self.core.add(made)

    def containers(self, gpus: int) -> Iterator[Json]:
        """Yield containers that ask for some GPUs, one or all of them each."""
        parts = [1] * gpus if self.rng.random() < 0.3 else [gpus]
        for number, part in enumerate(parts or [0]):
            requests = {"cpu": "1"} if not number else {}
            requests |= {GPU: str(part)} if part else {}
            yield {"name": f"main-{number}", "image": "x", "resources": {"requests": requests}}

    def owns(self, name: str, lock: str) -> bool:
        """Return whether a pod with some name is an owner of a reservation."""
        owners: Any = self.reservations[lock]["spec"]["owners"]
        if owners == WORKLOAD:
            return name.startswith("web-")
        return bool(owners[0]["pod"]["name"] == name)

    def decide(self) -> None:
        for outcome in self.core.decide():
            if isinstance(outcome, AssumedPod):
                self.binding[outcome.pod.uid] = outcome
                self.decided(outcome)
        self.store_statuses()

    def decided(self, assumed: AssumedPod) -> None:
        """Look at a decision about a pod."""

    def pass_time(self) -> None:
        self.core.clock.advance(self.rng.choice([1, 31, 400]))

    def finish_binding(self) -> None:
        """Bind a pod, or fail before or after its claims are written. It fails if the pod is gone."""
        if not self.binding:
            return
        uid, outcome = self.rng.choice(sorted(self.binding)), self.rng.random()
        assumed = self.binding.pop(uid)
        name = assumed.pod.meta.name
        there = name in self.pods and self.pods[name].uid == uid
        binds, writes = there and outcome < self.bound, outcome < self.bound + self.failed_late
        if writes:
            self.write(assumed, complete=binds or self.rng.random() < 0.7)
        if not binds:
            self.core.decider.binding_failed(assumed, self.core.clock.now())
            if self.rng.random() < 0.5:
                self.delete_leftovers()
            return
        bound = assigned_to(assumed.pod, assumed.node_name)
        self.pods[name] = bound
        self.core.decider.bound(assumed, self.core.clock.now())
        self.core.event_handlers.pods.upsert(assumed.pod, bound)
        self.core.answer()
        self.store_statuses()

    def write(self, assumed: AssumedPod, *, complete: bool) -> None:
        """Create the claim for extended resources, and write the allocations of all claims if complete."""
        created = self.core.create_own_claim(assumed)
        if created is not None:
            self.show(created)
        for claim in self.claims_of(assumed.pod.uid) if complete else ():
            allocation = self.core.objects.resource_claims.in_flight.get(claim.key)
            if allocation is not None:
                self.show(replace(claim, status=replace(claim.status, allocation=allocation)))

    def delete_leftovers(self) -> None:
        """Delete the claims for extended resources of pods that are neither in binding nor bound."""
        kept = {each.uid for each in self.pods.values() if each.node_name} | self.binding.keys()
        for claim in list(self.claims.values()):
            owner = claim.extended_resources_of
            if owner and owner not in kept:
                self.delete_claim(claim)

    def end_pod(self) -> None:
        """Delete a pod, rarely one in binding, with its claims."""
        there = [name for name, each in sorted(self.pods.items()) if each.uid not in self.binding]
        if self.rng.random() < 0.2:
            there = sorted(self.pods)
        if not there:
            return
        gone = self.pods.pop(self.rng.choice(there))
        self.core.event_handlers.pods.remove(gone)
        for claim in self.claims_of(gone.uid):
            self.delete_claim(claim)
        self.core.answer()

    # Moves of the cluster.

    def change_class(self) -> None:
        """Let the class provide GPUs, another resource or none, or let a newer class provide GPUs."""
        name = self.rng.choice(["gpu", "gpu", "newer"])
        known = self.classes.pop(name, None)
        handler = self.core.event_handlers.others["device_classes"]
        if name == "newer" and known is not None:
            handler.remove(known)
        else:
            if name == "gpu":
                new = device_class(resource=self.rng.choice([GPU, GPU, "", "example.com/other"]))
            else:
                new = device_class(name, "device.driver == 'none'", resource=GPU, created=format_instant(NOW))
            handler.upsert(known, new)
            self.classes[name] = new
        self.core.answer()

    def publish(self) -> None:
        """Let a node publish some GPUs itself, or none."""
        name, gpus = self.rng.choice(NODES), self.rng.choice([0, 0, 1, 2, 6])
        known = self.core.decider.columns.nodes[self.core.decider.columns.row_of[name]]
        self.published[name] = gpus
        changed = node(name, cpu="64", version=self.version(), **{GPU: str(gpus)})
        self.core.event_handlers.nodes.upsert(known, changed)
        self.core.answer()

    def change_slice(self) -> None:
        """Remove the devices of a node, or bring them back."""
        name = self.rng.choice(NODES)
        slices = self.core.objects.resource_slices
        if name in self.without_slice:
            self.without_slice.discard(name)
            slices.upsert(None, slice_of(name))
        else:
            self.without_slice.add(name)
            slices.remove(slice_of(name))

    def provided(self, node_name: str) -> DeviceClass | None:
        """Return the class of the devices that provide GPUs on a node, or None."""
        if self.published[node_name]:
            return None
        backing = [each for each in self.classes.values() if GPU in each.extended_resources]
        return max(backing, key=lambda each: each.meta.created, default=None)

    def restart(self) -> None:
        """Begin again with what is stored. Bindings under way have failed.

        A reservation keeps its devices. Only if its owner was in binding, its spec or the class of its
        resource may have changed meanwhile.
        """
        self.store_statuses()
        now = self.core.clock.time
        entries = {name: self.core.entry(name) for name in self.reservations}
        before = {
            name: held(each)
            for name, each in entries.items()
            if each.phase is not Phase.BOUND and self.binding.keys().isdisjoint(each.occupants)
        }
        self.binding.clear()
        self.start_again(now)
        for name, devices in before.items():
            assert held(self.core.entry(name)) == devices

    def start_again(self, now: float) -> None:
        self.core = core = self.new_core()
        core.clock.time = now
        put(core.objects, *self.claims.values())
        core.add(*self.pods.values())
        for stored in self.reservations.values():
            core.event_handlers.reservations.upsert(None, decode_reservation(encode(stored)))
        core.list_all()
        core.answer()


def slice_of(node_name: str) -> Any:
    """Build the slice of a node's devices."""
    short = node_name.removeprefix("node-")
    return device_slice(short, *(f"{short}-{number}" for number in range(DEVICES)), node_name=node_name)
