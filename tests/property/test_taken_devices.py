"""Held devices beside another allocator, which asks for admission or does not."""

from random import Random

import pytest

from builders import NAMESPACE, encode
from devices import allocated, claim_json
from property.device_world import MOVES, NODES
from property.test_reserved_devices import HISTORIES, MOVES_OF_A_HISTORY, World
from tidelock.binders.admission_check import UNSEEN_SECONDS, AdmissionCheck
from tidelock.framework.events import RESOURCE_CLAIM_DELETE
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.resource_claims import ResourceClaim, decode_resource_claim
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.taken_devices import UNKNOWN_SECONDS
from unit.scheduler.device_core import held

CLAIMS = ("x", "y")
DEVICES = [f"{node[-1]}-{number}" for node in NODES for number in range(3)]

_A_TEST = 8  # histories


class SharedWorld(World):
    """The same, with an allocator that knows the stored claims and no reservation."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.asked: dict[str, ResourceClaim] = {}  # those that are admitted and not stored yet
        self.admission_check = AdmissionCheck(self.core.decider)
        self.refused = self.taken = 0

    def start_again(self, now: float) -> None:
        self.asked.clear()  # the API server has refused what it could not ask about
        super().start_again(now)
        self.admission_check = AdmissionCheck(self.core.decider)

    def claim(self, name: str, device: str = "") -> ResourceClaim:
        """Return a claim of the other allocator, with a device or without one."""
        status = allocated(device, pool=device[0]) if device else {}
        plain = claim_json(name, owner="stranger", status=status, version=self.version())
        return decode_resource_claim(encode(plain))

    def in_stored_claims(self, device: str) -> bool:
        stored = (claim.allocation for claim in self.claims.values() if claim.allocation is not None)
        return any(each.device == device for allocation in stored for each in allocation.devices.results)

    def waiting(self) -> dict[str, ReservationInfo]:
        """Return the devices that reservations hold for owners that have not come, with the reservations."""
        entries = self.core.ledger.entries.values()
        claimed = [entry for claim in self.core.ledger.claims.in_flight.values() for entry in claim.entries]
        active = [entry for entry in entries if entry.phase is Phase.ACTIVE and entry not in claimed]
        devices = {device: entry for entry in active for device in held(entry)}
        having = self.having()
        return {device: entry for device, entry in devices.items() if len(having[device]) == 1}

    def decided(self, assumed: AssumedPod) -> None:
        """Check nothing about a decision.

        An owner may take its reservation while a claim of a pod that is not known has one of the devices. It
        gets another device then.
        """

    # Moves.

    def ask(self) -> None:
        """Ask for admission of a device that no stored claim has. It is often a held one."""
        device = self.rng.choice([*DEVICES, *sorted(self.waiting())])
        name = self.rng.choice(CLAIMS)
        known = self.claims.get(name)
        if self.in_stored_claims(device) or (known is not None and known.allocation is not None):
            return
        if known is None:
            self.show(self.claim(name))
        earlier = self.asked.pop(name, None)  # it does not count any more
        mine = earlier is not None and device_of(earlier) == device
        users = [] if mine else self.having().get(device, [])
        claim = self.claim(name, device)
        refusal = self.admission_check.claims.admit(claim, self.core.clock.now())
        assert bool(refusal) is bool(users), (refusal, users)
        if refusal:
            self.refused += 1
        else:
            self.asked[name] = claim

    def store(self) -> None:
        """Store an admitted allocation, which takes a device from no reservation."""
        if self.asked:
            before = self.violations()
            self.show(self.asked.pop(self.rng.choice(sorted(self.asked))))
            self.decide()
            assert self.violations() <= before

    def lose(self) -> None:
        """Let the API server give up all requests that were admitted."""
        self.core.clock.advance(UNSEEN_SECONDS)
        self.admission_check.lapse(self.core.clock.now())
        self.asked.clear()

    def free(self) -> None:
        """Delete a claim of the other allocator."""
        if there := [name for name in CLAIMS if name in self.claims and name not in self.asked]:
            gone = self.claims.pop(self.rng.choice(there))
            self.core.objects.resource_claims.remove(gone)
            self.core.event_handlers.notify(RESOURCE_CLAIM_DELETE, gone, None)

    def take(self) -> None:
        """Allocate a device that an active reservation holds, without asking, to a pod that stays unknown."""
        name, waiting = self.rng.choice(CLAIMS), self.waiting()
        if name in self.claims or not waiting:
            return
        device = self.rng.choice(sorted(waiting))
        entry = waiting[device]
        self.show(self.claim(name, device))
        self.decide()
        self.core.clock.advance(UNKNOWN_SECONDS)
        self.decide()
        assert device not in held(entry) or entry.phase is Phase.BOUND
        assert entry.phase is not Phase.PENDING or entry.violation.startswith(f"claim {NAMESPACE}/{name}")
        self.taken += 1

    def violations(self) -> set[tuple[str, str]]:
        return {
            (entry.uid, entry.violation) for entry in self.core.ledger.entries.values() if entry.violation
        }


def device_of(claim: ResourceClaim) -> str:
    """Return the name of the first device of a claim, or an empty text."""
    results = claim.allocation.devices.results if claim.allocation is not None else ()
    return results[0].device if results else ""


@pytest.mark.parametrize("seed", range(0, HISTORIES, _A_TEST))
def test_an_allocator_that_asks_takes_nothing_and_one_that_does_not_is_named(seed: int) -> None:
    refused = taken = 0
    for history in range(seed, seed + _A_TEST):
        world = SharedWorld(Random(history))  # noqa: S311 -- for histories
        for _ in range(MOVES_OF_A_HISTORY):
            moves = [*MOVES, *("ask",) * 3, *("take",) * 3, "store", "store", "lose", "free"]
            getattr(world, world.rng.choice(moves))()
            if world.rng.random() < 0.7:
                world.decide()
            world.check()
        refused, taken = refused + world.refused, taken + world.taken
    assert refused
    assert taken
