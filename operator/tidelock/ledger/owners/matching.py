"""Finds the reservations of which a pod is an owner.

The owner terms of a reservation are ORed, and the fields of a term ANDed. Only pods of the same namespace
count. Reservations are indexed by the name of a pod or controller, by one label or by the ServiceAccount.
Those that select by expressions only are compared one by one within a namespace.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from math import floor
from typing import NamedTuple

from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.owners import ControllerOwner, Owner
from tidelock.model.api.reservation import ReservationSpec
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.selectors import Labelled

POD_TEMPLATE_HASH = "pod-template-hash"


def owns(spec: ReservationSpec, pod: Pod) -> bool:
    """Return whether any owner term matches the pod, whatever its namespace."""
    return any(_term_matches(term, pod) for term in spec.owners)


def owners_among(spec: ReservationSpec, pods: Collection[Pod]) -> set[str]:
    """Return the uids of all pods that any owner term matches, namespaces aside.

    A namespace may have 10,000 pods, so each expression is compared with all of them in one pass.
    """
    found: set[str] = set()
    everyone: Labelled[str] = [(pod.meta.labels, pod.uid) for pod in pods]
    for term in spec.owners:
        left = everyone
        if term.pod is not None or term.controller is not None or term.service_account_name is not None:
            left = [(pod.meta.labels, pod.uid) for pod in pods if _matches_besides_labels(term, pod)]
        if term.selector is not None:
            left = term.selector.read.select(left)
        found.update(uid for _, uid in left)
    return found


def is_owner(pod: Pod, key: Key, spec: ReservationSpec | None) -> bool:
    """Return whether a pod is an owner of a reservation. Without a readable spec there are no owners."""
    return spec is not None and key.namespace == pod.meta.namespace and owns(spec, pod)


def names(spec: ReservationSpec | None, pod: Pod) -> bool:
    """Return whether a matching owner term names the pod, so the reservation is for no other pod."""
    return spec is not None and any(term.pod is not None and _term_matches(term, pod) for term in spec.owners)


def is_for_any(entry: ReservationInfo, pod: Pod) -> bool:
    """Return whether an own reservation of a pod is for any pod of its workload.

    Of such reservations a pod takes the best fit on its node. Members of groups and reusable reservations
    have rules of their own.
    """
    spec = entry.reservation.spec
    return spec is not None and _is_for_any(spec, pod)


def _is_for_any(spec: ReservationSpec, pod: Pod) -> bool:
    return spec.group is None and spec.reuse != "Always" and not names(spec, pod)


def may_claim(entry: ReservationInfo, pod: Pod) -> bool:
    """Return whether a pod that matches the owners of a reservation can take it.

    A pod that is being deleted can't: the reservation is for the next pod of its name. The exception is a
    binding that names this reservation, which a former operator could not record. A pod that was bound
    before the reservation's window can't take it either. A reservation for any pod of a workload is not for
    a pod that was bound before its creation, or with a binding that does not name it.
    """
    if entry.ahead:
        return False
    claimed = pod.claimed_reservations
    if claimed is not None and entry.uid in claimed:
        return True
    if pod.node_name:
        begun, made = entry.reservation.start_at, entry.reservation.meta.created
        if begun is not None and pod.bound_at < floor(begun):  # creation times are whole seconds
            return False
        if (claimed is not None or pod.bound_at < floor(made)) and is_for_any(entry, pod):
            return False
    return not pod.leaving


def owner_names(key: Key, spec: ReservationSpec | None) -> list[Key] | None:
    """Return the pods that the owner terms name, or None if a term names no pod."""
    terms = spec.owners if spec is not None else []
    names = [Key(key.namespace, term.pod.name) for term in terms if term.pod is not None]
    return names if spec is not None and len(names) == len(terms) else None


def _term_matches(term: Owner, pod: Pod) -> bool:
    return _matches_besides_labels(term, pod) and (
        term.selector is None or term.selector.read.matches(pod.meta.labels)
    )


def _matches_besides_labels(term: Owner, pod: Pod) -> bool:
    if term.pod is not None and term.pod.name != pod.meta.name:
        return False
    if term.controller is not None and not _controls(term.controller, pod):
        return False
    return term.service_account_name in (None, pod.spec.service_account_name)


def _controls(owner: ControllerOwner, pod: Pod) -> bool:
    """Return whether the pod's controller is the named one, or a ReplicaSet of the named Deployment.

    The name of a ReplicaSet is that of its Deployment with the hash that its pods have as a label.
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


_Owners = tuple[str, ...]
"""A namespace, and the owner terms of reservations in it as text."""

_Place = tuple[str, ...]
"""A namespace, and something that pods there may have."""

# With more candidates than that, the result of comparing them is kept for equal pods; of a namespace
# for so many kinds of pods.
_FEW = 64
_MOST_KEPT = 1024


class _Alike(NamedTuple):
    """Locks of the same owners that are shared alike, and the places where they are found."""

    spec: ReservationSpec
    keys: dict[Key, None]
    places: set[_Place]


class OwnerIndex:
    """Finds the reservations of a pod without comparing all of its namespace.

    Reservations of a namespace with the same owners are compared once. In a namespace with many of them the
    result is cached until one comes or goes: a pod's gate asks for it four times, and the pods of a workload
    have the same result.
    """

    def __init__(self) -> None:
        self._owners: dict[Key, _Owners] = {}
        self._alike: dict[_Owners, _Alike] = {}
        self._places: defaultdict[_Place, dict[_Owners, None]] = defaultdict(dict)
        self._kept: defaultdict[str, dict[object, list[_Owners]]] = defaultdict(dict)

    def put(self, key: Key, spec: ReservationSpec) -> None:
        """Add a reservation, or replace its owners."""
        shared = f"{spec.reuse} {spec.group is not None}"
        owners = (key.namespace, shared, *(term.model_dump_json(exclude_none=True) for term in spec.owners))
        if self._owners.get(key) == owners:
            return
        self.discard(key)
        self._owners[key] = owners
        if owners not in self._alike:
            self._kept.pop(key.namespace, None)
            places = {self._emptiest(key.namespace, term) for term in spec.owners}
            self._alike[owners] = _Alike(spec, {}, places)
            for place in places:
                self._places[place][owners] = None
        self._alike[owners].keys[key] = None

    def discard(self, key: Key) -> None:
        """Remove a reservation, if it is there."""
        owners = self._owners.pop(key, None)
        if owners is None:
            return
        alike = self._alike[owners]
        del alike.keys[key]
        if alike.keys:
            return
        del self._alike[owners]
        self._kept.pop(key.namespace, None)
        for place in alike.places:
            del self._places[place][owners]
            if not self._places[place]:
                del self._places[place]

    def _emptiest(self, namespace: str, term: Owner) -> _Place:
        """Choose where a term is kept: a thousand workloads may share one label, and differ in another."""
        places = [(namespace, *place) for place in _places_for(term)]
        return min(places, key=lambda place: len(self._places.get(place, ())))

    def of(self, pod: Pod, *, special_only: bool = False) -> list[Key]:
        """Return the keys of the pod's own reservations, sorted. `special_only` omits those for workloads."""
        if not special_only:
            return sorted(key for owners in self._matching(pod) for key in self._alike[owners].keys)
        return sorted(
            key
            for spec, keys, _ in self._candidates(pod)
            if not _is_for_any(spec, pod) and owns(spec, pod)
            for key in keys
        )

    def for_any(self, pod: Pod) -> Iterator[Iterable[Key]]:
        """Yield the keys of own reservations for any pod of the workload, by owners."""
        return (keys for spec, keys, _ in self._candidates(pod) if _is_for_any(spec, pod) and owns(spec, pod))

    def _matching(self, pod: Pod) -> dict[_Owners, None]:
        """Return the owner terms that match a pod: by its name, and by the fields that equal pods share."""
        if not self._owners:
            return {}
        named: dict[_Owners, None] = {}
        alike: dict[_Owners, None] = {}
        for place in _places_of(pod):
            found = self._places.get((pod.meta.namespace, *place), {})
            if place[:1] == ("pod",):
                named = found
            else:
                alike |= found
        matching = dict.fromkeys(owners for owners in named if owns(self._alike[owners].spec, pod))
        if len(alike) <= _FEW:
            return matching | dict.fromkeys(owners for owners in alike if self._is_unnamed_owner(owners, pod))
        kept, kind = self._kept[pod.meta.namespace], _kind_of(pod)
        if kind not in kept:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            kept[kind] = [owners for owners in alike if self._is_unnamed_owner(owners, pod)]
        return matching | dict.fromkeys(kept[kind])

    def _is_unnamed_owner(self, owners: _Owners, pod: Pod) -> bool:
        terms = self._alike[owners].spec.owners
        return any(term.pod is None and _term_matches(term, pod) for term in terms)

    def _candidates(self, pod: Pod) -> list[_Alike]:
        if not self._owners:
            return []
        candidates: dict[_Owners, None] = {}
        for place in _places_of(pod):
            candidates |= self._places.get((pod.meta.namespace, *place), {})
        return [self._alike[owners] for owners in candidates]


def _kind_of(pod: Pod) -> object:
    """Return all that terms without a pod's name look at, other than its namespace."""
    controller = pod.meta.controller
    identity = controller and (controller.api_version, controller.kind, controller.name)
    return frozenset(pod.meta.labels.items()), identity, pod.spec.service_account_name


def _places_for(term: Owner) -> list[tuple[str, ...]]:
    """Return the key under which a term is indexed: a property of each pod that matches it."""
    if term.pod is not None:
        return [("pod", term.pod.name)]
    if term.controller is not None:
        return [("controller", term.controller.name)]
    labels = (term.selector.match_labels if term.selector else None) or {}
    if labels:
        return [("label", *item) for item in sorted(labels.items())]
    if term.service_account_name is not None:
        return [("account", term.service_account_name)]
    return [()]


def _places_of(pod: Pod) -> Iterator[tuple[str, ...]]:
    """Yield the keys under which terms that match a pod may be indexed."""
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
