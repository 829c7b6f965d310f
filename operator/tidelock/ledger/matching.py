"""Which locks are a pod's own.

The owner terms of a lock are ORed, the fields of a term ANDed, and only pods of the lock's own namespace
count. Locks are found by the name of a pod or controller, by one label or by the ServiceAccount; those that
select by expressions alone are tried one by one, a namespace at a time.
"""

from collections import defaultdict
from collections.abc import Iterator
from math import floor

from tidelock.ledger.entry import Entry
from tidelock.model import reservations as wire
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.reservations import ControllerOwner, Owner, ReservationSpec
from tidelock.model.selectors import LabelSelector, Requirement

POD_TEMPLATE_HASH = "pod-template-hash"


def owns(spec: ReservationSpec, pod: Pod) -> bool:
    """Whether any owner term matches the pod, namespaces aside."""
    return any(_term_matches(term, pod) for term in spec.owners)


def is_owner(pod: Pod, key: Key, spec: ReservationSpec | None) -> bool:
    """Whether a pod is an owner of the lock of this name; nobody is, if its spec is lost."""
    return spec is not None and key.namespace == pod.meta.namespace and owns(spec, pod)


def may_claim(entry: Entry, pod: Pod) -> bool:
    """Whether a pod that matches the owners of a lock can take it.

    One that is leaving has had its day, and the lock is for the next of its name; unless its binding says
    that it took this very lock, as when the operator ended before it could tell. One that was bound before
    the lock's window is of an earlier day, too.
    """
    if entry.ahead:
        return False
    if entry.uid in pod.claimed_locks:
        return True
    begun = entry.reservation.start_at
    if begun is not None and pod.node_name and pod.bound_at < floor(begun):  # it is told in whole seconds
        return False
    return not pod.leaving


def owner_names(key: Key, spec: ReservationSpec | None) -> list[Key] | None:
    """List the pods that a lock's owner terms name; None if not all of them name one."""
    terms = spec.owners if spec is not None else []
    names = [Key(key.namespace, term.pod.name) for term in terms if term.pod is not None]
    return names if spec is not None and len(names) == len(terms) else None


def _term_matches(term: Owner, pod: Pod) -> bool:
    if term.pod is not None and term.pod.name != pod.meta.name:
        return False
    if term.controller is not None and not _controls(term.controller, pod):
        return False
    if term.service_account_name is not None and term.service_account_name != pod.spec.service_account_name:
        return False
    return term.selector is None or _selects(term.selector, pod)


def _controls(owner: ControllerOwner, pod: Pod) -> bool:
    """Whether the pod's controller is the one named, or a ReplicaSet that this Deployment made.

    A Deployment names its ReplicaSets after itself and the hash that their pods carry as a label, so the
    pod alone tells.
    """
    controller = pod.meta.controller
    if controller is None:
        return False
    if (controller.api_version, controller.kind, controller.name) == (
        owner.api_version,
        owner.kind,
        owner.name,
    ):
        return True
    made = f"{owner.name}-{pod.meta.labels.get(POD_TEMPLATE_HASH, '')}"
    return (owner.kind, controller.kind) == ("Deployment", "ReplicaSet") and (
        controller.api_version,
        controller.name,
    ) == (owner.api_version, made)


def _selects(selector: wire.LabelSelector, pod: Pod) -> bool:
    expressions = tuple(
        Requirement(e.key, e.operator, tuple(e.values or ())) for e in selector.match_expressions or ()
    )
    return LabelSelector(selector.match_labels or {}, expressions).matches(pod.meta.labels)


class OwnerIndex:
    """Finds the locks whose owner a pod is, without trying all locks of its namespace."""

    def __init__(self) -> None:
        self._specs: dict[Key, ReservationSpec] = {}
        self._places: defaultdict[tuple[str, ...], dict[Key, None]] = defaultdict(dict)

    def put(self, key: Key, spec: ReservationSpec) -> None:
        """Add a lock, or replace its owners."""
        earlier = self._specs.get(key)
        if earlier is not None:
            if earlier.owners == spec.owners:
                return
            self.discard(key)
        self._specs[key] = spec
        for term in spec.owners:
            self._places[key.namespace, *_place(term)][key] = None

    def discard(self, key: Key) -> None:
        """Drop a lock; one that is not there is ignored."""
        spec = self._specs.pop(key, None)
        if spec is None:
            return
        for place in {(key.namespace, *_place(term)) for term in spec.owners}:
            del self._places[place][key]
            if not self._places[place]:
                del self._places[place]

    def of(self, pod: Pod) -> list[Key]:
        """Keys of the pod's own locks, sorted."""
        if not self._specs:
            return []
        candidates: dict[Key, None] = {}
        for place in _places_of(pod):
            candidates |= self._places.get((pod.meta.namespace, *place), {})
        return sorted(key for key in candidates if owns(self._specs[key], pod))


def _place(term: Owner) -> tuple[str, ...]:
    """Say where in a namespace a term is kept: by something that each pod which matches it has."""
    if term.pod is not None:
        return ("pod", term.pod.name)
    if term.controller is not None:
        return ("controller", term.controller.name)
    labels = (term.selector.match_labels if term.selector else None) or {}
    if labels:
        return ("label", *min(labels.items()))
    return ("account", term.service_account_name) if term.service_account_name is not None else ()


def _places_of(pod: Pod) -> Iterator[tuple[str, ...]]:
    """Say where the terms that match a pod may be kept."""
    yield ()
    yield ("pod", pod.meta.name)
    if pod.meta.controller is not None:
        name = pod.meta.controller.name
        yield ("controller", name)
        yield ("controller", name.removesuffix(f"-{pod.meta.labels.get(POD_TEMPLATE_HASH, '')}"))
    if pod.spec.service_account_name:
        yield ("account", pod.spec.service_account_name)
    for item in pod.meta.labels.items():
        yield ("label", *item)
