"""The past of a real cluster, as a world: its nodes, its pods with their requests, and their measured use.

A world has nodes that are always there, and pods that may go to any of them. So the nodes are those of the
instant with the most cpu. Pods of DaemonSets and static pods have no choice: the size of their node is
without their requests, and their use is left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tidelock.model.meta import Key
from tidelock.model.quantities import CPU, MEMORY, PODS
from tidelock.simulation.cluster import VirtualClock
from tidelock.simulation.engine import NOT_PLACED, Run, Simulation
from tidelock.simulation.measuring import MetricsTiming, Reading
from tidelock.simulation.policies import SimulatedPolicy
from tidelock.simulation.traces import TraceError
from tidelock.simulation.world import Floats, Indices, Loads, Machine, SimulatedWorkload, SimulatedWorld

_CORE = 1000
_MOST_PODS = 110
_WITHOUT_CHOICE = frozenset({"DaemonSet", "Node"})


class PodIdentity(NamedTuple):
    """A pod, where the UID distinguishes pods of one name."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        return Key(self.namespace, self.name)


@dataclass(slots=True)
class RecordedPod:
    """A pod of the past: its node, its controller, and the first and the last step that has it."""

    node: str
    kind: str
    owner: str
    first: int
    last: int


@dataclass(slots=True)
class Recording:
    """The answers about T steps, as they were measured. Cpu is in cores, memory in bytes.

    Attributes:
        title: where they are from.
        start: second of the epoch at which the first step begins.
        step: seconds of a step.
        steps: T.
        nodes: allocatable amounts of each node by resource, NaN while it was not there (T).
        pods: the pods that had a node.
        created: second of the epoch at which each pod was created, as far as it is known.
        requests, limits: of each pod with any.
        deployments: the name of the owner of a ReplicaSet, if it has one.
        cpu: use of each pod, as the mean over the step, NaN where it was not measured (T).
        memory: use of each pod, in the mean.
        warnings: from the source.

    """

    title: str
    start: float
    step: float
    steps: int
    nodes: dict[str, dict[str, Floats]] = field(default_factory=dict)
    pods: dict[PodIdentity, RecordedPod] = field(default_factory=dict)
    created: dict[PodIdentity, float] = field(default_factory=dict)
    requests: dict[Key, dict[str, float]] = field(default_factory=dict)
    limits: dict[Key, dict[str, float]] = field(default_factory=dict)
    deployments: dict[Key, str] = field(default_factory=dict)
    cpu: dict[Key, Floats] = field(default_factory=dict)
    memory: dict[Key, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RecordedWorld:
    """A world of the past.

    Attributes:
        world: its nodes and pods.
        rows: the node on which each pod ran, or NOT_PLACED for a node that the world lacks (P).
        steady: whether the nodes were always there, and had all pods of the world.
        remarks: omissions, for people.

    """

    world: SimulatedWorld
    rows: Indices
    steady: bool
    remarks: list[str]

    def as_it_was(self) -> Run:
        """Return the use of the nodes under the scheduler of that time, for a world with steady nodes."""
        policy = SimulatedPolicy("as it was", "the scheduler of that time", measures=False)
        unread = MetricsTiming(interval=self.world.step, span=self.world.step)
        return Simulation(self.world, policy, timing=unread, scheduler=_Replay(self.rows)).run()


class _Replay:
    """Places each pod on its node of the past, when it arrives."""

    means_only = True

    def __init__(self, rows: Indices) -> None:
        self.clock = VirtualClock()
        self._rows = rows
        self._arrived: list[int] = []

    def restart(self) -> None:
        """Keep everything, as nothing is decided."""

    def show(self, reading: Reading) -> None:
        """Ignore a reading."""

    def add_pod(self, number: int) -> None:
        """Create a pod of the world."""
        self._arrived.append(number)

    def end_pod(self, number: int) -> None:
        """Delete a pod."""

    def decide(self) -> Iterator[tuple[int, int]]:
        """Yield the pods that have arrived, with their nodes."""
        arrived, self._arrived = self._arrived, []
        for number in arrived:
            yield number, int(self._rows[number])

    def next_due(self) -> None:
        """Return that nothing is due without an event."""


def recorded_world(recording: Recording) -> RecordedWorld:
    """Return the world of a recording. It begins with the first pod that may go to several nodes.

    Raises:
        TraceError: there are no nodes, or no pods with measured use.

    """
    pods = {each: pod for each, pod in recording.pods.items() if pod.kind not in _WITHOUT_CHOICE}
    owners = {each: _owner(recording, each, pod) for each, pod in pods.items()}
    usual = _usual(recording, owners)
    remarks = list(recording.warnings)
    if unmeasured := [each for each in pods if owners[each] not in usual]:
        remarks.append(f"Left out, as no pod of their workload was measured: {len(unmeasured)} pods.")
    order = sorted(pods, key=lambda each: recording.created.get(each, 0.0))
    pods = {each: pods[each] for each in order if owners[each] in usual}
    if not pods or not recording.nodes:
        raise TraceError(f"{recording.title}: has no node, or no measured pod that may go to several nodes")
    start = min(pod.first for pod in pods.values())
    machines = _machines(recording, {pod.node for pod in pods.values()})
    rows = {machine.name: row for row, machine in enumerate(machines)}
    ran_on = np.array([rows.get(pod.node, NOT_PLACED) for pod in pods.values()], np.intp)
    present = [~np.isnan(recording.nodes[each.name][CPU][start:]) for each in machines]
    steady = bool(np.all(present)) and bool((ran_on != NOT_PLACED).all())
    if not steady:
        remarks.append("Nodes came and went, so there is no row for the placement as it was.")
    kinds = [_kind(recording, each, owners[each]) for each in pods]
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    arrives, lives = _times(recording, pods, start)
    world = SimulatedWorld(
        title=recording.title,
        machines=machines,
        workloads=tuple(kind.workload(number) for kind, number in numbers.items()),
        workload=np.array([numbers[kind] for kind in kinds], np.intp),
        arrives=arrives,
        lives=lives,
        cpu=np.stack(
            [_demand(recording, each, pod, usual[owners[each]].cpu)[start:] for each, pod in pods.items()]
        ),
        memory=np.array([_memory(recording, each, usual[owners[each]].memory) for each in pods]),
        step=recording.step,
    )
    return RecordedWorld(world, ran_on, steady, remarks)


def _times(
    recording: Recording, pods: Mapping[PodIdentity, RecordedPod], start: int
) -> tuple[Floats, Floats]:
    """Return when each pod arrives, and for how long it lives once it is bound (P each), in seconds.

    A pod ends right after its last sample, so that it is gone when another one is created in its place. Those
    of the first sample were there before, and those of the last one stay.
    """
    step, begin = recording.step, recording.start + start * recording.step
    first, last = np.array([(pod.first - start, pod.last - start) for pod in pods.values()], np.float64).T
    seen = np.where(first == 0, 0.0, (first + 0.5) * step)
    created = np.array([recording.created.get(each, np.nan) for each in pods]) - begin
    arrives = np.where(np.isnan(created), seen, np.clip(created, 0.0, (first + 1) * step))
    bound = np.maximum(arrives, np.where(first == 0, 0.0, first * step))
    ends = np.where(last == recording.steps - start - 1, np.inf, (last + 1) * step)
    return arrives, np.maximum(ends - bound, step / 2)


class _Use(NamedTuple):
    """Mean use of a pod of a workload, in cores and bytes."""

    cpu: float
    memory: float


class _Kind(NamedTuple):
    """A workload with equal pods."""

    owner: str
    cpu: int
    memory: int
    cpu_limit: int
    memory_limit: int

    def workload(self, number: int) -> SimulatedWorkload:
        return SimulatedWorkload(f"app-{number:05}", self.cpu, self.memory, self.cpu_limit, self.memory_limit)


def _owner(recording: Recording, identity: PodIdentity, pod: RecordedPod) -> str:
    """Return the name of a pod's workload: its Deployment, another controller, or the pod itself."""
    kind, owner = pod.kind, pod.owner or identity.name
    deployment = recording.deployments.get(Key(identity.namespace, owner)) if kind == "ReplicaSet" else None
    if deployment:
        kind, owner = "Deployment", deployment
    return f"{kind} {identity.namespace}/{owner}"


def _kind(recording: Recording, identity: PodIdentity, owner: str) -> _Kind:
    requests, limits = (of.get(identity.key, {}) for of in (recording.requests, recording.limits))
    amounts = ((each.get(CPU, 0.0) * _CORE, each.get(MEMORY, 0.0)) for each in (requests, limits))
    (cpu, memory), (cpu_limit, memory_limit) = amounts
    return _Kind(owner, round(cpu), round(memory), round(cpu_limit), round(memory_limit))


def _usual(recording: Recording, owners: Mapping[PodIdentity, str]) -> dict[str, _Use]:
    """Return the mean use of a pod of each workload that was measured."""
    of: dict[str, list[tuple[float, float]]] = {}
    for identity, pod in ((each, recording.pods[each]) for each in owners):
        cpu = recording.cpu.get(identity.key)
        if cpu is not None and not np.isnan(life := cpu[pod.first : pod.last + 1]).all():
            memory = recording.memory.get(identity.key, np.nan)
            of.setdefault(owners[identity], []).append((float(np.nanmean(life)), memory))
    return {owner: _Use(*_means(found)) for owner, found in of.items()}


def _means(found: list[tuple[float, float]]) -> tuple[float, float]:
    cpu, memory = np.array(found).T
    known = memory[~np.isnan(memory)]
    return float(cpu.mean()), float(known.mean()) if len(known) else np.nan


def _memory(recording: Recording, identity: PodIdentity, usual: float) -> float:
    """Return the bytes that a pod uses: its own, those of its workload, or else those that it requests."""
    requested = recording.requests.get(identity.key, {}).get(MEMORY, 0.0)
    return recording.memory.get(identity.key, requested if np.isnan(usual) else usual)


def _demand(recording: Recording, identity: PodIdentity, pod: RecordedPod, usual: float) -> Loads:
    """Return the millicores that a pod wants in each step (T).

    Where a pod was not measured, it has the use of the step before. The sample of its first minutes is too
    low, as a rate has it, so it has the use of the next one.
    """
    row = np.full(recording.steps, np.nan)
    if (cpu := recording.cpu.get(identity.key)) is not None:
        begin = pod.first + (0 < pod.first < pod.last)
        row[begin : pod.last + 1] = cpu[begin : pod.last + 1]
    known = np.flatnonzero(~np.isnan(row))
    if not len(known):
        return np.full(recording.steps, usual * _CORE, np.float32)
    places = np.searchsorted(known, np.arange(recording.steps), side="right") - 1
    return (row[known[np.maximum(places, 0)]] * _CORE).astype(np.float32)


def _machines(recording: Recording, used: set[str]) -> tuple[Machine, ...]:
    """Return the nodes of the instant with the most cpu, as far as they ever had a pod with a choice.

    Others are those with taints, such as nodes of the control plane.

    Raises:
        TraceError: the amounts of all these nodes are unknown.

    """
    nodes = {name: of for name, of in recording.nodes.items() if name in used and CPU in of}
    if not nodes:
        raise TraceError(f"{recording.title}: no node has both allocatable cpu and a pod with a choice")
    peak = int(np.nansum([of[CPU] for of in nodes.values()], axis=0).argmax())
    bound: dict[str, list[PodIdentity]] = {}
    for identity, pod in recording.pods.items():
        if pod.kind in _WITHOUT_CHOICE and pod.first <= peak <= pod.last:
            bound.setdefault(pod.node, []).append(identity)

    def left(name: str, resource: str) -> float:
        taken = sum(recording.requests.get(each.key, {}).get(resource, 0.0) for each in bound.get(name, ()))
        amount = nodes[name].get(resource)
        return 0.0 if amount is None or np.isnan(amount[peak]) else max(float(amount[peak]) - taken, 0.0)

    return tuple(
        Machine(
            name=name,
            cpu=round(left(name, CPU) * _CORE),
            memory=round(left(name, MEMORY)),
            pods=max(round(left(name, PODS) or _MOST_PODS) - len(bound.get(name, ())), 0),
        )
        for name in sorted(nodes)
        if not np.isnan(nodes[name][CPU][peak])
    )
