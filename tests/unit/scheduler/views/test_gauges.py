from prometheus_client import CollectorRegistry

from builders import node, pod
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.views.gauges import Gauges
from unit.scheduler.machinery import Core


def scraped(core: Core) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Gauges(core.ledger, core.decider.columns, core.queue))
    return registry


def test_reservations_are_counted_by_phase_and_no_phase_is_missing() -> None:
    core = Core(node("node-a", cpu="2"))
    for name in ("a", "b", "c"):
        core.reservation(name)
    core.step()
    registry = scraped(core)

    counts = {
        phase.value: registry.get_sample_value("tidelock_reservations", {"phase": phase}) for phase in Phase
    }
    assert {phase: count for phase, count in counts.items() if count} == {"Active": 2, "Pending": 1}
    assert None not in counts.values()


def test_waiting_reservations_are_counted_by_namespace_and_reason() -> None:
    core = Core(node("node-a", cpu="2"))
    core.reservation("held", namespace="shop", resources={"cpu": "2"})
    core.step()
    for namespace, names in (("shop", "ab"), ("lab", "c")):
        for name in names:
            core.reservation(name, namespace=namespace)
    core.reservation("elsewhere", namespace="lab", node_name="node-b")
    core.step()

    [family] = [each for each in scraped(core).collect() if each.name == "tidelock_reservations_waiting"]

    assert {tuple(sample.labels.values()): sample.value for sample in family.samples} == {
        ("shop", "InsufficientCapacity"): 2,
        ("lab", "InsufficientCapacity"): 1,
        ("lab", "NodeNotFound"): 1,
    }


def test_waiting_pods_are_counted_by_queue() -> None:
    core = Core()
    core.add(pod("refused"))
    core.refuse()
    core.add(pod("web-0"), pod("web-1"))
    registry = scraped(core)

    def waiting(queue: str) -> float | None:
        return registry.get_sample_value("scheduler_pending_pods", {"queue": queue})

    assert (waiting("active"), waiting("unschedulable"), waiting("gated")) == (2, 1, 0)
    assert waiting("in flight") is None


def test_waiting_pods_are_counted_by_the_plugin_that_refused_or_gates_them() -> None:
    core = Core(node("node-a", cpu="1"))
    core.add(pod("refused", requests={"cpu": "2"}), pod("gated", schedulingGates=[{"name": "hold"}]))
    core.refuse()
    registry = scraped(core)

    def refused(plugin: str) -> float | None:
        labels = {"plugin": plugin, "profile": "tidelock-scheduler"}
        return registry.get_sample_value("scheduler_unschedulable_pods", labels)

    assert (refused("NodeResourcesFit"), refused("SchedulingGates"), refused("NodeName")) == (1, 1, None)


def test_amounts_are_in_cores_bytes_and_pieces() -> None:
    core = Core(node("node-a", cpu="4", memory="1Gi"), node("node-b", cpu="4", memory="1Gi"))
    core.reservation(resources={"cpu": "1500m", "memory": "1Mi"}, owner="nobody")
    core.step()
    core.add(pod("web-0", requests={"cpu": "250m"}, node_name="node-b"))
    registry = scraped(core)

    def total(name: str, resource: str) -> float | None:
        return registry.get_sample_value(f"tidelock_{name}", {"resource": resource})

    assert (total("allocatable", "cpu"), total("allocatable", "memory")) == (8, 2 * 2**30)
    assert (total("locked", "cpu"), total("locked", "memory")) == (1.5, 2**20)
    assert (total("requested", "cpu"), total("requested", "pods")) == (0.25, 1)
