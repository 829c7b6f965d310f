"""An API server in memory: objects with versions and generations, watches, refusals and real outcomes.

It has the rules on which the ledger relies:

- A write with an old version or another UID is refused.
- A pod is bound once, and an eviction uses one of the disruptions that its budget allows.
- The sharing, set and commit of a reservation are fixed, except for a token that is not the stored one.
- Its owners and nodeName are fixed while its stored status says that it is held.
- Its whole spec is fixed once it has ended.
- The name of a new Reservation is free, and its answer is of the present leadership. No later write adds or
  changes an answer.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from builders import Json, encode
from property.creations import Creation, answer_in
from tidelock.kube.watch import EventHandler, HasMeta
from tidelock.ledger.owners.matching import owns
from tidelock.model.answer import SIGNATURE
from tidelock.model.budgets import PodDisruptionBudget
from tidelock.model.instants import format_instant, parse_instant
from tidelock.model.meta import Key
from tidelock.model.nodes import Node, decode_node
from tidelock.model.pods import Pod, claims_annotation, decode_pod
from tidelock.model.quotas import ReservationQuota, decode_reservation_quota
from tidelock.model.reservation import Reservation, decode_reservation

T = TypeVar("T", bound=HasMeta)

_BUDGETS = msgspec.json.Decoder(PodDisruptionBudget)

_HELD = ("Active", "Bound")
_FINAL = ("Consumed", "Expired", "Lost")


class RefusedError(Exception):
    """A refusal of a request by the server."""


class Collection(Generic[T]):
    """One resource: its objects as JSON and decoded, and their history for watches.

    `versions` has the versions of each UID. `history` has None for a deletion.
    """

    def __init__(self, decode: Callable[[bytes], T]) -> None:
        self.objects: dict[Key, Json] = {}
        self.decoded: dict[Key, T] = {}
        self.versions: defaultdict[str, list[T]] = defaultdict(list)
        self.history: list[tuple[Key, T | None]] = []
        self._decode = decode

    def get(self, key: Key, uid: str) -> Json:
        stored = self.objects.get(key)
        if stored is None or stored["metadata"]["uid"] != uid:
            raise RefusedError(f"no {key} with uid {uid}")
        return stored

    def put(self, changed: Json) -> T:
        """Store an object under the next version."""
        changed["metadata"] = changed["metadata"] | {"resourceVersion": str(len(self.history) + 1)}
        key = key_of(changed)
        self.objects[key] = changed
        self.decoded[key] = decoded = self._decode(encode(changed))
        self.versions[decoded.meta.uid].append(decoded)
        self.history.append((key, decoded))
        return decoded

    def change(self, key: Key, part: str, **fields: Any) -> T:
        """Change fields of a part of an object."""
        stored = self.objects[key]
        return self.put(stored | {part: stored[part] | fields})

    def delete(self, key: Key) -> None:
        del self.objects[key], self.decoded[key]
        self.history.append((key, None))


class ModelApi:
    """The resources, and the writes to them.

    Attributes:
        owned: UIDs of the reservations that have had an owner since their creation, bound and not leaving.
            Every version of the spec and of the pod counts.
        leadership: number of the present leadership, as the Lease has it.
        creations: requests under way that create Reservations.
        answered: creations with an answer, by the UIDs of their objects.
        calm: whether nothing is slow.

    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.nodes: Collection[Node] = Collection(decode_node)
        self.pods: Collection[Pod] = Collection(decode_pod)
        self.reservations: Collection[Reservation] = Collection(decode_reservation)
        self.quotas: Collection[ReservationQuota] = Collection(decode_reservation_quota)
        self.budgets: Collection[PodDisruptionBudget] = Collection(_BUDGETS.decode)
        self.owned: set[str] = set()
        self.leadership = 0
        self.creations: list[Creation] = []
        self.answered: dict[str, Creation] = {}
        self.calm = False

    def elect(self) -> int:
        """Begin another leadership, and return its number. The former leader answers no more."""
        self.leadership += 1
        for creation in self.creations:
            creation.passed |= bool(creation.nonce)
        return self.leadership

    def may_finish(self, creation: Creation) -> bool:
        """Return whether all admission plugins have answered, or the time for the request is over."""
        return creation.passed and (self.calm or not creation.slow or self.now() >= creation.over)

    def finish(self, creation: Creation) -> None:
        """Store a new Reservation, or refuse it."""
        self.creations.remove(creation)
        refused = creation.fate != "stored" or self.now() >= creation.over
        if not (refused or creation.key in self.reservations.objects or self._is_of_the_past(creation.plain)):
            self.reservations.put(creation.plain)
            self.note_owned()

    def _is_of_the_past(self, plain: Json) -> bool:
        """Return whether the policy tidelock-answers refuses the answer in a new object."""
        found = re.fullmatch("([0-9]{1,9})[.][0-9a-f]{64}", answer_in(plain).get(SIGNATURE, ""))
        return bool(answer_in(plain)) and (found is None or int(found[1]) < self.leadership)

    def annotate(self, key: Key, annotations: dict[str, str]) -> None:
        """Replace the annotations of a Reservation, except that no answer can be added or changed."""
        stored = self.reservations.objects[key]
        before, after = answer_in(stored), answer_in({"metadata": {"annotations": annotations}})
        if not after.items() <= before.items():
            raise RefusedError(f"the answer of {key} is not the operator's")
        self.reservations.change(key, "metadata", annotations=annotations)

    def bind(self, key: Key, uid: str, node_name: str, claims: Sequence[str] | None = None) -> None:
        """Bind a pod as its subresource does: once, and not while the pod is being deleted."""
        pod = self.pods.get(key, uid)
        if pod["spec"]["nodeName"] or "deletionTimestamp" in pod["metadata"]:
            raise RefusedError(f"{key} can't be bound any more")
        if claims is not None:
            pod["metadata"] |= {"annotations": pod["metadata"]["annotations"] | claims_annotation(claims)}
        at = format_instant(int(self.now()))  # metav1.Time has whole seconds
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        self.pods.change(key, "status", conditions=[scheduled])
        self.pods.change(key, "spec", nodeName=node_name)
        self.note_owned()

    def write_claims(self, key: Key, uid: str, claims: Sequence[str]) -> None:
        """Annotate a pod with the reservations that it took, if another binder has bound it without them."""
        pod = self.pods.get(key, uid)
        known = self.pods.decoded[key]
        if not known.node_name or known.leaving or known.claimed_reservations is not None:
            raise RefusedError(f"{key} has changed")
        annotations = pod["metadata"]["annotations"] | claims_annotation(claims)
        self.pods.change(key, "metadata", annotations=annotations)

    def end_pod(self, key: Key, now: float) -> None:
        """Delete a pod, or mark one that runs as leaving, which a second call ends as its kubelet does."""
        pod = self.pods.objects[key]
        if pod["spec"]["nodeName"] and "deletionTimestamp" not in pod["metadata"]:
            self.pods.change(key, "metadata", deletionTimestamp=format_instant(now))
        else:
            self.pods.delete(key)

    def evict(self, key: Key, uid: str) -> None:
        """Evict a pod as the Eviction API does, if the budget that selects it allows a disruption."""
        self.pods.get(key, uid)
        asked = [name for name, each in self.budgets.decoded.items() if each.selects(self.pods.decoded[key])]
        for name in asked:
            left = self.budgets.decoded[name].left
            if not left or len(asked) > 1:
                raise RefusedError(f"{key} is guarded by {name}")
            self.budgets.change(name, "status", disruptionsAllowed=left - 1)
        self.end_pod(key, self.now())

    def nominate(self, key: Key, uid: str, node_name: str) -> None:
        self.pods.get(key, uid)
        self.pods.change(key, "status", nominatedNodeName=node_name)

    def edit_spec(self, key: Key, **changes: object) -> None:
        """Change a Reservation's spec by the rules of its CRD, where None removes a field."""
        edited = self.reservations.objects[key]
        before, phase = edited["spec"], edited["status"].get("phase")
        after = {name: value for name, value in (before | changes).items() if value is not None}
        fixed = ("owners", "nodeName") if phase in _HELD else tuple(after | before) if phase in _FINAL else ()
        fixed = tuple(after | before) if "group" in before else fixed
        said, says = before.get("commit", {}), after.get("commit", {})
        if said.get("withinSeconds") != says.get("withinSeconds"):
            raise RefusedError(f"{key} has another time to commit")
        token = said.get("token")
        if token is not None and token != says.get("token") and token == _token(edited):
            raise RefusedError(f"{key} is committed")
        if "runSeconds" in before | after:
            fixed = (*fixed, "runSeconds", "ttlSeconds", "expireAt")
        fixed = (*fixed, "reuse", "borrowable", "startAt", "anyOf")
        if any(before.get(name) != after.get(name) for name in fixed):
            raise RefusedError(f"{key} is {phase}")
        if after.get("borrowable") and "runSeconds" in after:
            raise RefusedError(f"{key} is borrowable")
        if ends_before_it_begins(after):
            raise RefusedError(f"{key} would end before it begins")
        if "mayMove" in after and (
            after["preemptionPolicy"] != "Never" or not after["pendingDeadlineSeconds"]
        ):
            raise RefusedError(f"{key} may not have pods be moved")
        at_once = after["preemptionPolicy"] != "Never" or (after.get("mayMove") or {}).get("automatically")
        if "commit" in after and at_once:
            raise RefusedError(f"{key} would evict when it is prepared")
        if after != before:
            generation = edited["metadata"]["generation"] + 1
            self.reservations.put(
                edited | {"metadata": edited["metadata"] | {"generation": generation}, "spec": after}
            )
            self.note_owned()

    def write_status(self, key: Key, uid: str, version: str, status: Json) -> Reservation:
        """Replace a status, unless the object has changed since that version."""
        edited = self.reservations.get(key, uid)
        if edited["metadata"]["resourceVersion"] != version:
            raise RefusedError(f"{key} has changed")
        return self.reservations.put(edited | {"status": json.loads(json.dumps(status))})

    def delete_reservation(self, key: Key, uid: str, version: str) -> None:
        if self.reservations.get(key, uid)["metadata"]["resourceVersion"] != version:
            raise RefusedError(f"{key} has changed")
        self.reservations.delete(key)

    def note_owned(self) -> None:
        """Note the reservations that have a bound owner."""
        bound = [pod for pod in self.pods.decoded.values() if pod.node_name and not pod.leaving]
        pods = [version for pod in bound for version in self.pods.versions[pod.uid]]
        for reservation in self.reservations.decoded.values():
            specs = (
                version.spec for version in self.reservations.versions[reservation.meta.uid] if version.spec
            )
            if any(owns(spec, pod) for spec in specs for pod in pods):
                self.owned.add(reservation.meta.uid)


class Reflection(Generic[T]):
    """A reflector of one resource, which delivers one event or one listed object at a time.

    The events of one resource keep their order, and between resources any order is possible. An interrupted
    list starts again. Objects that vanished are noticed only at the end of a whole list.
    """

    def __init__(self, collection: Collection[T], sink: EventHandler[T]) -> None:
        self._collection = collection
        self._sink = sink
        self._store: dict[Key, T] = {}
        self._position = 0
        self._listing: Iterator[None] | None = None
        self._last: tuple[T | None, T] | None = None
        self.relist()

    @property
    def behind(self) -> bool:
        """Whether there is anything left to deliver."""
        return self._listing is not None or self._position < len(self._collection.history)

    def relist(self) -> None:
        """Lose all undelivered events, and list from the start instead."""
        self._position = len(self._collection.history)
        self._listing = self._list(dict(self._collection.decoded))

    def deliver(self) -> None:
        """Deliver the next difference of the list, or the next event."""
        if self._listing is not None:
            if next(self._listing, self) is self:
                self._listing = None
                self._sink.synced()
        elif self.behind:
            key, changed = self._collection.history[self._position]
            self._position += 1
            if changed is None:
                self._remove(key)
            else:
                self._upsert(changed)

    def repeat(self) -> None:
        """Deliver the last event again, after the event before it if the handler compares versions."""
        if self._last is not None:
            old, new = self._last
            if old is not None and isinstance(old, Reservation):
                self._sink.upsert(new, old)
            self._sink.upsert(new, new)

    def _list(self, present: dict[Key, T]) -> Iterator[None]:
        for key, listed in present.items():
            known = self._store.get(key)
            if known is None or known.meta.resource_version != listed.meta.resource_version:
                self._upsert(listed)
                yield
        for key in [key for key in self._store if key not in present]:
            self._remove(key)
            yield

    def _upsert(self, new: T) -> None:
        old = self._store.get(new.meta.key)
        if old is not None and old.meta.uid != new.meta.uid:
            self._remove(new.meta.key)
            old = None
        self._store[new.meta.key] = new
        self._sink.upsert(old, new)
        self._last = (old, new)

    def _remove(self, key: Key) -> None:
        last = self._store.pop(key, None)
        self._last = None
        if last is not None:
            self._sink.remove(last)


class Delivering(Protocol):
    """A reflection of any resource."""

    @property
    def behind(self) -> bool: ...
    def deliver(self) -> None: ...
    def repeat(self) -> None: ...
    def relist(self) -> None: ...


def _token(plain: Json) -> str | None:
    token: str | None = plain["status"].get("commit", {}).get("token")
    return token


def ends_before_it_begins(spec: Json) -> bool:
    begins, ends = spec.get("startAt"), spec.get("expireAt")
    return None not in (begins, ends) and parse_instant(ends) <= parse_instant(begins)


def key_of(plain: Json) -> Key:
    return Key(plain["metadata"]["namespace"], plain["metadata"]["name"])
