"""The devices that a pod's own reservations hold, and those that a reservation would hold."""

from collections.abc import Iterator, Mapping, Sequence

from tidelock.devices.allocator import Solution
from tidelock.devices.requests import PreparedClaim
from tidelock.devices.results import results
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.own_reservations import OwnReservations
from tidelock.framework.reservations import Reservations
from tidelock.ledger.owners.matching import is_for_any
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.pods import Pod
from tidelock.model.resource_claims import PodResourceClaim
from tidelock.plugins.dynamic_resources.node_allocations import NodeAllocations, OwnDevices


def own_devices(state: CycleState, pod: Pod, reservations: Reservations) -> dict[str, OwnDevices]:
    """Return the devices that a pod can get from its own reservations, by node.

    Its use of reusable reservations decides whether it takes others for any pod of its workload beside them.
    That is known once it counts on the node, so here it takes none.
    """
    own = state.read(OwnReservations)
    if own is None:
        own = OwnReservations(tuple(reservations.own(pod)))
        state.write(own)
    found = {}
    for node_name, entries in own.on_node.items():
        holding = [entry for entry in entries if entry.devices]
        loose = [entry for entry in holding if not entry.reservation.reusable and is_for_any(entry, pod)]
        if loose and any(entry.reservation.reusable for entry in entries):
            holding = [entry for entry in holding if entry not in loose]
        elif loose and len(entries) > 1:
            taken = reservations.taken(pod, node_name)
            holding = [entry for entry in holding if entry not in loose or entry in taken]
        if holding or loose:
            found[node_name] = _devices(holding)
    return found


def devices_taken(
    entries: Sequence[ReservationInfo], pod: Pod, node_name: str, reservations: Reservations
) -> OwnDevices:
    """Return the devices that own reservations on a node hold for a pod that counts there."""
    taken = reservations.taken(pod, node_name)
    return _devices([entry for entry in entries if entry.reservation.reusable or entry in taken])


def devices_to_hold(found: NodeAllocations, node_name: str) -> tuple[ReservedDevice, ...]:
    """Return the devices that a reservation would hold on a node that fits."""
    group = found.group(node_name)
    solution = found.solution(node_name) if group.to_allocate else None
    if solution is None:
        return ()
    resources = {each.request_name: each.resource_name for each in group.mappings}
    return tuple(reserved_devices(group.to_allocate, solution, node_name, found.in_spec, resources))


def reserved_devices(
    claims: Sequence[PreparedClaim],
    solution: Solution,
    node_name: str,
    in_spec: Mapping[str, PodResourceClaim],
    resources: Mapping[str, str],
) -> Iterator[ReservedDevice]:
    """Yield the devices to hold for claims. Those with admin access are not held, as others can use them.

    Args:
        claims: the claims, of which that for extended resources is not in the pod's spec.
        solution: their devices on a node.
        node_name: the node.
        in_spec: the claims in the pod's spec, by the names of the claims.
        resources: the extended resources, by the names of the requests for them.

    """
    allocations = results(claims, solution, node_name)
    for claim, chosen, allocation in zip(claims, solution.devices, allocations, strict=True):
        wanted = in_spec.get(claim.claim.meta.name)
        for choice, device in zip(chosen, allocation.devices.results, strict=True):
            if not device.admin_access:
                yield ReservedDevice(
                    claim=None if wanted is None else wanted.name,
                    resource_claim_template_name=None
                    if wanted is None
                    else wanted.resource_claim_template_name,
                    resource_name=resources[device.request] if wanted is None else None,
                    request=device.request,
                    device_class_name=choice.alternative.of_class.meta.name,
                    driver=device.driver,
                    pool=device.pool,
                    device=device.device,
                    share_id=device.share_id,
                    consumed_capacity={name: str(each) for name, each in device.consumed_capacity.items()}
                    or None,
                )


def _devices(entries: Sequence[ReservationInfo]) -> OwnDevices:
    taken = (each for entry in entries if not entry.reservation.reusable for each in entry.devices)
    return OwnDevices(
        tuple(taken), tuple(each for entry in entries if entry.reservation.reusable for each in entry.devices)
    )
