"""What a client knows about one reservation: its newest version, by the watch and by responses."""

from tidelock.client.errors import ClientError, Taken, TimedOut, deleted, refusal
from tidelock.client.informer import Version
from tidelock.model import reasons
from tidelock.model.answer import answered_status
from tidelock.model.api.reservation import ENDED_PHASES, Phase, ReservationStatus
from tidelock.model.api.wire import Condition, legible


class ReservationState:
    """The newest state of a reservation.

    Attributes:
        uid: uid of the object, or empty before it is created.
        status: the newest status.
        token: the token in the spec that commits it, or empty.
        gone: whether the object is deleted.

    """

    def __init__(self, cluster: str, *, retained: bool) -> None:
        self.uid = ""
        self.status = ReservationStatus()
        self.token = ""
        self.gone = False
        self._cluster = cluster
        self._retained = retained
        self._version = 0
        self._generation = 0

    @property
    def decided(self) -> bool:
        """Whether the status describes the newest spec."""
        return self.status.observed_generation == self._generation

    @property
    def answered(self) -> bool:
        """Whether the operator has tried it: it is granted or over, or waits for a known reason."""
        active = self.condition("Active")
        return self.over or (self.decided and active is not None and active.reason != reasons.WAITING)

    @property
    def holds(self) -> bool:
        """Whether the capacity is reserved now, or from a later time on."""
        active = self.condition("Active")
        return not self.gone and (
            (active is not None and active.status == "True") or self.status.phase is Phase.PLANNED
        )

    @property
    def over(self) -> bool:
        """Whether the reservation is final."""
        return self.gone or self.status.phase in ENDED_PHASES

    @property
    def taken(self) -> bool:
        """Whether its owner has taken it.

        A reservation that is not retained is deleted at once when its owner is bound, without a last status.
        """
        unseen = self.gone and not self._retained and self.status.phase is Phase.ACTIVE
        return unseen or self.consumed

    @property
    def consumed(self) -> bool:
        """Whether the status says that its owner has taken it."""
        return self.status.phase is Phase.CONSUMED

    @property
    def committed(self) -> bool:
        """Whether the commit of the present hold counts."""
        condition = self.condition("Committed")
        return self.holds and condition is not None and condition.status == "True"

    @property
    def commit_answered(self) -> bool:
        """Whether the operator has answered to the token in the spec."""
        condition = self.condition("Committed")
        return self.decided and condition is not None and condition.reason != reasons.AWAITING_COMMIT

    def condition(self, name: str) -> Condition | None:
        """Return a condition of the newest status."""
        return next((each for each in self.status.conditions if each.type == name), None)

    def error(self) -> ClientError:
        """Return the error for a reservation that holds nothing."""
        if self.gone and self.status.phase not in ENDED_PHASES:
            return deleted(self._cluster)
        active = self.condition("Active")
        if self.consumed:
            pod = self.status.bound_pod.name if self.status.bound_pod is not None else ""
            message = active.message if active is not None else ""
            node = self.status.node_name or ""
            return Taken(message, cluster=self._cluster, reason=reasons.CONSUMED, pod=pod, node=node)
        if active is None:
            return TimedOut("the operator has not answered", cluster=self._cluster)
        return refusal(self._cluster, active.reason, active.message, self.status)

    def take(self, version: Version) -> None:
        """Take over a version of this reservation, unless a newer one is known."""
        self.uid = self.uid or version.meta.uid
        if version.meta.uid != self.uid or version.meta.version < self._version:
            return
        self._version, self._generation = version.meta.version, version.meta.generation
        self.token = version.token
        self.gone = self.gone or version.gone
        answer = {} if "phase" in version.status else answered_status(version.meta.annotations)
        if "phase" in version.status or (answer and self.status.phase is None):
            status = legible(ReservationStatus, answer or version.status)
            self.status = ReservationStatus.model_validate(status)
