"""Events that fail in the middle: memory follows the API once they are delivered again."""

from typing import Any

import pytest

from builders import NAMESPACE, encode, node, pod, reservation_json
from devices import allocated, resource_claim
from isolating import Isolating
from tidelock.cluster.cache import CacheObserver
from tidelock.cluster.lister import Lister
from tidelock.cluster.placed import Placed
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.reservation import decode_reservation
from unit.scheduler.device_core import DeviceCore
from unit.scheduler.failing import planted
from unit.scheduler.machinery import HELD, Core


def restarted(isolation: Isolating, *nodes: Node) -> Core:
    """Start a process that finds a reservation on each node, and all resources but the pods listed."""
    core = Core(*nodes, listed=False, on_failure=isolation.failed)
    for each in nodes:
        status: Any = HELD | {"nodeName": each.name, "nodeUID": each.meta.uid}
        name = f"on-{each.name}"
        new = decode_reservation(encode(reservation_json(name, owner=f"web-{each.name}", status=status)))
        core.event_handlers.reservations.upsert(None, new)
    core.event_handlers.nodes.synced()
    core.event_handlers.reservations.synced()
    return core


def test_a_node_that_can_not_be_settled_at_the_start_affects_no_other_and_is_settled_later() -> None:
    """The process ended, and so did each later one: the start settled all nodes without an isolation."""
    isolation = Isolating()
    core = restarted(isolation, node("bad", cpu="1"), node("good", cpu="1"))
    core.add(*(pod(f"on-{name}", node_name=name, requests={"cpu": "1"}) for name in ("bad", "good")))
    settle = core.ledger.placement.settle_node

    def fails(name: str, *arguments: Any) -> None:
        if name == "bad" and not isolation.faults:
            raise LookupError("planted")
        settle(name, *arguments)

    core.ledger.placement.settle_node = fails  # type: ignore[assignment]
    core.event_handlers.pods.synced()
    assert core.event_handlers.ready
    assert isolation.faults == ["settle bad: planted"]
    phases = {key.name: entry.phase for key, entry in core.ledger.entries.items()}
    assert phases == {"on-bad": Phase.ACTIVE, "on-good": Phase.PENDING}

    due = core.event_handlers.next_due
    assert due is not None
    core.event_handlers.catch_up()
    assert core.reserved("bad") == 1000
    core.clock.time = due
    core.event_handlers.catch_up()
    assert (core.reserved("bad"), core.event_handlers.next_due) == (0, None)


def test_a_start_that_fails_as_a_whole_is_tried_again() -> None:
    isolation = Isolating()
    core = restarted(isolation, node("node-a"))
    resume, failures = core.ledger.resume, [LookupError("planted")]

    def fails(now: float) -> None:
        if failures:
            raise failures.pop()
        resume(now)

    core.ledger.resume = fails  # type: ignore[method-assign]
    with pytest.raises(LookupError):
        core.event_handlers.pods.synced()
    assert not core.event_handlers.ready
    core.event_handlers.pods.synced()
    assert core.event_handlers.ready


@pytest.mark.parametrize("step", ["claims.lose_owner", "placement.settle_unseen"])
def test_a_pod_counts_until_its_removal_succeeds(step: str) -> None:
    """A removal that failed once was complete in part. Its second try freed nothing and woke no pod."""
    core = Core(node("node-a", cpu="2"))
    gone = pod("web-0", uid="old", requests={"cpu": "2"}, node_name="node-a")
    core.add(gone, pod("waits", requests={"cpu": "2"}))
    core.refuse()
    parent, _, method = step.partition(".")
    part = getattr(core.ledger, parent)
    original = getattr(part, method)

    def fails(*_: Any) -> None:
        raise LookupError("planted")

    setattr(part, method, fails)
    with pytest.raises(LookupError):
        core.event_handlers.pods.remove(gone)
    assert core.used() == 2000
    setattr(part, method, original)
    core.add(pod("web-0", uid="new", scheduler="another"))  # another pod has the name by then
    core.event_handlers.pods.remove(gone)
    assert core.used() == 0
    core.clock.advance(10)
    assert core.place().pod.meta.name == "waits"


def test_a_node_whose_reservations_can_not_be_counted_is_counted_later_in_full() -> None:
    """The node was known by then, so its reservations never counted, and their capacity was given again."""
    core = Core(node("node-a"), node("node-b", cpu="2"))
    for name in ("one", "two"):
        core.reservation(name, nodeName="node-b", owner=name)
        core.step()
    columns, nodes = core.cache.columns, core.event_handlers.nodes
    ready, core.event_handlers.ready = core.event_handlers.ready, False  # as between two lists
    nodes.remove(node("node-b", cpu="2"))
    with planted(columns, "reservation", name="node-b", times=1), pytest.raises(LookupError):
        nodes.upsert(None, node("node-b", cpu="2"))
    core.event_handlers.ready = ready
    nodes.upsert(None, node("node-b", cpu="2"))
    assert core.reserved("node-b") == 2000


def test_a_removal_that_comes_late_removes_no_other_node_of_the_name() -> None:
    core = Core(node("node-a", uid="old"))
    entry = core.reservation()
    core.event_handlers.nodes.upsert(None, node("node-a", uid="new"))
    core.step()
    assert entry.phase is Phase.ACTIVE
    core.event_handlers.nodes.remove(node("node-a", uid="old"))
    assert (entry.phase, list(core.cache.columns.row_of)) == (Phase.ACTIVE, ["node-a"])


def test_a_change_of_an_object_for_which_a_listener_fails_is_undone() -> None:
    """The listeners before it counted the new object twice, or the old one for ever."""
    lister, counted = Lister[Node](), []
    lister.on_change(lambda old, new: counted.append((old and old.meta.uid, new and new.meta.uid)))
    failures = [LookupError("planted")]

    def fails(_old: Node | None, _new: Node | None) -> None:
        if failures:
            raise failures.pop()

    lister.on_change(fails)
    for number, uid in enumerate(("old", "new")):
        failures += [LookupError("planted")] * (1 - len(failures))
        with pytest.raises(LookupError):
            lister.upsert(None, node(uid=uid))
        known = lister.get("node-a")
        assert (known and known.meta.uid) == (None, "old")[number]
        lister.upsert(None, node(uid=uid))
    assert counted == [
        *((None, "old"), ("old", None), (None, "old")),
        *(("old", "new"), ("new", "old"), ("old", "new")),
    ]
    lister.remove(node(uid="old"))
    assert len(lister) == 1


def test_a_reservation_that_one_index_can_not_forget_holds_nothing() -> None:
    """Its name was unknown by then, so its second removal did nothing, and the capacity was lost."""
    core = Core(node("node-a"))
    entry = core.reservation()
    core.step()
    core.store()
    with planted(core.ledger, "records.due.remove", name="lock", times=1), pytest.raises(LookupError):
        core.event_handlers.reservations.remove(entry.reservation)
    core.event_handlers.reservations.remove(entry.reservation)
    assert (core.reserved(), dict(core.ledger.entries)) == (0, {})


def test_a_reservation_whose_end_fails_is_not_active_without_capacity() -> None:
    """Its capacity was free by then, and its phase was as before."""
    core = Core(node("node-a"), node("node-b"))
    core.reservation(nodeName="node-b", retention="Retain")
    core.step()
    core.store()
    end, failures = core.ledger.records.end, [LookupError("planted")]

    def fails(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        end(*arguments)

    core.ledger.records.end = fails  # type: ignore[assignment]
    with pytest.raises(LookupError):
        core.event_handlers.nodes.remove(node("node-b"))
    core.event_handlers.nodes.remove(node("node-b"))
    assert [entry.phase for entry in core.ledger.entries.values()] == [Phase.LOST]


class Counting(CacheObserver):
    """An observer that counts the pods, and fails for the pod of a name."""

    def __init__(self, bad: str = "") -> None:
        self.bad = bad
        self.count = 0

    def place(self, placed: Placed) -> None:
        if placed.pod.meta.name == self.bad:
            raise LookupError("planted")
        self.count += 1

    def displace(self, placed: Placed) -> None:
        if placed.pod.meta.name == self.bad:
            raise LookupError("planted")
        self.count -= 1


def test_an_observer_that_fails_for_a_pod_leaves_the_others_as_they_were() -> None:
    """The observers before it counted the pod once more after each try."""
    core = Core(node("node-a"))
    first, last = Counting(), Counting("web-0")
    core.cache.add_observer(first)
    core.cache.add_observer(last)
    web = pod("web-0", node_name="node-a")
    for _ in range(2):
        with pytest.raises(LookupError):
            core.add(web)
        assert (first.count, core.used()) == (0, 0)
    last.bad = ""
    core.add(web)
    last.bad = "web-0"
    for _ in range(2):
        with pytest.raises(LookupError):
            core.event_handlers.pods.remove(web)
        assert (first.count, last.count, core.used()) == (1, 1, 1000)
    last.bad = ""
    core.event_handlers.pods.remove(web)
    assert (first.count, last.count, core.used()) == (0, 0, 0)


def test_a_node_that_the_columns_took_over_in_part_gets_its_pods_later() -> None:
    """The node counted as known, so its pods never counted, and its capacity was given again."""
    core = Core(node("node-a"))
    core.add(pod("web-0", node_name="node-b"))
    put, failures = core.cache.columns.labels.put, [LookupError("planted")]

    def fails(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        put(*arguments)

    core.cache.columns.labels.put = fails  # type: ignore[assignment]
    with pytest.raises(LookupError):
        core.event_handlers.nodes.upsert(None, node("node-b"))
    core.event_handlers.nodes.upsert(None, node("node-b"))
    assert core.used("node-b") == 1000


def test_a_claim_whose_end_fails_is_resolved_by_the_next_try() -> None:
    """The claim was forgotten by then, so the reservation stayed Bound until a restart."""
    core = Core(node("node-a", cpu="2"))
    core.reservation(owner="web-0")
    core.step()
    core.store()
    owner = pod("web-0")
    core.add(owner)
    core.place()
    resolve, failures = core.ledger.claims.resolve_claim, [LookupError("planted")]

    def fails(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        resolve(*arguments)

    core.ledger.claims.resolve_claim = fails  # type: ignore[assignment]
    with pytest.raises(LookupError):
        core.event_handlers.pods.remove(owner)
    core.event_handlers.pods.remove(owner)
    assert [entry.phase for entry in core.ledger.entries.values()] == [Phase.ACTIVE]
    assert (core.used(), core.reserved()) == (0, 1000)


def test_a_device_in_flight_stays_in_use_when_the_event_of_its_claim_fails() -> None:
    """The event had ended the assumption, and its undo took the allocation back: two pods got the device."""
    core = DeviceCore(devices=1)
    core.placed("web-0")
    core.pod("web-1")
    claims, key = core.objects.resource_claims, Key(NAMESPACE, "web-0-gpus")
    decided = claims.in_flight.get(key)
    assert decided is not None
    (device,) = (each.id for each in decided.devices.results)
    failures = [LookupError("planted")]

    def fails(*_: object) -> None:
        if failures:
            raise failures.pop()

    claims.on_change(fails)
    seen = resource_claim(key.name, version=9, status=allocated(device.device, users=["web-0"]))
    with pytest.raises(LookupError):
        claims.upsert(None, seen)
    assert list(claims.with_device(device)) == [key]
    core.refuse()
    claims.upsert(None, seen)
    assert list(claims.with_device(device)) == [key]
    assert (claims.in_flight.get(key), claims.allocated.users(device)) == (None, (1, 0))


def test_the_old_device_of_a_claim_stays_in_use_when_the_new_one_can_not_be_counted() -> None:
    core = DeviceCore()
    claims = core.objects.resource_claims
    claims.upsert(None, resource_claim("gpu", status=allocated("a-0")))
    stored = claims.get("gpu", NAMESPACE)
    assert stored is not None
    assert stored.allocation is not None
    (device,) = (each.id for each in stored.allocation.devices.results)
    note, failures = claims.changes.note, [LookupError("planted")]

    def fails(pool: Any) -> None:
        if claims.allocated.users(device._replace(device="a-1"))[0] and failures:
            raise failures.pop()
        note(pool)

    claims.changes.note = fails  # type: ignore[assignment]
    with pytest.raises(LookupError):
        claims.upsert(None, resource_claim("gpu", version=2, status=allocated("a-1")))
    assert claims.allocated.users(device) == (1, 0)
    assert list(claims.with_device(device)) == [Key(NAMESPACE, "gpu")]


def test_a_removal_that_comes_late_ends_no_decision_about_another_claim_of_the_name() -> None:
    """Its devices counted as free, although they were written to the claim that no event had shown yet."""
    core = DeviceCore(devices=1)
    core.placed("web-0")
    claims, key = core.objects.resource_claims, Key(NAMESPACE, "web-0-gpus")
    decided = claims.in_flight.get(key)
    assert decided is not None
    (device,) = (each.id for each in decided.devices.results)
    claims.remove(resource_claim(key.name))
    claims.in_flight.make(key, decided, "uid-web-0", "uid-first")
    claims.in_flight.wrote(key, 7)
    (gone,) = claims.gone_by(8)
    claims.remove(gone)
    assert not claims.with_device(device)

    claims.in_flight.make(key, decided, "uid-web-0", "uid-second")
    claims.remove(gone)  # again, as a step after the first time failed
    assert list(claims.with_device(device)) == [key]


class Following(CacheObserver):
    """An observer that knows the versions of pods, and can fail."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.failures: list[Exception] = []

    def place(self, placed: Placed) -> None:
        self.versions[placed.pod.uid] = placed.pod.meta.resource_version
        if self.failures:
            raise self.failures.pop()

    def displace(self, placed: Placed) -> None:
        del self.versions[placed.pod.uid]


def test_an_update_for_which_an_observer_fails_hides_the_pod_from_no_index() -> None:
    """The pod was taken out of earlier indexes, so a pod with anti-affinity to it was placed beside it."""
    core = Core(node("node-a", labels={"zone": "z"}))
    observers = Following(), Following()
    for each in observers:
        core.cache.add_observer(each)
    core.add(pod("web-0", node_name="node-a", labels={"app": "web"}))
    observers[1].failures = [LookupError("planted")]
    newer = pod("web-0", node_name="node-a", labels={"app": "web"}, version=2)
    with pytest.raises(LookupError):
        core.add(newer)
    assert [each.versions for each in observers] == [{"uid-web-0": "1"}] * 2
    placed = core.cache.get("uid-web-0")
    assert placed is not None
    assert placed.pod.meta.resource_version == "1"
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    core.add(pod("db-0", affinity=apart))
    core.refuse()

    core.add(newer)
    assert [each.versions for each in observers] == [{"uid-web-0": "2"}] * 2
    core.event_handlers.pods.remove(newer)
    assert [each.versions for each in observers] == [{}] * 2
    assert core.used() == 0
