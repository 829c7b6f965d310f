"""The devices that a pod's own reservations hold, and those that a reservation would hold."""

from collections.abc import Iterator, Mapping, Sequence

from tidelock.devices.allocator import Solution
from tidelock.devices.requests import PreparedClaim
from tidelock.devices.results import results
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.own_reservations import OwnReservations
from tidelock.framework.reservations import Reservations
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.pods import Pod
from tidelock.plugins.dynamic_resources.node_allocations import NodeAllocations


def own_devices(
    state: CycleState, pod: Pod, reservations: Reservations
) -> dict[str, tuple[ReservedDevice, ...]]:
    """Return the devices that a pod can get from its own reservations, by node."""
    own = state.read(OwnReservations)
    if own is None:
        own = OwnReservations(tuple(reservations.own(pod)))
        state.write(own)
    found = {}
    for node_name, entries in own.on_node.items():
        holding = [entry for entry in entries if entry.devices]
        if sum(not entry.reservation.reusable for entry in holding) > 1:
            found[node_name] = devices_taken(entries, pod, node_name, reservations)
        elif holding:
            found[node_name] = tuple(_devices(holding))
    return found


def devices_taken(
    entries: Sequence[ReservationInfo], pod: Pod, node_name: str, reservations: Reservations
) -> tuple[ReservedDevice, ...]:
    """Return the devices on a node that a pod gets with the reservations that it takes there.

    Of several reservations for any pod of its workload it takes those that fit best.
    """
    taken = reservations.taken(pod, node_name)
    return tuple(_devices(each for each in entries if each.reservation.reusable or each in taken))


def devices_to_hold(found: NodeAllocations, node_name: str) -> tuple[ReservedDevice, ...]:
    """Return the devices that a reservation would hold on a node that fits."""
    solution = found.solution(node_name) if found.to_allocate else None
    if solution is None:
        return ()
    return tuple(reserved_devices(found.to_allocate, solution, found.names, node_name))


def reserved_devices(
    claims: Sequence[PreparedClaim], solution: Solution, names: Mapping[str, str], node_name: str
) -> Iterator[ReservedDevice]:
    """Yield the devices to hold for claims. Those with admin access are not held, as others can use them.

    Args:
        claims: the claims.
        solution: their devices on a node.
        names: the names of claims in the pod, by the names of the claims.
        node_name: the node.

    """
    allocations = results(claims, solution, node_name)
    for claim, chosen, allocation in zip(claims, solution.devices, allocations, strict=True):
        for choice, device in zip(chosen, allocation.devices.results, strict=True):
            if not device.admin_access:
                yield ReservedDevice(
                    claim=names[claim.claim.meta.name],
                    request=device.request,
                    device_class_name=choice.alternative.of_class.meta.name,
                    driver=device.driver,
                    pool=device.pool,
                    device=device.device,
                    share_id=device.share_id,
                    consumed_capacity={name: str(each) for name, each in device.consumed_capacity.items()}
                    or None,
                )


def _devices(entries: Iterator[ReservationInfo] | Sequence[ReservationInfo]) -> Iterator[ReservedDevice]:
    for entry in entries:
        yield from entry.devices
