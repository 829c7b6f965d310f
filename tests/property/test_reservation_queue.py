"""The reservation queue grants capacity as progressive filling does, for any requests and weights."""

from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from builders import NOW, encode, node, reservation
from tidelock.cluster.columns import Columns
from tidelock.cluster.lister import Lister
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.quantities import PODS, Resources
from tidelock.model.quotas import ReservationQuota, decode_reservation_quota
from tidelock.scheduler.core.reservation_queue import ReservationQueue


class Tenant(NamedTuple):
    """A namespace, with the number and the size of its reservations."""

    name: str
    weight: int
    cpu: int
    gibibytes: int
    reservations: int


TENANTS = st.lists(
    st.builds(
        Tenant,
        st.just(""),
        weight=st.integers(1, 4),
        cpu=st.integers(0, 6),
        gibibytes=st.integers(0, 6),
        reservations=st.integers(1, 30),
    ),
    min_size=1,
    max_size=5,
).map(lambda tenants: [tenant._replace(name=f"team-{n}") for n, tenant in enumerate(tenants)])
PATIENCE = 4
_THREE_TEAMS = [
    Tenant("team-0", 1, 0, 0, 2),
    Tenant("team-1", 1, 0, 2, 4),
    Tenant("team-2", 3, 0, 0, 3),
]
CLUSTER = st.tuples(st.integers(1, 40), st.integers(1, 40))


class Cluster:
    """One node with all capacity, and the reservations that compete for it."""

    def __init__(self, cpu: int, gibibytes: int, tenants: list[Tenant]) -> None:
        self.columns = Columns()
        self.node = node("node-a", cpu=str(cpu), memory=f"{gibibytes}Gi", pods="110")
        self.columns.put(self.node)
        limits: Lister[ReservationQuota] = Lister()
        for tenant in tenants:
            metadata = {"name": "team", "namespace": tenant.name}
            plain = {"metadata": metadata, "spec": {"weight": tenant.weight}}
            limits.upsert(None, decode_reservation_quota(encode(plain)))
        self.ledger = Ledger(self.columns, quotas=Quotas(limits, Lister()))

    def ask(self, tenant: Tenant) -> list[ReservationInfo]:
        """Create the reservations of a namespace, the oldest first."""
        amounts = {"cpu": str(tenant.cpu), "memory": f"{tenant.gibibytes}Gi"}
        made = [
            reservation(
                f"lock-{n:02}",
                namespace=tenant.name,
                uid=f"{tenant.name}-{n}",
                created=NOW + n,
                resources=amounts,
                pendingDeadlineSeconds=600,
            )
            for n in range(tenant.reservations)
        ]
        for each in made:
            self.ledger.upsert(each, NOW)
        return [self.ledger.entries[each.key] for each in made]

    def fill(self, line: ReservationQueue) -> list[str]:
        """Grant capacity in the order of the queue, and return the namespaces in that order."""
        given = []
        while line:
            entry = line.pop()
            if self.columns.fits("node-a", entry.reservation.requests):
                self.ledger.placement.admit(entry, self.node, NOW)
                given.append(entry.key.namespace)
        return given


@given(cluster=CLUSTER, tenants=TENANTS)
@example(
    cluster=(1, 1),
    tenants=_THREE_TEAMS,
)
def test_the_queue_grants_capacity_by_progressive_filling(
    cluster: tuple[int, int], tenants: list[Tenant]
) -> None:
    """Check that capacity goes to the smallest weighted dominant share.

    After four refusals in a row, a namespace lets every other one try a reservation. The model once lacked
    this rule, and Hypothesis found the example of three teams.
    """
    world = Cluster(*cluster, tenants)
    line = ReservationQueue(world.ledger.shares.of)
    for tenant in tenants:
        line.add(world.ask(tenant))
    assert world.fill(line) == progressive_filling(world.node.allocatable, tenants)


def progressive_filling(allocatable: Resources, tenants: list[Tenant]) -> list[str]:
    """Fill one reservation at a time, as in the paper on dominant resource fairness.

    Of equal shares, the older reservation comes first. A tenant's turn ends after four refusals in a row, or
    after one reservation if another tenant's turn has ended.
    """
    given: list[str] = []
    held, tried, refused, turns = (dict.fromkeys(tenants, 0) for _ in range(4))
    left = dict(allocatable)

    def share(tenant: Tenant) -> float:
        parts = [held[tenant] * units / allocatable[name] for name, units in asks(tenant).items()]
        return max(parts) / tenant.weight

    while waiting := [tenant for tenant in tenants if tried[tenant] < tenant.reservations]:
        latest = max(turns.values())
        first = min(waiting, key=lambda each: (turns[each], share(each), tried[each], each.name))
        asked = asks(first)
        tried[first] += 1
        if any(units > left[name] for name, units in asked.items()):
            refused[first] += 1
        else:
            refused[first] = 0
            for name, units in asked.items():
                left[name] -= units
            held[first] += 1
            given.append(first.name)
        if turns[first] < latest or refused[first] == PATIENCE:
            refused[first] = 0
            turns[first] += 1
    return given


def asks(tenant: Tenant) -> Resources:
    return {"cpu": tenant.cpu * 1000, "memory": tenant.gibibytes * 2**30, PODS: 1}


def test_a_namespace_with_twice_the_weight_gets_twice_as_much() -> None:
    tenants = [Tenant("heavy", 2, 1, 1, 30), Tenant("light", 1, 1, 1, 30)]
    world = Cluster(12, 40, tenants)
    line = ReservationQueue(world.ledger.shares.of)
    for tenant in tenants:
        line.add(world.ask(tenant))
    given = world.fill(line)
    assert (given.count("heavy"), given.count("light")) == (8, 4)
