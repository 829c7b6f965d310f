"""Held devices beside another allocator, which asks for admission or does not."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from builders import NAMESPACE, encode
from devices import allocated, claim_json, put
from property.test_reserved_devices import EXAMPLES, NODES, ReservedDevicesMachine
from tidelock.binders.admission_check import UNSEEN_SECONDS, AdmissionCheck
from tidelock.framework.events import RESOURCE_CLAIM_DELETE
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.resource_claims import ResourceClaim, decode_resource_claim
from unit.scheduler.device_core import DeviceCore, held

CLAIMS = st.sampled_from(["x", "y"])
DEVICES = [f"{node[-1]}-{number}" for node in NODES for number in range(3)]


class OtherAllocatorMachine(ReservedDevicesMachine):
    """The same, with an allocator that knows the stored claims and no reservation."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, ResourceClaim] = {}  # those that are admitted and not stored yet
        self._guard: tuple[DeviceCore, AdmissionCheck] | None = None

    @property
    def guard(self) -> AdmissionCheck:
        """The admission check of the process that runs now."""
        if self._guard is None or self._guard[0] is not self.core:
            self._guard = self.core, AdmissionCheck(self.core.decider)
        return self._guard[1]

    def start_again(self, now: float) -> None:
        self.asked.clear()  # the API server has refused what it could not ask about
        super().start_again(now)

    def claim(self, name: str, device: str = "") -> ResourceClaim:
        """Return a claim of the other allocator, with a device or without one."""
        status = allocated(device, pool=device[0]) if device else {}
        plain = claim_json(name, owner="stranger", status=status, version=self.version())
        return decode_resource_claim(encode(plain))

    def show(self, claim: ResourceClaim) -> None:
        self.claims[claim.meta.name] = claim
        put(self.core.objects, claim)

    def in_stored_claims(self, device: str) -> bool:
        stored = (claim.allocation for claim in self.claims.values() if claim.allocation is not None)
        return any(each.device == device for allocation in stored for each in allocation.devices.results)

    @rule(name=CLAIMS, data=st.data())
    def ask(self, name: str, data: st.DataObject) -> None:
        """Ask for admission of a device that no stored claim has. It is often a held one."""
        device = data.draw(st.sampled_from([*DEVICES, *sorted(self.held())]))
        known = self.claims.get(name)
        if self.in_stored_claims(device) or (known is not None and known.allocation is not None):
            return
        if known is None:
            self.show(self.claim(name))
        earlier = self.asked.pop(name, None)  # it does not count any more
        mine = earlier is not None and device_of(earlier) == device
        users = [] if mine else self.having().get(device, [])
        claim = self.claim(name, device)
        refusal = self.guard.claims.admit(claim, self.core.clock.now())
        assert bool(refusal) is bool(users), (refusal, users)
        if not refusal:
            self.asked[name] = claim

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def store(self, data: st.DataObject) -> None:
        """Store an admitted allocation, which takes a device from no reservation."""
        before = self.violations()
        self.show(self.asked.pop(data.draw(st.sampled_from(sorted(self.asked)))))
        self.decide()
        assert self.violations() <= before

    @precondition(lambda self: self.asked)
    @rule()
    def lose(self) -> None:
        """Let the API server give up all requests that were admitted."""
        self.core.clock.advance(UNSEEN_SECONDS)
        self.guard.lapse(self.core.clock.now())
        self.asked.clear()

    @precondition(lambda self: any(name in self.claims for name in "xy"))
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        """Delete a claim of the other allocator."""
        name = data.draw(st.sampled_from([name for name in "xy" if name in self.claims]))
        gone = self.claims.pop(name)
        self.asked.pop(name, None)
        self.core.objects.resource_claims.remove(gone)
        self.core.event_handlers.notify(RESOURCE_CLAIM_DELETE, gone, None)

    @precondition(lambda self: self.held())
    @rule(name=CLAIMS, data=st.data())
    def take(self, name: str, data: st.DataObject) -> None:
        """Allocate a device that an active reservation holds, without asking."""
        device = data.draw(st.sampled_from(sorted(self.held())))
        if name in self.claims:
            return
        entry = self.held()[device]
        self.show(self.claim(name, device))
        self.decide()
        assert device not in held(entry)
        assert entry.phase is not Phase.PENDING or entry.violation.startswith(f"claim {NAMESPACE}/{name}")

    def held(self) -> dict[str, ReservationInfo]:
        """Return the devices that reservations hold for owners that have not come, with the reservations."""
        entries = self.core.ledger.entries.values()
        active = [entry for entry in entries if entry.phase is Phase.ACTIVE]
        devices = {device: entry for entry in active for device in held(entry)}
        return {device: entry for device, entry in devices.items() if not self.in_stored_claims(device)}

    def violations(self) -> set[tuple[str, str]]:
        return {
            (entry.uid, entry.violation) for entry in self.core.ledger.entries.values() if entry.violation
        }


def device_of(claim: ResourceClaim) -> str:
    """Return the name of the device of a claim that has one."""
    assert claim.allocation is not None
    (device,) = claim.allocation.devices.results
    return device.device


OtherAllocatorMachine.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=25, deadline=None
)
TestOtherAllocator = OtherAllocatorMachine.TestCase
