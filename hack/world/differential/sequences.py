"""Draws sequences of requests from a seed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from world.api.patches import APPLY, JSON_PATCH, MERGE, STRATEGIC
from world.differential import objects
from world.differential.objects import likely
from world.differential.steps import JSON, Step, Token, Uid, Version

Json = dict[str, Any]

_LABEL_SELECTORS = ("app=a", "app in (a,b)", "!x", "app!=b", "app", "app notin (b), !x")
_FIELD_SELECTORS = {
    "pods": (
        "spec.nodeName=",
        "status.phase=Pending",
        "metadata.name=a",
        "spec.nodeName!=n1",
        "spec.schedulerName=x",
        "status.foo=1",
    ),
    "reservations": ("status.phase=", "spec.nodeName=n1", "metadata.name=a", "spec.foo=1"),
    "nodes": ("metadata.name=n1", "spec.unschedulable=false"),
    "events": ("reason=Scheduled", "involvedObject.name=a"),
    "secrets": ("type=Opaque",),
}
LAST = "zz-last"
"""Name of the object that ends the watches of a sequence by its creation."""


@dataclass(frozen=True)
class Subject:
    """A kind in sequences: its collection below the group, and how its objects are drawn."""

    root: str
    plural: str
    draw: Callable[[Random], Json]
    weight: int
    status: Callable[[Random], Json] | None = None
    namespaced: bool = True
    custom: bool = False

    @property
    def broken(self) -> bool:
        """Whether objects with wrong values are drawn, as their kind's rules are all known."""
        return self.custom


def _pod_status(rng: Random) -> Json:
    made: Json = {"phase": rng.choice(("Running", "Pending", "Succeeded", "Failed"))}
    if likely(rng, 0.7):
        made["conditions"] = [
            {
                "type": rng.choice(("Ready", "PodScheduled", "DisruptionTarget")),
                "status": rng.choice(("True", "False")),
            }
        ]
    if likely(rng, 0.2):
        made["nominatedNodeName"] = rng.choice(("n1", ""))
    return made


def _node_status(rng: Random) -> Json:
    made: Json = {"conditions": [{"type": "Ready", "status": rng.choice(("True", "False", "Unknown"))}]}
    if likely(rng, 0.3):
        made["allocatable"] = {"cpu": rng.choice(("1", "2000m")), "memory": "1Gi"}
    return made


def _budget_status(rng: Random) -> Json:
    healthy = rng.choice((0, 1, 2))
    return {
        "observedGeneration": rng.choice((0, 1, 2, 5)),
        "disruptionsAllowed": rng.choice((0, 1, 1, 2)),
        "currentHealthy": healthy,
        "desiredHealthy": rng.choice((0, 1)),
        "expectedPods": healthy,
    }


def _reservation_status(rng: Random) -> Json:
    made: Json = {"phase": rng.choice(("Active", "Pending", "Bound", "Expired", "Nonsense"))}
    if likely(rng, 0.5):
        made["nodeName"] = rng.choice(("n1", "n2"))
    if likely(rng, 0.3):
        made["conditions"] = [
            {
                "type": "Active",
                "status": "True",
                "reason": "Held",
                "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ]
    if likely(rng, 0.2):
        made["bogus"] = 1
    return made


_OWN = "/apis/tidelock.dev/v1alpha1"
SUBJECTS = (
    Subject("/api/v1", "pods", objects.pod, 30, _pod_status),
    Subject("/api/v1", "nodes", objects.node, 8, _node_status, namespaced=False),
    Subject("/api/v1", "configmaps", objects.config_map, 8),
    Subject("/api/v1", "secrets", objects.secret, 3),
    Subject("/api/v1", "persistentvolumeclaims", objects.claim, 3),
    Subject("/apis/policy/v1", "poddisruptionbudgets", objects.budget, 12, _budget_status),
    Subject("/apis/coordination.k8s.io/v1", "leases", objects.lease, 6),
    Subject("/apis/events.k8s.io/v1", "events", objects.event, 4),
    Subject("/apis/apps/v1", "replicasets", objects.replica_set, 3),
    Subject("/apis/apps/v1", "deployments", objects.deployment, 3),
    Subject("/apis/scheduling.k8s.io/v1", "priorityclasses", objects.priority_class, 2, namespaced=False),
    Subject("/apis/resource.k8s.io/v1", "resourceclaims", objects.device_claim, 3),
    Subject(_OWN, "reservations", objects.own("Reservation"), 30, _reservation_status, custom=True),
    Subject(_OWN, "reservationgroups", objects.own("ReservationGroup"), 5, custom=True),
    Subject(_OWN, "reservationschedules", objects.own("ReservationSchedule"), 5, custom=True),
    Subject(_OWN, "reservationquotas", objects.own("ReservationQuota"), 4, custom=True),
    Subject(_OWN, "reservationquotes", objects.own("ReservationQuote"), 4, custom=True),
    Subject(_OWN, "waterlevels", objects.own("WaterLevel"), 3, namespaced=False, custom=True),
)


class Sequence:
    """One sequence: its namespace and its steps."""

    def __init__(self, seed: int | str, namespace: str) -> None:
        self._rng = Random(f"sequence {seed}")  # noqa: S311 -- it need not be secret
        self.namespace = namespace
        weights = [each.weight for each in SUBJECTS]
        self._subjects = self._rng.choices(SUBJECTS, weights, k=self._rng.randint(1, 3))
        self._made: set[str] = set()

    def steps(self) -> Iterator[Step]:
        """Yield the steps. The watches come last."""
        yield Step("POST", "/api/v1/namespaces", body={"metadata": {"name": self.namespace}})
        for _ in range(self._rng.randint(8, 30)):
            yield self._step(self._rng.choice(self._subjects))
        yield from self._final()

    def _collection(self, subject: Subject) -> str:
        place = f"/namespaces/{self.namespace}" if subject.namespaced else ""
        return f"{subject.root}{place}/{subject.plural}"

    def _name(self, subject: Subject) -> str:
        name = self._rng.choice("aab")
        return name if subject.namespaced else f"{self.namespace}-{name}"

    def _item(self, subject: Subject) -> str:
        return f"{self._collection(subject)}/{self._name(subject)}"

    def _draw(self, subject: Subject, name: str, *, whole: bool = False) -> Json:
        rng = self._rng
        made = subject.draw(rng)
        if likely(rng, 0.2) and subject.broken and not whole:
            made = objects.broken(rng, made)
        if "regarding" in made and isinstance(made["regarding"], dict):
            made["regarding"] = made["regarding"] | {"namespace": self.namespace}
        meta: Json = {"name": name}
        if likely(rng, 0.8):
            meta["labels"] = objects.labels(rng)
        if not subject.namespaced:
            meta["labels"] = {"own": self.namespace, **meta.get("labels", {})}
        if likely(rng, 0.15):
            meta["annotations"] = {"tidelock.dev/x": rng.choice(("1", "2"))}
        if likely(rng, 0.12):
            meta["finalizers"] = [rng.choice(("a.b/c", "d.e/f"))]
        if likely(rng, 0.08):
            meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u-1"}]
        if likely(rng, 0.03):
            meta |= rng.choice(
                (
                    {"name": "Bad_Name"},
                    {"labels": {"bad key": "v"}},
                    {"namespace": "other"},
                    {"labels": {"a": "bad value"}},
                    {"finalizers": ["b d/e"]},
                    {"annotations": {"bad key": "v"}},
                    {"uid": "given"},
                    {"generation": 7},
                    {"creationTimestamp": "2020-01-01T00:00:00Z"},
                )
            )
        return {**made, "metadata": meta}

    def _step(self, subject: Subject) -> Step:
        actions: list[tuple[int, Callable[[Subject], Step]]] = [
            (28, self._create),
            (12, self._replace),
            (16, self._patch),
            (10, self._delete),
            (8, self._get),
            (8, self._list),
            (2, self._raw),
            (1, self._delete_all),
        ]
        if subject.status is not None or subject.custom:
            actions.append((14, self._status))
        if subject.plural == "pods":
            actions += [(14, self._bind), (10, self._evict)]
        weights = [weight for weight, _ in actions]
        ((_, action),) = self._rng.choices(actions, weights)
        return action(subject)

    def _create(self, subject: Subject) -> Step:
        rng = self._rng
        made = self._draw(subject, self._name(subject))
        query: Json = {}
        if likely(rng, 0.15):
            query["fieldValidation"] = rng.choice(("Strict", "Ignore"))
        if likely(rng, 0.3):
            query["fieldManager"] = rng.choice(("tidelock-1", "kubectl"))
        if likely(rng, 0.04):
            query["dryRun"] = "All"
        if likely(rng, 0.04):
            kinds = (
                ({"apiVersion": "v2"},)
                if subject.custom
                else ({"kind": "Node"}, {"apiVersion": "v2"}, {"kind": "Foo"})
            )
            made |= rng.choice(kinds)
        if likely(rng, 0.03):
            made.pop(rng.choice(("kind", "apiVersion")), None)
        return Step("POST", self._collection(subject), query, made)

    def _replace(self, subject: Subject) -> Step:
        if subject.plural == "events":  # no client updates them
            return self._get(subject)
        path = self._item(subject)
        made = self._draw(subject, path.rpartition("/")[2])
        self._condition(made["metadata"], path)
        return Step("PUT", path, {}, made)

    def _condition(self, meta: Json, path: str) -> None:
        rng = self._rng
        if likely(rng, 0.75):
            meta["resourceVersion"] = Version(path, rng.choice((0, 0, 0, 0, 1)))
        elif likely(rng, 0.1):
            meta["resourceVersion"] = rng.choice(("abc", "0", "1"))
        if likely(rng, 0.3):
            meta["uid"] = Uid(path) if likely(rng, 0.8) else "another"

    def _status(self, subject: Subject) -> Step:
        rng, path = self._rng, self._item(subject)
        status = (
            subject.status(rng)
            if subject.status is not None
            else {"observedGeneration": rng.choice((1, "x"))}
        )
        if likely(rng, 0.5):
            made = self._draw(subject, path.rpartition("/")[2], whole=True)
            self._condition(made["metadata"], path)
            return Step("PUT", f"{path}/status", {}, made | {"status": status})
        meta: Json = {}
        if likely(rng, 0.3):
            self._condition(meta, path)
        if likely(rng, 0.1):
            meta["annotations"] = {"a": "1"}
        kind = MERGE if subject.custom or likely(rng, 0.3) else STRATEGIC
        return Step("PATCH", f"{path}/status", {}, {"metadata": meta, "status": status}, kind)

    def _patch(self, subject: Subject) -> Step:
        rng, path = self._rng, self._item(subject)
        if likely(rng, 0.15) and subject.plural != "resourceclaims":
            return self._apply(subject, path)
        if likely(rng, 0.2):
            return Step("PATCH", path, {}, self._operations(), JSON_PATCH)
        meta: Json = {}
        if likely(rng, 0.3):
            self._condition(meta, path)
        if likely(rng, 0.5):
            meta["labels"] = {rng.choice(("app", "x")): rng.choice(("a", "b", None))}
        if likely(rng, 0.2):
            meta["finalizers"] = rng.choice((None, [], ["a.b/c"], ["g.h/i"]))
        if likely(rng, 0.2):
            meta["annotations"] = rng.choice((None, {"k": "v"}, {"k": None}))
        body: Json = {"metadata": meta} if meta else {}
        if likely(rng, 0.6) and subject.plural != "events":
            drawn = (
                objects.broken(rng, subject.draw(rng))
                if likely(rng, 0.3) and subject.broken
                else subject.draw(rng)
            )
            content = {
                name: each for name, each in drawn.items() if name not in {"kind", "apiVersion", "regarding"}
            }
            if isinstance(content.get("spec"), dict) and content["spec"]:
                name = rng.choice(sorted(content["spec"]))
                content = {"spec": {name: content["spec"][name]}}
            body |= content
        kind = MERGE if subject.custom or likely(rng, 0.5) else STRATEGIC
        if likely(rng, 0.03):
            kind = rng.choice((STRATEGIC, JSON, "application/nonsense"))
        return Step("PATCH", path, {}, body, kind)

    def _operations(self) -> list[Json]:
        return self._rng.choice(
            (
                [{"op": "add", "path": "/metadata/labels", "value": {"app": "b"}}],
                [{"op": "remove", "path": "/metadata/labels"}],
                [{"op": "remove", "path": "/metadata/labels/app"}],
                [
                    {"op": "test", "path": "/metadata/labels/app", "value": "a"},
                    {"op": "replace", "path": "/metadata/labels/app", "value": "c"},
                ],
                [{"op": "replace", "path": "/spec/nope/nope", "value": 1}],
                [{"op": "add", "path": "/metadata/annotations", "value": {"a~b": "1"}}],
                [{"op": "remove", "path": "/metadata/finalizers"}],
                [{"op": "nonsense", "path": "/spec"}],
            )
        )

    def _apply(self, subject: Subject, path: str) -> Step:
        rng = self._rng
        plain = subject.draw(Random(0))  # noqa: S311 -- only its kind is of interest
        annotations = {name: rng.choice("12") for name in ("own/a", "own/b") if likely(rng, 0.6)}
        meta: Json = {"name": path.rpartition("/")[2]} | ({"annotations": annotations} if annotations else {})
        body = {"apiVersion": plain["apiVersion"], "kind": plain["kind"], "metadata": meta}
        query: Json = {"fieldManager": rng.choice(("m1", "m2"))} if likely(rng, 0.95) else {}
        if likely(rng, 0.3):
            query["force"] = "true"
        return Step("PATCH", path, query, body, APPLY)

    def _delete(self, subject: Subject) -> Step:
        rng, path = self._rng, self._item(subject)
        options: Json = {}
        if likely(rng, 0.3):
            options["preconditions"] = {"uid": Uid(path) if likely(rng, 0.6) else "another"}
        if likely(rng, 0.25):
            options.setdefault("preconditions", {})["resourceVersion"] = Version(path, rng.choice((0, 0, 1)))
        if likely(rng, 0.3):
            options["gracePeriodSeconds"] = rng.choice((0, 1, 10, -1))
        if likely(rng, 0.2):
            options["propagationPolicy"] = rng.choice(("Background", "Foreground", "Orphan", "nonsense"))
        return Step("DELETE", path, {}, options or None)

    def _delete_all(self, subject: Subject) -> Step:
        query: Json = {"labelSelector": "app=b"}
        if not subject.namespaced:
            query["labelSelector"] += f",own={self.namespace}"
        if likely(self._rng, 0.5):
            query["gracePeriodSeconds"] = "0"
        return Step("DELETE", self._collection(subject), query)

    def _get(self, subject: Subject) -> Step:
        path = self._item(subject)
        return Step("GET", f"{path}{'/status' if likely(self._rng, 0.1) and subject.status else ''}")

    def _list(self, subject: Subject) -> Step:
        query = self._selection(subject)
        path = self._collection(subject)
        rng = self._rng
        if likely(rng, 0.4) and subject.namespaced:
            query["limit"] = "1"
            if likely(rng, 0.4):
                query["continue"] = Token(path) if likely(rng, 0.9) else "nonsense"
        if likely(rng, 0.2):
            query["resourceVersion"] = rng.choice(("abc", "99999999999"))
        if likely(rng, 0.05):
            query["resourceVersionMatch"] = rng.choice(("Exact", "NotOlderThan", "nonsense"))
        return Step("GET", path, query)

    def _selection(self, subject: Subject) -> Json:
        rng, query = self._rng, {}
        if likely(rng, 0.4):
            query["labelSelector"] = rng.choice(_LABEL_SELECTORS)
        if not subject.namespaced:
            query["labelSelector"] = ",".join(
                filter(None, (query.get("labelSelector"), f"own={self.namespace}"))
            )
        if likely(rng, 0.25) and subject.plural in _FIELD_SELECTORS:
            query["fieldSelector"] = rng.choice(_FIELD_SELECTORS[subject.plural])
        return query

    def _raw(self, subject: Subject) -> Step:
        body = self._rng.choice(("{bad", "[]", '"x"', "", "null", "{}"))
        if likely(self._rng, 0.5):
            return Step("POST", self._collection(subject), {}, body)
        method, path = self._rng.choice(
            (
                ("POST", self._item(subject)),
                ("PUT", self._collection(subject)),
                ("GET", f"{self._item(subject)}/nonsense"),
                ("GET", f"{subject.root}/nonsense"),
                ("PATCH", self._collection(subject)),
            )
        )
        return Step(method, path, {}, "{}")

    def _bind(self, subject: Subject) -> Step:
        rng, path = self._rng, self._item(subject)
        meta: Json = {"name": path.rpartition("/")[2]}
        if likely(rng, 0.5):
            meta["uid"] = Uid(path) if likely(rng, 0.85) else "another"
        if likely(rng, 0.4):
            meta["annotations"] = {"tidelock.dev/claimed-locks": "x"}
        if likely(rng, 0.05):
            meta["name"] = "other"
        target: Json = {"kind": "Node", "name": rng.choice(("n1", "n2"))}
        if likely(rng, 0.06):
            target = rng.choice(
                ({}, {"name": "n1"}, {"kind": "Foo", "name": "n1"}, {"kind": "Node", "name": ""})
            )
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        return Step("POST", f"{path}/binding", {"fieldManager": "tidelock-1"}, body)

    def _evict(self, subject: Subject) -> Step:
        rng, path = self._rng, self._item(subject)
        options: Json = {}
        if likely(rng, 0.4):
            options["preconditions"] = {"uid": Uid(path) if likely(rng, 0.85) else "another"}
        if likely(rng, 0.3):
            options["gracePeriodSeconds"] = rng.choice((0, 1, 10))
        body: Json = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": path.rpartition("/")[2]},
        }
        if options:
            body["deleteOptions"] = options
        if likely(rng, 0.04):
            body["metadata"]["name"] = "other"
        return Step("POST", f"{path}/eviction", {}, body)

    def _final(self) -> Iterator[Step]:
        """Yield the last object of each kind, and the watches that its creation ends."""
        for subject in dict.fromkeys(self._subjects):
            path = self._collection(subject)
            start = Step("GET", path, self._selection_of_all(subject))
            yield start
            name = LAST if subject.namespaced else f"{self.namespace}-{LAST}"
            yield Step("POST", path, {}, self._last(subject, name))
            for selector in ("", "app=a", "!x"):
                query: Json = {"watch": "true"}
                chosen = ",".join(
                    filter(None, (selector, "" if subject.namespaced else f"own={self.namespace}"))
                )
                if chosen:
                    query["labelSelector"] = chosen
                query["resourceVersion"] = Version("/api/v1/namespaces/" + self.namespace)
                if selector == "!x":
                    del query["resourceVersion"]
                    query["allowWatchBookmarks"] = "true"
                yield Step("GET", path, query, events=True)

    def _selection_of_all(self, subject: Subject) -> Json:
        return {} if subject.namespaced else {"labelSelector": f"own={self.namespace}"}

    def _last(self, subject: Subject, name: str) -> Json:
        rng = Random(1)  # noqa: S311 -- the same object each time
        made = objects.SAMPLES[_KINDS[subject.plural]][0] if subject.custom else subject.draw(rng)
        bare = {"containers": [{"name": "c", "image": "i"}]}
        if subject.plural == "pods":
            made = {"kind": "Pod", "apiVersion": "v1", "spec": bare}
        if subject.plural in {"replicasets", "deployments"}:
            made["spec"]["template"]["spec"] = bare
        if subject.plural == "leases":
            made = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": {}}
        if "regarding" in made:
            made = made | {"regarding": made["regarding"] | {"namespace": self.namespace}}
        labels = {"app": "a"} | ({} if subject.namespaced else {"own": self.namespace})
        return {**made, "metadata": {"name": name, "labels": labels}}


_KINDS = {
    "reservations": "Reservation",
    "reservationgroups": "ReservationGroup",
    "reservationschedules": "ReservationSchedule",
    "reservationquotas": "ReservationQuota",
    "reservationquotes": "ReservationQuote",
    "waterlevels": "WaterLevel",
}
