"""The claims of pods with a binding that may still fail."""

from collections import defaultdict
from functools import reduce

from tidelock.ledger.owners.claim import Claim
from tidelock.model.quantities import NOTHING, Resources, plus


class UnconfirmedClaims:
    """Claims by the uids of their pods.

    Attributes:
        in_flight: claims of pods that are being bound here.
        unverified: claims of pods that a watch shows as bound, until the API server has confirmed it.

    """

    def __init__(self) -> None:
        self.in_flight: dict[str, Claim] = {}
        self.unverified: defaultdict[str, list[Claim]] = defaultdict(list)

    def amounts(self, uid: str) -> Resources:
        """Return the amounts of an owner that come from reservations with a claim that may still fail."""
        in_flight = self.in_flight.get(uid)
        claims = [*self.unverified.get(uid, ()), *([in_flight] if in_flight is not None else ())]
        return reduce(plus, (claim.claimed for claim in claims), NOTHING)
