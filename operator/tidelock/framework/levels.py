"""What plugins that go by measured use have in common."""

from collections.abc import Iterable

import numpy as np

from tidelock.cluster.levels import RESOURCES, Figures
from tidelock.cluster.residents import Estimate, Residents, Rule
from tidelock.framework.api import MAX_NODE_SCORE, Handle
from tidelock.ledger.entry import Entry
from tidelock.model.levels import WORKLOAD_KINDS, WorkloadKey
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources, parse_resources
from tidelock.model.requests import ResourceRequirements, lasting_use
from tidelock.model.reservations import Owner


def packing_score(use: Figures, target: Figures | float) -> Figures:
    """Score use that rises to the target, then falls: 100 at the target, 0 where a node is full.

    With u and C in percent: (100 - C) * u / C + C up to C; C * (100 - u) / (100 - C) beyond it; 0 beyond 100.
    At C = 0 the first branch is its limit at u = C, at C = 100 the second one is never reached.
    """
    target = np.asarray(target, np.float64)
    rising = (MAX_NODE_SCORE - target) * use / np.where(target > 0, target, 1.0) + target
    rising = np.where(target > 0, rising, MAX_NODE_SCORE)
    room = MAX_NODE_SCORE - target
    falling = target * (MAX_NODE_SCORE - use) / np.where(room > 0, room, 1.0)
    return np.where(use <= target, rising, np.maximum(falling, 0.0))


def limit_else_request(pod: Pod) -> tuple[float, ...]:
    """Expect each container to use its limit, else its request; NaN where no container has either."""
    total = lasting_use(pod.spec, _limit_else_request)
    return tuple(float(total.get(name, 0)) or np.nan for name in RESOURCES)


def _limit_else_request(amounts: ResourceRequirements) -> Resources:
    return parse_resources({**amounts.requests, **amounts.limits})


def follow_residents(
    handle: Handle, *, estimate: Estimate, rule: Rule, history: bool = True, measured: bool = False
) -> Residents:
    """Keep what the pods of each node are expected to use, and the owners that locks stand for."""
    residents = Residents(
        handle.columns,
        handle.objects.replica_sets,
        handle.measurements,
        estimate=estimate,
        rule=rule,
        history=history,
        measured=measured,
    )

    def told(entry: Entry) -> None:
        pod = entry.reservation.pod
        if entry.held and pod is not None:
            owners = entry.reservation.spec.owners if entry.reservation.spec else ()
            residents.hold(pod, entry.node, _workload(entry.key.namespace, owners))
        else:
            residents.release(entry.uid)

    handle.cache.follow(residents)
    handle.book.on_hold(told)
    return residents


def _workload(namespace: str, owners: Iterable[Owner]) -> WorkloadKey | None:
    """Give the first workload that the owner terms of a lock name."""
    for owner in owners:
        controller = owner.controller
        if controller is None:
            continue
        group = controller.api_version.rpartition("/")[0]
        if WORKLOAD_KINDS.get(controller.kind) == group:
            return WorkloadKey(controller.kind, namespace, controller.name)
    return None
