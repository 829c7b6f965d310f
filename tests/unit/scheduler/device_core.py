"""The scheduler's core with devices: claims are made and written as the API server would show them."""

from typing import Any

from msgspec.structs import replace

from builders import NAMESPACE, Json, encode, node, pod
from devices import (
    claim_json,
    claim_template,
    claiming_from,
    device_class,
    device_slice,
    pod_template,
    put,
)
from tidelock.framework.events import Action, ClusterEvent, Resource
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from tidelock.model.pods import Pod, assigned_to
from tidelock.model.resource_claims import FOR_EXTENDED_RESOURCES, ResourceClaim, decode_resource_claim
from tidelock.plugins.dynamic_resources.claim_writer import ReservedClaims
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.machinery import Core


class DeviceCore(Core):
    """Nodes with devices named after them: node-a has a-0 and a-1."""

    def __init__(self, *names: str, devices: int = 2, listed: bool = True) -> None:
        names = names or ("node-a",)
        super().__init__(*(node(name, cpu="64") for name in names), listed=listed)
        self.objects = self.decider.objects
        put(self.objects, device_class(), claim_template())
        for name in names:
            short = name.removeprefix("node-")
            each = [f"{short}-{number}" for number in range(devices)]
            put(self.objects, device_slice(short, *each, node_name=name))

    def lock(self, name: str = "lock", *templates: str, **fields: Any) -> ReservationInfo:
        """Deliver a reservation for a pod with claims from templates, and decide."""
        template = pod_template(*(templates or ("gpus",)))
        fields = {"resources": None, "template": template} | fields
        entry = self.reservation(name, **fields)
        self.decide()
        return entry

    def pod(self, name: str = "web-0", *templates: str, **fields: Any) -> Pod:
        """Deliver a pod with its claims from templates."""
        templates = templates or ("gpus",)
        for template in templates:
            made = self.objects.resource_claim_templates.get(template, NAMESPACE)
            assert made is not None
            plain = claim_json(f"{name}-{template}", owner=name)
            claim = decode_resource_claim(encode(plain))
            put(self.objects, replace(claim, spec=made.spec.spec))
        arrived = pod(name, **claiming_from(*templates, pod=name), **fields)
        self.add(arrived)
        return arrived

    def placed(self, name: str = "web-0", *templates: str, **fields: Any) -> AssumedPod:
        """Deliver a pod, and decide that it goes to a node."""
        self.pod(name, *templates, **fields)
        return self.place()

    def bind(self, assumed: AssumedPod) -> None:
        """Confirm a binding. The allocations in flight are stored before, as PreBind writes them."""
        self.write(assumed)
        self.decider.bound(assumed, self.clock.now())
        self.event_handlers.pods.upsert(assumed.pod, assigned_to(assumed.pod, assumed.node_name))
        self.answer()
        self.decide()

    def write(self, assumed: AssumedPod) -> None:
        """Show the allocations in flight for a pod as stored."""
        created = self.create_own_claim(assumed)
        for claim in [*self.claims_of(assumed.pod), *([] if created is None else [created])]:
            allocation = self.objects.resource_claims.in_flight.get(claim.key)
            if allocation is not None:
                put(self.objects, replace(claim, status=replace(claim.status, allocation=allocation)))

    def create_own_claim(self, assumed: AssumedPod) -> ResourceClaim | None:
        """Create the claim for a pod's extended resources as PreBind does, if it has any to create.

        Its devices are in flight by its real name from then on.
        """
        reserved = assumed.state.read(ReservedClaims)
        own = None if reserved is None else reserved.own
        if reserved is None or own is None or own.created:
            return None
        plain = claim_json(f"{assumed.pod.uid}-extended-resources", owner=assumed.pod.meta.name)
        plain["metadata"]["ownerReferences"][0]["uid"] = assumed.pod.uid
        plain["metadata"]["annotations"] = {FOR_EXTENDED_RESOURCES: "true"}
        created = replace(decode_resource_claim(encode(plain)), spec=own.claim.spec)
        allocation = reserved.allocations[own.claim.key]
        in_flight = self.objects.resource_claims.in_flight
        in_flight.make(created.key, allocation, assumed.pod.uid)
        in_flight.release(own.claim.key, assumed.pod.uid)
        reserved.allocations[created.key] = allocation
        own.claim, own.created = created, True
        put(self.objects, created)
        return created

    def end(self, gone: Pod) -> None:
        """Remove a pod, and its claims."""
        self.event_handlers.pods.remove(gone)
        for claim in self.claims_of(gone):
            self.objects.resource_claims.remove(claim)
            self.event_handlers.notify(ClusterEvent(Resource.RESOURCE_CLAIM, Action.DELETE), claim, None)

    def claims_of(self, owner: Pod) -> list[ResourceClaim]:
        """Return the claims of a pod that exist."""
        names = [each.resource_claim_name for each in owner.status.resource_claim_statuses]
        found = (self.objects.resource_claims.get(name or "", NAMESPACE) for name in names)
        return [each for each in found if each is not None]

    def devices_of(self, owner: Pod) -> set[str]:
        """Return the devices of a pod's claims, in flight or stored."""
        found = set()
        for claim in self.claims_of(owner):
            allocation = claim.allocation or self.objects.resource_claims.in_flight.get(claim.key)
            found |= {each.device for each in allocation.devices.results} if allocation else set()
        return found

    def entry(self, name: str = "lock") -> ReservationInfo:
        return self.ledger.entries[Key(NAMESPACE, name)]

    def status(self, name: str = "lock") -> Json:
        return render_reservation(self.entry(name), self.clock.now())


def held(entry: ReservationInfo) -> set[str]:
    """Return the names of the devices that a reservation holds."""
    return {each.device for each in entry.devices}
