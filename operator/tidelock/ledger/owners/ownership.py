"""The reservations that a pod owns, those that it takes when it is bound, and the capacity that they hold.

Queries change nothing. `Claims` carries out the effects of a pod on its reservations.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any

from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.lifecycle.transitions import SETTLED
from tidelock.ledger.owners.best_fit import best_fit, misfit
from tidelock.ledger.owners.matching import (
    OwnerIndex,
    fits_best,
    is_for_any,
    is_owner,
    may_claim,
    owner_names,
)
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import GroupKey, Groups
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import NOTHING, Resources, at_most, beyond, covers, minus
from tidelock.model.reservation import Reservation
from tidelock.model.reserve_pod import ReservePod

# Claims to devices, as a resource that pods request and that reservations offer. A node has none of it, so
# a claim in excess weighs as much as a whole node.
_CLAIMS = "resourceClaims"
# At most this many reservations are remembered after their end, for pods that wait for them.
_MOST_FORMER = 1024

OwnerWithDevices = Callable[[ReservationInfo, str], str]


class Ownership:
    """Reservations by their owners.

    Args:
        entries: all reservations of the ledger.
        groups: the groups. A pod takes one member of a group.
        holdings: the held amounts.
        capacity: returns the allocatable amounts of a node.
        owner_with_devices: returns the uid of a waiting owner with devices of a reservation in its claims, or
            an empty text. Of several owners it is the one with the given uid.

    """

    def __init__(
        self,
        entries: Mapping[Key, ReservationInfo],
        groups: Groups,
        holdings: Holdings,
        capacity: Callable[[str], Resources],
        owner_with_devices: OwnerWithDevices,
    ) -> None:
        self._entries = entries
        self._groups = groups
        self._holdings = holdings
        self._capacity = capacity
        self._index = OwnerIndex()
        self._former = OwnerIndex()
        self._ends: OrderedDict[Key, str] = OrderedDict()
        self._indexed: dict[Key, Reservation] = {}  # the versions with owners in the index
        self._for_workloads: set[str] = set()
        self._key_of: dict[str, Key] = {}
        self._owner_with_devices = owner_with_devices

    def update(self, entry: ReservationInfo) -> None:
        """Index a reservation by the owners in its spec, or remove it if it has ended.

        One that no watch has shown has no owners yet: its pod is sent when its creation has succeeded.
        """
        if entry.unseen:
            return
        if entry.phase in SETTLED:
            self.remove(entry)
            return
        if self._indexed.get(entry.key) is entry.reservation:
            return
        self._indexed[entry.key] = entry.reservation
        self._forget(entry.key)
        if entry.reservation.spec is None:
            self._index.discard(entry.key)
            self._key_of.pop(entry.uid, None)
        else:
            self._key_of[entry.uid] = entry.key
            self._index.put(entry.key, entry.reservation.spec)
            if owner_names(entry.key, entry.reservation.spec) is None:
                self._for_workloads.add(entry.key.namespace)

    def contents(self) -> Mapping[Any, object]:
        """Return the names of reservations that have owners, by UID."""
        return dict(self._key_of)

    def remove(self, entry: ReservationInfo) -> None:
        """Remove a reservation from the index. Its end is remembered unless a pod took it."""
        self._indexed.pop(entry.key, None)
        self._index.discard(entry.key)
        self._key_of.pop(entry.uid, None)
        spec = entry.reservation.spec
        if spec is None or entry.unseen or entry.phase in (Phase.BOUND, Phase.CONSUMED):
            return
        self._forget(entry.key)
        self._former.put(entry.key, spec)
        self._ends[entry.key] = _end_text(entry)
        if len(self._ends) > _MOST_FORMER:
            self._forget(next(iter(self._ends)))

    def naming(self, pod: Pod) -> list[ReservationInfo]:
        """Return the reservations that name a pod as an owner and have not ended, by name."""
        return [self._entries[key] for key in self._index.of(pod)]

    def former(self, pod: Pod) -> str:
        """Return how the last reservation ended that named a pod as an owner, or an empty text."""
        keys = self._former.of(pod)
        return next((text for key, text in reversed(self._ends.items()) if key in keys), "") if keys else ""

    def of(self, pod: Pod, among: Iterable[ReservationInfo] | None = None) -> list[ReservationInfo]:
        """Return a pod's own reservations that have not ended, by name. Of a group it is one for each node.

        Thousands may be for any pod of the workload, so `among` restricts those to some reservations.
        """
        if isinstance(pod, ReservePod):
            return []  # it owns nothing
        claimed = pod.claimed_reservations
        if claimed is not None:
            took = (self._key_of.get(uid) for uid in claimed)
            among = [self._entries[key] for key in took if key is not None]
        keys = self._index.of(pod, special_only=among is not None)
        if among is not None and self.used_by_workloads(pod.meta.namespace):
            keys = sorted({*keys, *(entry.key for entry in among if self._owns(pod, entry))})
        if not keys:  # as for most pods
            return []
        entries = (self._entries[key] for key in keys)
        able = [entry for entry in entries if may_claim(entry, pod)]
        if self._holdings.reserved_devices and not pod.node_name:
            able = self._with_devices_for(pod, able)
        return self._groups.open_to(pod, able)

    def of_workload(self, pod: Pod) -> bool:
        """Return whether an own reservation of a pod is for any pod of its workload."""
        keys = chain.from_iterable(self._index.for_any(pod))
        return any(may_claim(self._entries[key], pod) for key in keys)

    def _owns(self, pod: Pod, entry: ReservationInfo) -> bool:
        """Return whether a pod is an owner of a reservation that has been seen and has not ended."""
        is_known = self._entries.get(entry.key) is entry and entry.phase not in SETTLED and not entry.unseen
        return is_known and is_owner(pod, entry.key, entry.reservation.spec)

    def _with_devices_for(self, pod: Pod, own: list[ReservationInfo]) -> list[ReservationInfo]:
        """Return the own reservations without those of another owner that waits with their devices.

        Such an owner could not be bound. Of a group, it can only use the member with its devices.
        """
        users = {entry.key: self._user(entry, pod) for entry in own}
        groups = {GroupKey.of(entry) for entry in own if users[entry.key] == pod.uid} - {None}
        return [
            entry
            for entry in own
            if users[entry.key] == pod.uid or (not users[entry.key] and GroupKey.of(entry) not in groups)
        ]

    def _user(self, entry: ReservationInfo, pod: Pod) -> str:
        """Return the owner that waits with devices of a reservation, or an empty text.

        A reusable reservation is for all of its owners on the node together.
        """
        if not entry.devices or entry.phase is not Phase.ACTIVE or entry.reservation.reusable:
            return ""
        return self.owner_with_devices(entry, pod.uid)

    def owner_with_devices(self, entry: ReservationInfo, uid: str = "") -> str:
        """Return the uid of a waiting owner with devices of a reservation in its claims, or an empty text.

        Of several owners it is the one with the given uid. The reservation is kept for them.
        """
        found = self._owner_with_devices(entry, uid)
        if found:
            self._holdings.kept.add(entry)
        return found

    def used_by_workloads(self, namespace: str) -> bool:
        """Return whether a namespace has, or had, a reservation for any pod of a workload."""
        return namespace in self._for_workloads

    def taken(self, pod: Pod, node_name: str, *, named_only: bool = False) -> list[ReservationInfo]:
        """Return the own reservations that end when a pod is bound to a node, by name.

        These are all that name the pod, on any node, and a member of each group. Of the reservations on the
        node for any pod of its workload, those with devices of the pod's claims are added, and those that fit
        the remaining needs best, or those that the binding names. `named_only` leaves the latter out.
        """
        own = self.of(pod, self._holdings.held_on(node_name))
        if not own:
            return own
        loose: list[ReservationInfo] = []
        certain: list[ReservationInfo] = []
        for entry in own:
            if not entry.reservation.reusable:
                loose_one = is_for_any(entry, pod) and not (
                    entry.devices and self._user(entry, pod) == pod.uid
                )
                (loose if loose_one else certain).append(entry)
        chosen = self._groups.taken(certain, node_name)
        if named_only or not loose:
            return chosen
        if pod.claimed_reservations is not None:
            return sorted([*chosen, *loose], key=lambda entry: entry.key)
        reused = [entry for entry in own if entry.reservation.reusable and entry.node == node_name]
        uses = (entry.occupants[pod.uid].uses for entry in reused if pod.uid in entry.occupants)
        here = [entry for entry in chosen if entry.reserved and entry.node == node_name]
        released = self._holdings.sharing.released(here, node_name)
        claims = {_CLAIMS: sum(map(_claims, (*here, *reused)))}
        needed = reduce(beyond, (*uses, released, claims), _requests(pod))
        offered = [entry for entry in loose if entry.reserved and entry.node == node_name]
        chosen += self._best(needed, offered, here, node_name)
        return sorted(chosen, key=lambda entry: entry.key)

    def misfit(self, pod: Pod, entries: Sequence[ReservationInfo], node_name: str) -> float | None:
        """Return by how much own reservations on a node miss the pod's needs, as shares of the node.

        Returns:
            None if one of them is for this pod alone: it names the pod, or the pod is its reserve pod.

        """
        if not all(fits_best(entry, pod) and entry.uid != pod.uid for entry in entries):
            return None
        offers = [_offer(entry, entry.reserved) for entry in entries]
        return misfit(_requests(pod), offers, self._capacity(node_name))

    def _best(
        self, needed: Resources, offered: list[ReservationInfo], here: list[ReservationInfo], node_name: str
    ) -> list[ReservationInfo]:
        """Return the reservations that fit best, or all if fewer would not release the lent amounts.

        Held amounts come first. If they do not suffice, lent reservations cover the rest of the needs.
        """
        capacity = self._capacity(node_name)
        offers = [_offer(entry, entry.held) for entry in offered]
        best = [offered[index] for index in best_fit(needed, offers, capacity)]
        if not any(entry.reservation.borrowable for entry in offered):
            return best
        there = self._holdings.sharing.released([*here, *offered], node_name)
        before = self._holdings.sharing.released(here, node_name)
        enough = at_most(needed, minus(there, before))
        released = minus(self._holdings.sharing.released([*here, *best], node_name), before)
        if not covers(released, enough):
            return offered
        left = reduce(beyond, (entry.reserved for entry in best), needed)
        lent = [entry for entry in offered if entry not in best]
        return best + [lent[index] for index in best_fit(left, [entry.reserved for entry in lent], capacity)]

    def on_node(self, nominated: Iterable[Pod], node_name: str) -> list[ReservationInfo]:
        """Return the own reservations on a node of pods that are nominated there."""
        own = (entry for pod in nominated for entry in self.of(pod))
        return list(dict.fromkeys(entry for entry in own if entry.reserved and entry.node == node_name))

    def kept_for(
        self, pods: Iterable[Pod], node_name: str, excluded: Collection[ReservationInfo]
    ) -> Resources:
        """Return the amounts held for pods that are nominated on a node, without some reservations."""
        if not self._holdings.any_on(node_name):
            return NOTHING
        theirs = [entry for entry in self.on_node(pods, node_name) if entry not in excluded]
        others = [entry for entry in excluded if entry.reserved and entry.node == node_name]
        released = self._holdings.sharing.released([*others, *theirs], node_name)
        return minus(released, self._holdings.sharing.released(others, node_name))

    def _forget(self, key: Key) -> None:
        """Forget how a reservation ended."""
        self._former.discard(key)
        self._ends.pop(key, None)


def _requests(pod: Pod) -> Resources:
    """Return the requests of a pod, with its claims to devices as a resource."""
    claims = len(pod.spec.resource_claims)
    return {**pod.requests, _CLAIMS: claims} if claims else pod.requests


def _offer(entry: ReservationInfo, amounts: Resources) -> Resources:
    """Return amounts of a reservation, with the claims for which it holds devices."""
    return {**amounts, _CLAIMS: _claims(entry)} if entry.devices else amounts


def _claims(entry: ReservationInfo) -> int:
    return len({each.claim for each in entry.devices if each.claim is not None})


def _end_text(entry: ReservationInfo) -> str:
    if entry.phase not in SETTLED or entry.finished_at is None:
        return f"{entry.key} was deleted"
    return f"{entry.key} is {entry.phase} since {format_instant(entry.finished_at)}: {entry.message}"
