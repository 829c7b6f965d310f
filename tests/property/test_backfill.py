"""A large reservation gets capacity while small reservations and pods come and go, if each one goes."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import node, pod
from sampling import sample
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod, assigned_to
from tidelock.scheduler.core.backfill import BACKFILL_SECONDS
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.machinery import Core

AFTER = 60
"""Small reservations give up before that, so none of them gets an earmark before the large one."""
STEP = 5
LONGEST = 120
"""The most seconds that a small one stays, fewer than the seconds after which another node is earmarked."""

ENOUGH = 6
"""While so many wait, no more arrive."""


@dataclass(frozen=True)
class Small:
    """A pod or a reservation that arrives, and the length of its stay, which a pod may announce."""

    reservation: bool
    cpu: int
    stays: int
    tells: bool


STREAM = st.lists(
    st.lists(
        st.builds(
            Small,
            reservation=st.booleans(),
            cpu=st.integers(1, 3),
            stays=st.integers(10, LONGEST),
            tells=st.booleans(),
        ),
        max_size=3,
    ),
    min_size=1,
    max_size=12,
)


class Cluster:
    """Nodes of 4 CPUs, with pods and reservations that come and go."""

    def __init__(self, nodes: int) -> None:
        self.core = Core(*(node(f"node-{number}", cpu="4") for number in range(nodes)), earmark_after=AFTER)
        self.made = 0
        self.stays: dict[str, int] = {}  # by waiting pod
        self.running: list[tuple[float, Pod]] = []

    def go_on(self, arrivals: list[Small]) -> None:
        """Add arrivals, decide, advance the clock, and remove the pods that have ended."""
        core = self.core
        if len(self.stays) + len(core.ledger.waiting_reservations.waiting) < ENOUGH:
            for small in arrivals:
                self._come(small)
        outcome = core.step()
        while outcome is not None or core.decider.next_due() == 0:
            if isinstance(outcome, AssumedPod):
                self._run(outcome)
            outcome = core.step()
        core.clock.advance(STEP)
        over = [each for each in self.running if each[0] <= core.clock.now()]
        for each in over:
            self.running.remove(each)
            core.event_handlers.pods.remove(each[1])

    def _come(self, small: Small) -> None:
        self.made += 1
        core, name, cpu = self.core, f"small-{self.made}", {"cpu": str(small.cpu)}
        now = core.clock.now()
        if small.reservation:
            spec = {"ttlSeconds": small.stays, "pendingDeadlineSeconds": AFTER - 1}
            core.reservation(name, owner=f"of-{name}", resources=cpu, created=now, **spec)
            return
        told = {"activeDeadlineSeconds": small.stays, "terminationGracePeriodSeconds": 0}
        plan = told if small.tells else {}
        core.add(pod(name, requests=cpu, created=now, **plan))
        self.stays[name] = small.stays

    def _run(self, assumed: AssumedPod) -> None:
        core, bound = self.core, assigned_to(assumed.pod, assumed.node_name)
        core.decider.bound(assumed, core.clock.now())
        core.event_handlers.pods.upsert(assumed.pod, bound)
        self.running.append((core.clock.now() + self.stays.pop(bound.meta.name), bound))


@given(nodes=st.integers(1, 3), stream=STREAM)
@settings(max_examples=sample(40, 100))
def test_a_large_reservation_gets_capacity_in_time_despite_a_stream_of_small_ones(
    nodes: int, stream: list[list[Small]]
) -> None:
    cluster = Cluster(nodes)
    core = cluster.core
    for arrivals in stream:
        cluster.go_on(arrivals)
    asked = core.clock.now()
    spec = {"resources": {"cpu": "4"}, "pendingDeadlineSeconds": 3600, "ttlSeconds": 3600}
    large = core.reservation("large", owner="of-large", created=asked, **spec)
    limit = AFTER + BACKFILL_SECONDS + LONGEST + 3 * STEP
    turn = 0
    while large.phase is not Phase.ACTIVE:
        cluster.go_on(stream[turn % len(stream)])
        turn += 1
        assert core.clock.now() <= asked + limit, f"kept on {large.earmark!r}: {large.message}"
