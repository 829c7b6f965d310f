"""Finds the reservations that a pod owns.

The owner terms of a reservation are ORed, and the fields of a term ANDed. Only pods of the same namespace
count. Reservations are indexed by the name of a pod, controller or ProvisioningRequest, by one label or by
the ServiceAccount. Those that select by expressions only are compared one by one within a namespace.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from math import floor
from typing import NamedTuple

from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.owners import CONSUMED_REQUEST, ControllerOwner, Owner
from tidelock.model.api.reservation import ReservationSpec
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.selectors import Labelled

POD_TEMPLATE_HASH = "pod-template-hash"


def owns(spec: ReservationSpec, pod: Pod) -> bool:
    """Return whether any owner term matches the pod. Namespaces are not compared."""
    return any(_term_matches(term, pod) for term in spec.owners)


def owners_among(spec: ReservationSpec, pods: Collection[Pod]) -> set[str]:
    """Return the UIDs of all pods that any owner term matches. Namespaces are not compared.

    A namespace may have 10,000 pods, so each expression is compared with all of them in one pass.
    """
    found: set[str] = set()
    labelled: Labelled[str] = [(pod.meta.labels, pod.uid) for pod in pods]
    for term in spec.owners:
        left = labelled
        if term.model_fields_set - {"selector"}:
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


def fits_best(entry: ReservationInfo, pod: Pod) -> bool:
    """Return whether a pod takes an own reservation, or member of a group, because it fits best."""
    spec = entry.reservation.spec
    return spec is not None and _fits_best(spec, pod)


def _is_for_any(spec: ReservationSpec, pod: Pod) -> bool:
    return spec.group is None and _fits_best(spec, pod)


def _fits_best(spec: ReservationSpec, pod: Pod) -> bool:
    return spec.reuse != "Always" and not names(spec, pod)


def may_claim(entry: ReservationInfo, pod: Pod) -> bool:
    """Return whether a pod that matches the owners of a reservation can take it.

    A pod that is being deleted can't, because the reservation is for the next pod of its name. A pod that
    was bound before the reservation's window can't either. A reservation for any pod of a workload is not for
    a pod that was bound before its creation, or with a binding that does not name it.

    As an exception, a pod can take each reservation that its binding names, even if it is being deleted: an
    earlier process bound the pod, and could not record the end of the reservation.
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
    if term.provisioning_request is not None and term.provisioning_request.name != _consumed_request(pod):
        return False
    return term.service_account_name in (None, pod.spec.service_account_name)


def _consumed_request(pod: Pod) -> str:
    """Return the name of the ProvisioningRequest that a pod consumes, or an empty text."""
    return pod.meta.annotations.get(CONSUMED_REQUEST, "")


def _controls(owner: ControllerOwner, pod: Pod) -> bool:
    """Return whether the pod's controller is the named one, or a ReplicaSet of the named Deployment.

    A ReplicaSet is named after its Deployment and the hash that its pods have as a label.
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

_IndexKey = tuple[str, ...]
"""A namespace, and a property of pods: a name, a controller, a label or a ServiceAccount."""

# With more candidates than _FEW, the result of comparing them is cached for equal pods. The cache of a
# namespace has at most _MOST_CACHED kinds of pods.
_FEW = 64
_MOST_CACHED = 1024


class _SameOwners(NamedTuple):
    """Reservations with the same owners and the same sharing, and the keys under which they are indexed."""

    spec: ReservationSpec
    keys: dict[Key, None]
    index_keys: set[_IndexKey]


class OwnerIndex:
    """Finds the reservations of a pod without comparing all of its namespace.

    Reservations of a namespace with the same owners are compared once. In a namespace with many different
    owners the result is cached until these change: the gate of a pod asks for it four times, and the pods of
    a workload have the same result.
    """

    def __init__(self) -> None:
        self._owners: dict[Key, _Owners] = {}
        self._same_owners: dict[_Owners, _SameOwners] = {}
        self._by_key: defaultdict[_IndexKey, dict[_Owners, None]] = defaultdict(dict)
        self._cached: defaultdict[str, dict[object, list[_Owners]]] = defaultdict(dict)

    def put(self, key: Key, spec: ReservationSpec) -> None:
        """Add a reservation, or replace its owners."""
        shared = f"{spec.reuse} {spec.group is not None}"
        owners = (key.namespace, shared, *(term.model_dump_json(exclude_none=True) for term in spec.owners))
        if self._owners.get(key) == owners:
            return
        self.discard(key)
        self._owners[key] = owners
        if owners not in self._same_owners:
            self._cached.pop(key.namespace, None)
            index_keys = {self._emptiest(key.namespace, term) for term in spec.owners}
            self._same_owners[owners] = _SameOwners(spec, {}, index_keys)
            for index_key in index_keys:
                self._by_key[index_key][owners] = None
        self._same_owners[owners].keys[key] = None

    def discard(self, key: Key) -> None:
        """Remove a reservation, if it is there."""
        owners = self._owners.pop(key, None)
        if owners is None:
            return
        same = self._same_owners[owners]
        del same.keys[key]
        if same.keys:
            return
        del self._same_owners[owners]
        self._cached.pop(key.namespace, None)
        for index_key in same.index_keys:
            del self._by_key[index_key][owners]
            if not self._by_key[index_key]:
                del self._by_key[index_key]

    def _emptiest(self, namespace: str, term: Owner) -> _IndexKey:
        """Return the key of a term with the fewest entries: many workloads may share one of its labels."""
        index_keys = [(namespace, *pod_property) for pod_property in _required_by(term)]
        return min(index_keys, key=lambda index_key: len(self._by_key.get(index_key, ())))

    def of(self, pod: Pod, *, special_only: bool = False) -> list[Key]:
        """Return the keys of the pod's own reservations, sorted. `special_only` omits those for workloads."""
        if not special_only:
            return sorted(key for owners in self._matching(pod) for key in self._same_owners[owners].keys)
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
        by_name: dict[_Owners, None] = {}
        others: dict[_Owners, None] = {}
        for pod_property in _properties_of(pod):
            found = self._by_key.get((pod.meta.namespace, *pod_property), {})
            if pod_property[:1] == ("pod",):
                by_name = found
            else:
                others |= found
        matching = dict.fromkeys(owners for owners in by_name if owns(self._same_owners[owners].spec, pod))
        if len(others) <= _FEW:
            return matching | dict.fromkeys(each for each in others if self._is_unnamed_owner(each, pod))
        cached, kind = self._cached[pod.meta.namespace], _kind_of(pod)
        if kind not in cached:
            if len(cached) >= _MOST_CACHED:
                cached.clear()
            cached[kind] = [owners for owners in others if self._is_unnamed_owner(owners, pod)]
        return matching | dict.fromkeys(cached[kind])

    def _is_unnamed_owner(self, owners: _Owners, pod: Pod) -> bool:
        terms = self._same_owners[owners].spec.owners
        return any(term.pod is None and _term_matches(term, pod) for term in terms)

    def _candidates(self, pod: Pod) -> list[_SameOwners]:
        if not self._owners:
            return []
        candidates: dict[_Owners, None] = {}
        for pod_property in _properties_of(pod):
            candidates |= self._by_key.get((pod.meta.namespace, *pod_property), {})
        return [self._same_owners[owners] for owners in candidates]


def _kind_of(pod: Pod) -> object:
    """Return the fields of a pod that terms without a pod's name compare, apart from the namespace."""
    controller = pod.meta.controller
    identity = controller and (controller.api_version, controller.kind, controller.name)
    return frozenset(pod.meta.labels.items()), identity, pod.spec.service_account_name, _consumed_request(pod)


def _required_by(term: Owner) -> list[tuple[str, ...]]:
    """Return the properties that each pod has which matches a term. The term is indexed by one of them."""
    if term.pod is not None:
        return [("pod", term.pod.name)]
    if term.controller is not None:
        return [("controller", term.controller.name)]
    if term.provisioning_request is not None:
        return [("request", term.provisioning_request.name)]
    labels = (term.selector.match_labels if term.selector else None) or {}
    if labels:
        return [("label", *item) for item in sorted(labels.items())]
    if term.service_account_name is not None:
        return [("account", term.service_account_name)]
    return [()]


def _properties_of(pod: Pod) -> Iterator[tuple[str, ...]]:
    """Yield the properties of a pod by which the terms that match it may be indexed."""
    yield ()
    yield ("pod", pod.meta.name)
    if pod.meta.controller is not None:
        name = pod.meta.controller.name
        yield ("controller", name)
        yield ("controller", name.removesuffix(f"-{pod.meta.labels.get(POD_TEMPLATE_HASH, '')}"))
    if _consumed_request(pod):
        yield ("request", _consumed_request(pod))
    if pod.spec.service_account_name:
        yield ("account", pod.spec.service_account_name)
    for item in pod.meta.labels.items():
        yield ("label", *item)
