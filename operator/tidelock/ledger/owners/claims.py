"""Claims of owners: a pod takes over the capacity of its reservations, which end once it is bound."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tidelock.cluster.columns import Columns
from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.capacity.placement import Placement
from tidelock.ledger.lifecycle.choices import Choices
from tidelock.ledger.lifecycle.endings import Endings
from tidelock.ledger.lifecycle.transitions import SETTLED, Event
from tidelock.ledger.messages import binding_text, bound_text
from tidelock.ledger.owners.claim import Claim, Taken
from tidelock.ledger.owners.ownership import Ownership
from tidelock.ledger.owners.unconfirmed import UnconfirmedClaims
from tidelock.ledger.queue.waiting import WaitingReservations
from tidelock.ledger.records import Records
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import BoundPod, Phase
from tidelock.model.pods import Pod
from tidelock.model.quantities import NOTHING, Resources, at_most, beyond, plus


class Claims:
    """The claims of pods that are being bound here, and of those that a watch reports as bound.

    Attributes:
        in_flight: claims of pods that are being bound here, by the pods' uids.
        has_chosen: uids of pods that another scheduler has bound, and that have chosen their reservations.

    """

    def __init__(
        self,
        records: Records,
        columns: Columns,
        holdings: Holdings,
        ownership: Ownership,
        placement: Placement,
        endings: Endings,
        choices: Choices,
        waiting: WaitingReservations,
        unconfirmed: UnconfirmedClaims,
    ) -> None:
        self._records = records
        self._columns = columns
        self._holdings = holdings
        self._ownership = ownership
        self._placement = placement
        self._endings = endings
        self._choices = choices
        self._waiting = waiting
        self.in_flight = unconfirmed.in_flight
        self._unverified = unconfirmed.unverified
        self.has_chosen: set[str] = set()

    # Pods that are bound here.

    def claim(self, pod: Pod, node_name: str, now: float) -> Claim | None:
        """Pass the capacity of the reservations that a pod takes to the pod, which is assumed on a node."""
        own = self._ownership.taken(pod, node_name)
        if not own:
            return None
        text = binding_text(pod.key, node_name)
        failure = "the owner's binding failed"
        needed = beyond(pod.requests, self._holdings.sharing.amounts_of(pod.uid, node_name))
        claim = self.in_flight[pod.uid] = self._claim(pod, node_name, own, needed, text, failure, now)
        self._holdings.count_occupants(node_name)
        return claim

    def used_by(self, pod_uid: str, node_name: str) -> list[ReservationInfo]:
        """Return the reservations that a pod in binding has claimed, and the reusable ones that it uses."""
        claim = self.in_flight.get(pod_uid)
        reused = (
            each
            for each in self._holdings.sharing.occupied_on(node_name)
            if each.reservation.reusable and pod_uid in each.occupants
        )
        return [*(claim.entries if claim is not None else ()), *reused]

    def unclaim(self, pod_uid: str, now: float) -> None:
        """Restore the reservations that a pod has claimed, because its binding failed."""
        with self._landing(pod_uid) as claim:
            if claim is not None:
                self.resolve_claim(claim, "", now)

    def owner_bound(self, pod: Pod, node_name: str, now: float, *, gone: bool = False) -> None:
        """End the reservations that a pod has claimed, because the API server has confirmed its binding.

        Reservations for the pod that were created meanwhile are claimed too, unless the pod is gone.
        """
        with self._landing(pod.uid) as claim:
            if claim is not None and pod.node_name and self._chooses(pod):
                self._verify(replace(claim, pod=pod, unwritten=True))
                self.has_chosen.add(pod.uid)
            elif claim is not None:
                self.resolve_claim(claim, node_name, now)
        if not gone:
            self.claim_tentatively(pod, node_name, now)

    @contextmanager
    def _landing(self, pod_uid: str) -> Iterator[Claim | None]:
        """Take out a pod's claim that is in flight, and put it back if its end fails."""
        claim = self.in_flight.pop(pod_uid, None)
        try:
            yield claim
        except Exception:
            if claim is not None:
                self.in_flight[pod_uid] = claim
            raise

    # Pods that a watch reports.

    def claim_tentatively(self, pod: Pod, node_name: str, now: float) -> None:
        """Claim the reservations of a pod that a watch reports as bound, until the binding is verified.

        The watch of pods may lag behind the watch of Reservations: a reservation may be for the next pod of
        a name, although the former pod is already gone. A pod that another scheduler has bound chooses once
        among the reservations for any pod of its workload, when it is first seen. It may choose none.

        The pod counts on its node already. So its reservations only give up the amounts that the node lacks.
        """
        if _names_reservations(pod):
            self.has_chosen.discard(pod.uid)
        chooses = self._chooses(pod)
        named_only = not chooses and not _names_reservations(pod)
        own = [
            entry
            for entry in self._ownership.taken(pod, node_name, named_only=named_only)
            if not _is_taken_by(entry, pod)
        ]
        if own or chooses:
            text = f"pod {pod.key} seems to be bound to {node_name}"
            failure = "the owner is not bound after all"
            lacking = self._columns.shortfall(node_name)
            claim = self._claim(pod, node_name, own, lacking, text, failure, now)
            self._verify(replace(claim, unwritten=chooses))
            if chooses:
                self.has_chosen.add(pod.uid)

    def resolve_claim(self, claim: Claim, node_name: str, now: float) -> None:
        """End the claimed reservations on the node to which the pod is bound, and restore all others."""
        self._withdraw(claim)
        self._holdings.count_occupants(claim.node_name)
        if not node_name:
            self.forget_owner(claim.pod.uid)
        else:
            for entry in self._ownership.of(claim.pod, claim.entries):
                if entry in claim.entries and entry.phase not in SETTLED:
                    self._consume(entry, claim.pod, node_name, now)
        returned = [
            (each, each.entry.devices)
            for each in claim.taken
            if self._records.entries.get(each.entry.key) is each.entry and _is_taken_by(each.entry, claim.pod)
        ]
        for each, _ in returned:
            self._holdings.hold(each.entry, NOTHING)
        for each, devices in returned:
            each.entry.bound_pod = None
            if not self._endings.expire_if_over(each.entry, now):
                self._placement.take_back(each, devices, claim.failure, now)
        if node_name and claim.claimed:
            self.retry_reused_by(claim.pod)

    def retry_reused_by(self, owner: Pod) -> None:
        """Try waiting reusable reservations again, as a pod was bound that may use them on its node."""
        own = self._ownership.of(owner, ())
        self._waiting.retry(entry for entry in own if entry.reservation.reusable)

    def lose_owner(self, uid: str, now: float) -> None:
        """Restore the reservations of an owner that is gone before its binding was confirmed."""
        self.unclaim(uid, now)
        for claim in tuple(self._unverified.get(uid, ())):
            self.resolve_claim(claim, "", now)
        self.forget_owner(uid)

    def forget_owner(self, uid: str) -> None:
        """Forget the choice of a pod that is gone, or is not bound after all."""
        self.has_chosen.discard(uid)

    def _chooses(self, pod: Pod) -> bool:
        """Return whether a pod that another scheduler has bound still has to choose its reservations."""
        if not pod.node_name or _names_reservations(pod):
            return False
        if pod.uid in self.has_chosen or pod.uid in self.in_flight:
            return False
        return self._ownership.of_workload(pod)

    def _verify(self, claim: Claim) -> None:
        """Ask the driver to verify with the API server that the pod of a claim is bound."""
        self._unverified[claim.pod.uid].append(claim)
        try:
            self._holdings.count_occupants(claim.node_name)
        except Exception:
            self._withdraw(claim)
            raise
        self._records.effects.claims.append(claim)

    def _withdraw(self, claim: Claim) -> None:
        """Verify no more the claim of a pod and these reservations."""
        asked = [each for each in self._unverified.pop(claim.pod.uid, ()) if each.taken is not claim.taken]
        if asked:
            self._unverified[claim.pod.uid] = asked

    def _claim(
        self,
        pod: Pod,
        node_name: str,
        own: list[ReservationInfo],
        needed: Resources,
        text: str,
        failure: str,
        now: float,
    ) -> Claim:
        held = (entry for entry in own if entry.phase is not Phase.BOUND)
        taken = tuple(Taken(entry, entry.reserved, entry.reservation.pod) for entry in held)
        claimed = NOTHING
        try:
            for entry in (each.entry for each in taken):
                used = at_most(entry.held, beyond(needed, claimed)) if entry.node == node_name else NOTHING
                claimed = plus(claimed, used)
                self._holdings.pass_on(entry, used)
                entry.bound_pod = BoundPod(name=pod.meta.name, uid=pod.uid)
                self._records.step(entry, Event.CLAIM, reasons.CLAIMED, text, now)
        except Exception:
            # The claim failed as a whole, so all of its reservations are rebuilt.
            self._records.in_change.update({each.entry.key: each.entry for each in taken})
            raise
        return Claim(pod, node_name, tuple(own), taken, claimed, failure)

    def _consume(self, entry: ReservationInfo, pod: Pod, node_name: str, now: float) -> None:
        self._holdings.hold(entry, NOTHING)
        entry.bound_pod = BoundPod(name=pod.meta.name, uid=pod.uid)
        message = bound_text(pod.key, node_name)
        self._records.end(entry, Event.OWNER_BOUND, reasons.CONSUMED, message, now)
        self._choices.decide(entry, now)


def _is_taken_by(entry: ReservationInfo, pod: Pod) -> bool:
    """Return whether a pod has claimed a reservation, and its binding is not yet confirmed."""
    return entry.phase is Phase.BOUND and entry.bound_pod is not None and entry.bound_pod.uid == pod.uid


def _names_reservations(pod: Pod) -> bool:
    """Return whether the binding of a pod names the reservations that it took."""
    return pod.claimed_reservations is not None
