"""PodGroups under any order of events: all or nothing, no capacity counted twice, and none left idle."""

from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from builders import NAMESPACE, node, pod
from sampling import sample
from tidelock.model.nodes import Node
from tidelock.model.pod_group import PodGroup
from tidelock.model.pods import Pod, assigned_to
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.pod_queue import FLUSH_AFTER
from unit.scheduler.pod_groups import deliver, grouping, pod_group

GROUPS = ("one", "two", "loose")
PRIORITIES = {"one": 5}
"""The gang `one` may evict all other pods."""
CPUS = {"one": 1, "two": 2, "loose": 1, "": 1}
"""The request of each pod by its group. Equal pods of a group fit by one of them after the other, or not."""
NODES = [f"node-{name}" for name in "abcd"]
KINDS = st.sampled_from(
    [
        *["pods"] * 4,
        *["bound"] * 3,
        "node",
        "group",
        "group gone",
        "pod gone",
        "failed",
        "repeat",
        "evicted",
        "settle",
    ]
)


class PodGroupMachine(RuleBasedStateMachine):
    """Two gangs, a group of the policy `basic`, and pods without a group, on a few small nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.core = grouping()
        self.nodes: dict[str, Node] = {}
        self.groups: dict[str, PodGroup] = {}
        self.pods: dict[str, Pod] = {}  # as the API server has them
        self.group: dict[str, str] = {}
        self.binding: dict[str, AssumedPod] = {}
        self.evicted: set[str] = set()
        self.count = 0

    @initialize(cpus=st.lists(st.integers(1, 3), min_size=2, max_size=2))
    def begin(self, cpus: list[int]) -> None:
        for name, cpu in zip(NODES, cpus, strict=False):
            self.put_node(name, cpu)
        self.put_group("one", 3)
        self.put_group("two", 2)

    # Events. There is one rule with many kinds, because a run draws only some of the rules.

    @rule(kind=KINDS, data=st.data())
    def happen(self, kind: str, data: st.DataObject) -> None:
        """Let something happen, and decide."""
        match kind:
            case "pods":
                group = data.draw(st.sampled_from(["one", "one", "two", "two", "loose", ""]))
                self.add_pods(group, data.draw(st.integers(1, 4)))
            case "node":
                self.put_node(data.draw(st.sampled_from(NODES)), data.draw(st.integers(0, 4)))
            case "group":
                self.put_group(data.draw(st.sampled_from(GROUPS)), data.draw(st.integers(1, 4)))
            case "group gone":
                self.delete_group(data.draw(st.sampled_from(GROUPS)))
            case "pod gone" if self.pods:
                self.delete_pod(data.draw(st.sampled_from(sorted(self.pods))))
            case "repeat" if self.pods:
                self.core.add(self.pods[data.draw(st.sampled_from(sorted(self.pods)))])
            case "bound" | "failed" if self.binding:
                self.end_binding(data.draw(st.sampled_from(sorted(self.binding))), well=kind == "bound")
            case "evicted" if self.evicted:
                self.delete_pod(data.draw(st.sampled_from(sorted(self.evicted))))
            case "settle":
                self.settle()
        self.decide(data.draw(st.sampled_from([0.0, 1.0, 10.0])))

    def put_node(self, name: str, cpu: int) -> None:
        """Add a node or change its size. A size of 0 removes it, unless it has pods."""
        used = sum(CPUS[self.group[uid]] for uid in self.placed(name))
        old = self.nodes.get(name)
        if cpu:
            self.nodes[name] = node(name, cpu=str(max(cpu, used)), version=self.number())
            self.core.event_handlers.nodes.upsert(old, self.nodes[name])
        elif old is not None and not used:
            self.core.event_handlers.nodes.remove(self.nodes.pop(name))

    def put_group(self, name: str, least: int) -> None:
        """Create a group, or change the number of pods that it needs."""
        min_count, priority = None if name == "loose" else least, PRIORITIES.get(name, 0)
        self.groups[name] = pod_group(name, min_count, version=self.number(), priority=priority)
        deliver(self.core, self.groups[name])

    def delete_group(self, name: str) -> None:
        if name in self.groups:
            self.core.event_handlers.others["pod_groups"].remove(self.groups.pop(name))

    def add_pods(self, group: str, count: int) -> None:
        spec = {"schedulingGroup": {"podGroupName": group}} if group else {}
        for _ in range(count):
            requests, priority = {"cpu": str(CPUS[group])}, PRIORITIES.get(group, 0)
            made = pod(f"pod-{self.number()}", requests=requests, priority=priority, **spec)
            self.pods[made.uid], self.group[made.uid] = made, group
            self.core.add(made)

    def delete_pod(self, uid: str) -> None:
        self.evicted.discard(uid)
        self.core.event_handlers.pods.remove(self.pods.pop(uid))

    def end_binding(self, uid: str, *, well: bool) -> None:
        """End a binding. That of a pod which is gone fails."""
        assumed = self.binding.pop(uid)
        if well and uid in self.pods:
            before = self.pods[uid]
            self.core.decider.bound(assumed, self.core.clock.now())
            self.pods[uid] = assigned_to(before, assumed.node_name)
            self.core.event_handlers.pods.upsert(before, self.pods[uid])
        else:
            self.core.decider.binding_failed(assumed, self.core.clock.now())

    def decide(self, seconds: float) -> None:
        """Decide step by step. No step gives a gang a part of the pods that it needs."""
        self.core.clock.advance(seconds)
        while True:
            before = {name: self.scheduled(name) for name in self.groups}
            outcome = self.core.step()
            for name, group in self.groups.items():
                after = self.scheduled(name)
                assert after == before[name] or after >= group.min_count, (name, before[name], after)
            if isinstance(outcome, AssumedPod):
                self.binding[outcome.pod.uid] = outcome
            due = self.core.decider.next_due()
            if due is None or due > self.core.clock.now():
                break
        for attempt in self.core.take_preemptions():
            assert all(victim.spec.priority < attempt.pod.spec.priority for victim in attempt.victims)
            self.evicted.update(victim.uid for victim in attempt.victims if victim.uid in self.pods)

    def settle(self) -> None:
        """Let everything be tried again. What still waits does not fit, and would not after evictions."""
        self.decide(FLUSH_AFTER)
        while self.binding or self.evicted:
            for uid in sorted(self.evicted):
                self.delete_pod(uid)
            for uid in sorted(self.binding):
                self.end_binding(uid, well=True)
            self.decide(FLUSH_AFTER)
        free = self.free()
        for group in ("", *self.groups):
            waiting = sum(self.group[uid] == group and self.core.cache.get(uid) is None for uid in self.pods)
            needed = max(self.groups[group].min_count - self.scheduled(group), 1) if group else 1
            usable = dict(free)
            for uid in self.pods:
                placed = self.core.cache.get(uid)
                if placed is not None and PRIORITIES.get(self.group[uid], 0) < PRIORITIES.get(group, 0):
                    usable[placed.node_name] += CPUS[self.group[uid]]
            fitting = sum(cpu // CPUS[group] for cpu in usable.values())
            assert waiting < needed or fitting < needed, (group, waiting, needed, usable)

    # Truths.

    @invariant()
    def no_node_has_more_than_it_can_take(self) -> None:
        assert all(cpu >= 0 for cpu in self.free().values())

    @invariant()
    def the_columns_count_the_pods_on_nodes_and_no_others(self) -> None:
        for name in self.nodes:
            assert self.core.used(name) == 1000 * sum(CPUS[self.group[uid]] for uid in self.placed(name))

    @invariant()
    def every_counted_pod_exists(self) -> None:
        for placed in self.core.cache.pods_in(NAMESPACE):
            assert placed.pod.uid in self.pods

    # Helpers.

    def number(self) -> int:
        self.count += 1
        return self.count

    def scheduled(self, group: str) -> int:
        return sum(self.core.cache.get(uid) is not None for uid, name in self.group.items() if name == group)

    def placed(self, node_name: str) -> Iterator[str]:
        return (placed.pod.uid for placed in self.core.cache.pods_on(node_name))

    def free(self) -> dict[str, int]:
        return {
            name: int(each.allocatable["cpu"]) // 1000
            - sum(CPUS[self.group[uid]] for uid in self.placed(name))
            for name, each in self.nodes.items()
        }


TestPodGroups = PodGroupMachine.TestCase
TestPodGroups.settings = settings(deadline=None, max_examples=sample(25, 60), stateful_step_count=30)
