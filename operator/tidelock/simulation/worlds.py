"""Worlds from a seed: from measured load, from a production cluster's lists, or fully synthetic.

A pod uses a share of its limit, and requests a fraction of that limit, so requests say little about use. The
share follows one row of the load for each workload. All its replicas have that share, with some noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from tidelock.simulation.traces import MEBIBYTE, TracedPod
from tidelock.simulation.world import (
    STEP,
    Floats,
    Indices,
    Loads,
    Machine,
    SimulatedWorkload,
    SimulatedWorld,
)

STEPS_A_DAY = 288

_HOUR = 3600.0
_HOURS_A_DAY = 24
_CORE = 1000
_MEMORY_A_CORE = 4096 * MEBIBYTE
_LEAST_REQUEST = 50  # millicores
_MEMORY_SHARE = 0.5  # share of its requested memory that a pod uses
_START = 60.0  # seconds in which the first pods arrive
_BURST = 30.0  # seconds that a roll-out takes
_REPLACED_AFTER = 1.0  # seconds until a Deployment has replaced a pod that ended
_PERSISTENCE = 0.8  # part of a deviation of synthetic load that the next step keeps
_LIFE_SHAPE = 1.5  # of Pareto's distribution, which has a mean but no variance
_LASTING = 0.5  # share of the noise that a replica keeps for its life


Lifetimes = Literal["Uniform", "Exponential", "Pareto"]
Rows = Literal["Deployment", "Pod"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """Parameters of synthetic load. The defaults resemble the PlanetLab days.

    Attributes:
        mean: mean of the rows' means, which are exponential: most rows are nearly idle, and few are busy.
        swing: part of its mean by which a row rises and falls during a day.
        wander: deviation of the steps of the logarithm of a row's use.
        peaks: share of the steps in which a row has a peak of 10 to 50 points.

    """

    mean: float = 0.12
    swing: float = 0.4
    wander: float = 0.25
    peaks: float = 0.02

    def __post_init__(self) -> None:
        """Raise ValueError with the field's name for an impossible value."""
        for field, most in (("mean", 1.0), ("swing", 1.0), ("wander", inf), ("peaks", 1.0)):
            if not 0 <= getattr(self, field) <= most:
                raise ValueError(f"{field}: {getattr(self, field)} should be from 0 to {most:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Parameters for a world from a load.

    Attributes:
        nodes: number of nodes.
        cores: their sizes, in turn.
        workloads: number of Deployments, each of which takes a row of the load.
        fill: share of all cores that is requested at any time.
        overcommit: a pod's limit, and thus its maximum use, as a multiple of its request.
        life: mean seconds for which a pod lives, from half to one and a half of it, until it is replaced.
        noise: difference between replicas, as the deviation of the logarithm of their use.
        rollouts: how many times in the world a Deployment has all of its pods replaced within 30 seconds.
        steps: length of the world, in steps of five minutes.
        sizes: millicores that pods request, one of which is drawn for each Deployment.
        request_error: deviation of the logarithm of requests from the Deployment's mean use, whose limit is
            that of the drawn size. Absent: the drawn size itself is the request, which says little about use.
        replica_shape: Pareto's shape of the number of replicas. The smaller, the fewer Deployments have most.
        lifetimes: distribution of the lifetimes around their mean. Pareto: most are short, and few are long.
        rows: whether all pods of a Deployment follow one row of the load, or each pod follows another one.
        load: factor of all use, which still ends at a pod's limit.
        memory: requested memory for each requested core, as a multiple of what nodes have for each core.
        apart: whether each pod is a separate Deployment, so that no pod has a history.

    """

    nodes: int = 40
    cores: Sequence[int] = (16,)
    workloads: int = 80
    fill: float = 0.6
    overcommit: float = 4.0
    life: float = 3 * 3600.0
    noise: float = 0.0
    rollouts: int = 0
    steps: int = STEPS_A_DAY
    sizes: Sequence[int] = (500, 1000, 1000, 2000)
    request_error: float | None = None
    replica_shape: float = 2.0
    lifetimes: Lifetimes = "Uniform"
    rows: Rows = "Deployment"
    load: float = 1.0
    memory: float = 1.0
    apart: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError with the field's name for an impossible value."""
        for field in ("nodes", "workloads", "steps", "life", "overcommit", "replica_shape", "load", "memory"):
            if getattr(self, field) <= 0:
                raise ValueError(f"{field}: {getattr(self, field)} should be more than 0")
        for field in ("noise", "rollouts"):
            if getattr(self, field) < 0:
                raise ValueError(f"{field}: {getattr(self, field)} should not be negative")
        if not 0 < self.fill < 1:
            raise ValueError(f"fill: {self.fill} should be between 0 and 1")
        if not self.cores or min(self.cores) <= 0:
            raise ValueError(f"cores: {list(self.cores)} should be sizes of nodes, all more than 0")
        if not self.sizes or min(self.sizes) <= 0:
            raise ValueError(f"sizes: {list(self.sizes)} should be requests of pods, all more than 0")
        if self.request_error is not None and self.request_error < 0:
            raise ValueError(f"request_error: {self.request_error} should not be negative")


@dataclass(frozen=True, slots=True)
class _Stay:
    """A future pod: its workload, its arrival and its lifetime."""

    workload: int
    arrives: float
    lives: float


def world_of(title: str, load: Loads, setting: Setting, seed: int) -> SimulatedWorld:
    """Return a world with workloads that follow rows of measured load (rows x steps, from 0 to 1).

    Raises:
        ValueError: the load has fewer rows or steps than the setting needs.

    """
    rows, steps = load.shape
    if rows < setting.workloads or steps < setting.steps:
        raise ValueError(
            f"{title}: {setting.workloads} workloads of {setting.steps} steps need more load than "
            f"{rows} rows of {steps} steps"
        )
    rng = np.random.default_rng(seed)
    machines = tuple(
        machine(f"node-{number:05}", setting.cores[number % len(setting.cores)])
        for number in range(setting.nodes)
    )
    shares = load[rng.choice(rows, setting.workloads, replace=False), : setting.steps]
    sizes = rng.choice(setting.sizes, setting.workloads)
    requests = _requests(rng, sizes, shares, setting)
    workloads = tuple(
        SimulatedWorkload(
            name=f"app-{number:04}",
            cpu=int(request),
            memory=int(request * setting.memory) * _MEMORY_A_CORE // _CORE,
            cpu_limit=int(size * setting.overcommit),
            memory_limit=int(request * setting.memory) * _MEMORY_A_CORE // _CORE,
        )
        for number, (size, request) in enumerate(zip(sizes.tolist(), requests.tolist(), strict=True))
    )
    wanted = setting.fill * sum(each.cpu for each in machines)
    replicas = _replicas(rng, requests, wanted, setting.replica_shape)
    stays = list(_stays(rng, replicas, setting))
    of_pods = shares[[stay.workload for stay in stays]]
    if setting.rows == "Pod":
        of_pods = load[rng.integers(rows, size=len(stays)), : setting.steps]
    if setting.apart:
        workloads, stays = _apart(workloads, stays)
    return _assembled(title, machines, workloads, stays, setting.load * of_pods, setting.noise, rng)


def openb_world(
    title: str,
    machines: Sequence[Machine],
    pods: Sequence[TracedPod],
    load: Loads,
    setting: Setting,
    seed: int,
) -> SimulatedWorld:
    """Return a world of a production cluster's nodes and pods, with the setting's noise and steps.

    The trace has few pods at any time and spans months, so the pods' creations are squeezed into the world's
    time. The pods keep their lifetimes. Pods of one size are one workload, with a row of the load.

    Raises:
        ValueError: the load has fewer steps than the setting needs.

    """
    if load.shape[1] < setting.steps:
        raise ValueError(f"{title}: {setting.steps} steps need more load than {load.shape[1]} steps")
    rng = np.random.default_rng(seed)
    kinds = {kind: number for number, kind in enumerate(sorted({(pod.cpu, pod.memory) for pod in pods}))}
    workloads = tuple(
        SimulatedWorkload(name=f"app-{number:04}", cpu=cpu, memory=memory, cpu_limit=cpu, memory_limit=memory)
        for (cpu, memory), number in kinds.items()
    )
    shares = load[rng.integers(len(load), size=len(kinds)), : setting.steps]
    duration = setting.steps * STEP
    rank = np.argsort(np.argsort([pod.created for pod in pods], kind="stable"), kind="stable")
    stays = [
        _Stay(kinds[pod.cpu, pod.memory], duration * place / len(pods), _life(pod))
        for pod, place in zip(pods, rank.tolist(), strict=True)
    ]
    of_pods = setting.load * shares[[stay.workload for stay in stays]]
    return _assembled(title, tuple(machines), workloads, stays, of_pods, setting.noise, rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightWork:
    """Parameters of batch work that is queued each night, beside services that are used by day.

    Attributes:
        jobs: number of pods that are created each night.
        kinds: number of workloads that the pods belong to.
        begin, end: hours of the day (UTC) between which they are created.
        life: mean seconds for which a pod runs, from half to one and a half of it.
        request, limit: millicores of a pod. It uses 0.25 to 0.5 of its limit.
        peak: hour of the day (UTC) at which services are used most.
        swing: part of its mean by which the use of services rises and falls during a day.

    """

    jobs: int = 1000
    kinds: int = 12
    begin: float = 22.0
    end: float = 26.0
    life: float = 1.5 * 3600.0
    request: int = 500
    limit: int = 4000
    peak: float = 14.0
    swing: float = 0.6


def day_and_night_world(setting: Setting, night: NightWork, starts: float, seed: int) -> SimulatedWorld:
    """Return a synthetic world of services that are used by day, and of batch work that comes at night.

    Args:
        setting: nodes, length, and the services.
        night: the batch work, and when services are used.
        starts: hour of the day (UTC) at which the world starts.
        seed: of all draws.

    """
    hours = starts + np.arange(setting.steps) * STEP / _HOUR
    day = 1 + night.swing * np.cos(2 * np.pi * (hours - night.peak) / _HOURS_A_DAY)
    load = synthetic_load(setting.workloads, setting.steps, seed, LoadShape(mean=0.2, swing=0, peaks=0))
    services = world_of("day and night", np.minimum(load * day, 1).astype(np.float32), setting, seed)
    return _joined(services, _night_work(services.machines, setting, night, starts, seed))


def _night_work(
    machines: tuple[Machine, ...], setting: Setting, night: NightWork, starts: float, seed: int
) -> SimulatedWorld:
    rng = np.random.default_rng((seed, night.jobs))
    memory = night.request * _MEMORY_A_CORE // _CORE
    workloads = tuple(
        SimulatedWorkload(f"job-{number:04}", night.request, memory, night.limit, memory)
        for number in range(night.kinds)
    )
    until = setting.steps * STEP
    first = ((night.begin - starts) % _HOURS_A_DAY) * _HOUR
    length = (night.end - night.begin) * _HOUR
    stays = [
        _Stay(
            int(rng.integers(night.kinds)),
            evening + length * rng.random(),
            rng.uniform(0.5, 1.5) * night.life,
        )
        for evening in np.arange(first, until, _HOURS_A_DAY * _HOUR).tolist()
        for _ in range(night.jobs)
    ]
    stays = [stay for stay in stays if stay.arrives < until]
    shares = rng.uniform(0.25, 0.5, night.kinds)[[stay.workload for stay in stays]]
    wanted = np.repeat(shares[:, np.newaxis], setting.steps, axis=1).astype(np.float32)
    return _assembled("night work", machines, workloads, stays, wanted, setting.noise, rng)


def _joined(first: SimulatedWorld, second: SimulatedWorld) -> SimulatedWorld:
    """Return a world with the pods of two worlds of the same nodes, those of the first one first."""
    return replace(
        first,
        workloads=first.workloads + second.workloads,
        workload=np.concatenate((first.workload, len(first.workloads) + second.workload)),
        arrives=np.concatenate((first.arrives, second.arrives)),
        lives=np.concatenate((first.lives, second.lives)),
        cpu=np.concatenate((first.cpu, second.cpu)),
        memory=np.concatenate((first.memory, second.memory)),
    )


def synthetic_load(rows: int, steps: int, seed: int, shape: LoadShape | None = None) -> Loads:
    """Return synthetic load: rows x steps, from 0 to 1.

    Each row follows the day with a phase of its own, varies from step to step, and sometimes has a peak.
    """
    shape = shape or LoadShape()
    rng = np.random.default_rng(seed)
    mean = np.minimum(rng.exponential(shape.mean, (rows, 1)), 0.8)
    phase = rng.uniform(0, 2 * np.pi, (rows, 1))
    day = 1 + shape.swing * np.sin(2 * np.pi * np.arange(steps) / STEPS_A_DAY + phase)
    shocks = rng.normal(0, shape.wander, (rows, steps))
    wander = np.empty((rows, steps))
    wander[:, 0] = shocks[:, 0]
    for step in range(1, steps):
        wander[:, step] = _PERSISTENCE * wander[:, step - 1] + shocks[:, step]
    peaks = rng.uniform(0.1, 0.5, (rows, steps)) * (rng.random((rows, steps)) < shape.peaks)
    # Half of the variance that the logarithm reaches keeps the mean.
    middle = shape.wander**2 / (1 - _PERSISTENCE**2) / 2
    return np.clip(mean * day * np.exp(wander - middle) + peaks, 0, 1).astype(np.float32)


def machine(name: str, cores: int) -> Machine:
    """Return a node with this number of cores, with 4 GiB for each."""
    return Machine(name, cores * _CORE, cores * _MEMORY_A_CORE)


def _life(pod: TracedPod) -> float:
    return pod.deleted - pod.created if pod.deleted > pod.created else inf


def _requests(rng: np.random.Generator, sizes: Indices, shares: Loads, setting: Setting) -> Indices:
    """Return the requested millicores of each workload."""
    error = setting.request_error
    if error is None:
        return sizes
    use = sizes * setting.overcommit * np.minimum(setting.load * shares, 1).mean(axis=1)
    followed = use * np.exp(rng.normal(0, error, len(sizes)) - error**2 / 2)
    requests: Indices = np.maximum(followed, _LEAST_REQUEST).astype(np.intp)
    return requests


def _apart(
    workloads: Sequence[SimulatedWorkload], stays: Sequence[_Stay]
) -> tuple[tuple[SimulatedWorkload, ...], list[_Stay]]:
    """Make each pod a workload of its own, of the same size."""
    lone = tuple(
        replace(workloads[stay.workload], name=f"app-{number:06}") for number, stay in enumerate(stays)
    )
    return lone, [replace(stay, workload=number) for number, stay in enumerate(stays)]


def _replicas(rng: np.random.Generator, sizes: Indices, wanted: float, shape: float) -> Indices:
    """Distribute requested millicores over workloads: one replica each, then more, very unevenly."""
    weights = rng.pareto(shape, len(sizes)) + 0.5
    counts = np.ones(len(sizes), np.intp)
    left = wanted - float(sizes.sum())
    order = rng.choice(len(sizes), size=max(int(left // sizes.min()), 0), p=weights / weights.sum())
    for workload in order.tolist():
        if left < sizes[workload]:
            break
        counts[workload] += 1
        left -= float(sizes[workload])
    return counts


def _stays(rng: np.random.Generator, replicas: Indices, setting: Setting) -> Iterator[_Stay]:
    """Replace every replica by another for the whole time. A roll-out replaces all of a workload."""
    duration = setting.steps * STEP
    rolled = rng.choice(len(replicas), size=setting.rollouts, p=replicas / replicas.sum())
    at = rng.uniform(0.2 * duration, duration, setting.rollouts)
    for workload, count in enumerate(replicas.tolist()):
        rollouts = sorted(at[rolled == workload].tolist())
        for _ in range(count):
            arrives = rng.uniform(0, _START)
            ends = arrives + rng.uniform(0, setting.life)  # at the start the pods have all ages
            while arrives < duration:
                rollout = next((start for start in rollouts if arrives < start < ends), None)
                if rollout is not None:
                    ends = max(rollout + rng.uniform(0, _BURST), arrives)
                yield _Stay(workload, arrives, ends - arrives)
                arrives = ends + _REPLACED_AFTER
                ends = arrives + _lifetime(rng, setting)


def _lifetime(rng: np.random.Generator, setting: Setting) -> float:
    """Draw the seconds for which a pod lives."""
    match setting.lifetimes:
        case "Uniform":
            return rng.uniform(0.5, 1.5) * setting.life
        case "Exponential":
            return max(rng.exponential(setting.life), _REPLACED_AFTER)
        case "Pareto":  # its least value is such that the mean is right
            return (rng.pareto(_LIFE_SHAPE) + 1) * setting.life * (_LIFE_SHAPE - 1) / _LIFE_SHAPE


def _assembled(
    title: str,
    machines: tuple[Machine, ...],
    workloads: tuple[SimulatedWorkload, ...],
    stays: Sequence[_Stay],
    shares: Loads,
    noise: float,
    rng: np.random.Generator,
) -> SimulatedWorld:
    """Build a world from its parts. `shares` has the share of its limit that each pod wants (P x T)."""
    workload = np.array([stay.workload for stay in stays], np.intp)
    limits = np.array([each.cpu_limit for each in workloads], np.float32)
    wanted = np.minimum(shares, 1)
    if noise:
        steady, fickle = _LASTING * noise, noise * (1 - _LASTING**2) ** 0.5
        factors = rng.normal(0, steady, (len(stays), 1)) + rng.normal(0, fickle, wanted.shape)
        wanted = np.minimum(wanted * np.exp(factors - noise**2 / 2), 1)
    memory = np.array([each.memory for each in workloads], np.float64)
    return SimulatedWorld(
        title=title,
        machines=machines,
        workloads=workloads,
        workload=workload,
        arrives=np.array([stay.arrives for stay in stays], np.float64),
        lives=np.array([stay.lives for stay in stays], np.float64),
        cpu=(wanted * limits[workload, None]).astype(np.float32),
        memory=_MEMORY_SHARE * memory[workload],
    )


def mean_level(world: SimulatedWorld) -> Floats:
    """Return the share of all cores that the pods want in each step if each starts as it arrives (T)."""
    starts = np.arange(world.steps) * STEP
    present = (world.arrives[:, None] <= starts) & (starts < (world.arrives + world.lives)[:, None])
    total: Floats = (world.cpu * present).sum(axis=0) / sum(each.cpu for each in world.machines)
    return total


def burst_world(nodes: int, replicas: int, *, at: float, steps: int, apart: bool = False) -> SimulatedWorld:
    """Return a world of equal nodes under equal load to which many pods come within 30 seconds.

    Each node has five pods of a Deployment that lasts. The new pods are the replicas of another one, or, with
    `apart`, each is a separate Deployment. Then only the nodes' levels show where they should go.
    """
    a_node, cores = 5, 16
    steady = SimulatedWorkload("steady", _CORE, _MEMORY_A_CORE, 2 * _CORE)
    surges = tuple(
        SimulatedWorkload(f"surge-{number:04}", _CORE // 4, _MEMORY_A_CORE // 8, _CORE)
        for number in range(replicas if apart else 1)
    )
    stays = [_Stay(0, float(number) * 0.1, inf) for number in range(nodes * a_node)]
    stays += [
        _Stay(1 + number % len(surges), at + _BURST * number / replicas, inf) for number in range(replicas)
    ]
    shares = np.full((len(stays), steps), 0.5, np.float32)
    machines = tuple(machine(f"node-{number:05}", cores) for number in range(nodes))
    return _assembled("burst", machines, (steady, *surges), stays, shares, 0.0, np.random.default_rng(0))
