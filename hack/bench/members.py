"""Member clusters of a manager on a virtual clock, each with the real scheduler but without an API server."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from tidelock.cluster.columns import NO_ROW
from tidelock.framework.config import default_configuration
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import Pod, assigned_to, decode_pod
from tidelock.model.reservation import Reservation, decode_reservation
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.driver import due_steps
from tidelock.scheduler.scheduler_core import assemble_core
from tidelock.simulation.cluster import GPU, NAMESPACE, SCHEDULER, VirtualClock, node_of
from tidelock.simulation.world import Machine

Amounts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Job:
    """A wanted pod: its millicores, bytes and whole GPUs, and its seconds of life after the binding."""

    name: str
    cpu: int
    memory: int
    gpus: int
    life: float

    @property
    def resources(self) -> dict[str, str]:
        """The requests, in the API's format."""
        return {"cpu": f"{self.cpu}m", "memory": str(self.memory), GPU: str(self.gpus)}


class Member:
    """A cluster and its scheduler, which gets pods and reservations as from watches.

    Attributes:
        gpus: GPUs of all nodes.
        bound: GPUs of bound pods.
        gpu: column of GPUs in `free` and `needs`.

    """

    def __init__(
        self, machines: Sequence[Machine], clock: VirtualClock, on_bound: Callable[[Job], None]
    ) -> None:
        """Create the nodes. `on_bound` is called with each job when its pod gets a node."""
        self.gpus = sum(machine.gpus for machine in machines)
        self.bound = 0
        self._clock = clock
        self._on_bound = on_bound
        core = assemble_core(default_configuration(SCHEDULER, BUILTINS), clock)
        self._decider, self._event_handlers = core.decider, core.event_handlers
        self._jobs: dict[str, Job] = {}
        self._pods: dict[str, Pod] = {}
        self._reservations: dict[str, Reservation] = {}
        for machine in machines:
            self._event_handlers.nodes.upsert(None, node_of(machine))
        core.all_listed()
        self.gpu = core.decider.columns.column_of.get(GPU, NO_ROW)

    def create(self, job: Job) -> None:
        """Create a job's pod."""
        pod = _pod(job)
        self._jobs[job.name], self._pods[job.name] = job, pod
        self._event_handlers.pods.upsert(None, pod)

    def delete(self, job: Job) -> None:
        """Delete a job's pod, bound or not."""
        pod = self._pods.pop(job.name)
        del self._jobs[job.name]
        self._event_handlers.pods.remove(pod)
        self.bound -= job.gpus if pod.spec.node_name else 0

    def reservation(self, job: Job, seconds: int) -> bool:
        """Create a reservation for a job's pod, and return whether it is Active. If not, it is deleted."""
        reservation = self._reservations[job.name] = _reservation(job, seconds)
        self._event_handlers.reservations.upsert(None, reservation)
        self.decide()
        if self._phase(job) is Phase.ACTIVE:
            return True
        self._forget(job.name)
        return False

    def decide(self) -> None:
        """Run all steps that are due now."""
        for step in due_steps(self._decider, self._clock.now):
            if isinstance(step.outcome, AssumedPod):
                self._bind(step.outcome)

    def next_due(self) -> float | None:
        """Return the second of the simulation at which the next step is due without any event."""
        due = self._decider.next_due()
        return None if due is None else due - self._clock.now() + self._clock.elapsed

    def free(self) -> Amounts:
        """Return the free amounts beside pods and reservations: nodes x resources, as in `needs`."""
        columns = self._decider.columns
        count = len(columns)
        taken = columns.requested[:count] + columns.reserved[:count]
        free: Amounts = columns.allocatable[:count] - taken
        return free

    def needs(self, job: Job) -> Amounts:
        """Return a job's request for each resource."""
        return self._decider.columns.vector(_pod(job).requests)

    @property
    def held(self) -> int:
        """GPUs that reservations hold."""
        return int(self._decider.columns.reserved[:, self.gpu].sum())

    def _bind(self, assumed: AssumedPod) -> None:
        name = assumed.pod.meta.name
        old, job = self._pods[name], self._jobs[name]
        new = self._pods[name] = assigned_to(old, assumed.node_name)
        self._decider.bound(assumed, self._clock.now())
        self._event_handlers.pods.upsert(old, new)
        self._forget(name)
        self.bound += job.gpus
        self._on_bound(job)

    def _phase(self, job: Job) -> Phase | None:
        entry = self._decider.ledger.entries.get(Key(NAMESPACE, job.name))
        return None if entry is None else entry.phase

    def _forget(self, name: str) -> None:
        reservation = self._reservations.pop(name, None)
        if reservation is not None:
            self._event_handlers.reservations.remove(reservation)


def _pod(job: Job) -> Pod:
    body = {
        "metadata": {"name": job.name, "namespace": NAMESPACE, "uid": job.name},
        "spec": {
            "schedulerName": SCHEDULER,
            "containers": [{"name": "main", "resources": {"requests": job.resources}}],
        },
    }
    return decode_pod(msgspec.json.encode(body))


def _reservation(job: Job, seconds: int) -> Reservation:
    body = {
        "metadata": {"name": job.name, "namespace": NAMESPACE, "uid": f"lock-{job.name}", "generation": 1},
        "spec": {
            "resources": job.resources,
            "owners": [{"pod": {"name": job.name}}],
            "ttlSeconds": seconds,
        },
    }
    return decode_reservation(msgspec.json.encode(body))
