"""The operator with events and answers that come late, out of order or twice, or get lost."""

import os
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from builders import NOW, SCHEDULER, Json, node_json, pod_json, reservation_json
from property.creations import Creation, Fate, answer_in
from property.invariants import Observer
from property.model_api import ModelApi, RefusedError, ends_before_it_begins
from property.process import KINDS, Process
from property.sums import check_indexes, reservations
from tidelock.ledger.queue import waiting
from tidelock.model.answer import ANSWER, UNSEEN_SECONDS
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import BORROWS, REQUIRE_RESERVATION
from unit.scheduler.machinery import FakeClock

EXPLORES = settings.get_current_profile_name() == "explore"
EXAMPLES = int(os.environ.get("TIDELOCK_LEDGER_EXAMPLES", "20000" if EXPLORES else "200"))

# An exploration may take as long as it needs.
pytestmark = [pytest.mark.timeout(0)] if EXPLORES else []

NODES = st.sampled_from(["node-a", "node-b"])
NUMBERS = st.sampled_from([0, 1, 2])
CPUS = st.sampled_from(["1", "2", "3"])
NODE_CPUS = st.sampled_from(["3", "4", "2"])
GPU = "example.com/gpu"
SECONDS = st.sampled_from([1, 9, 31, 300])

# The order of the moves, the kinds that have to wait, and the number of moves at a time. A few such choices
# reorder more than a random choice for each move.
ORDERS = [tuple(KINDS[n:] + KINDS[:n])[::way] for n in range(len(KINDS)) for way in (1, -1)]
HELD_UP = [(), *((kind,) for kind in KINDS), *((a, b) for a in KINDS for b in KINDS if a < b)]
Weather = tuple[tuple[str, ...], int | None]
WEATHER: st.SearchStrategy[Weather] = st.builds(
    lambda order, held_up, pace: (tuple(kind for kind in order if kind not in held_up), pace),
    st.sampled_from(ORDERS),
    st.sampled_from(HELD_UP),
    st.sampled_from([None, None, 2, 7]),
)
TROUBLES = st.sampled_from(
    [
        *("weather", "weather", "weather", "time", "time", "accident", "accident"),
        *("nodes", "pods", "reservations", "quotas", "crash", "crash in the end", "rest", "rest", "forget"),
    ]
)
ACCIDENTS = st.sampled_from(
    ["bind", "bind", "bind", "written", "evict", "move", "nodes", "pods", "reservations", "ask", "answer"]
)

OWNERS = st.sampled_from(
    [
        *([{"pod": {"name": name}}] for name in ("web-0", "web-0", "web-1", "web-1", "web-2")),
        [{"selector": {"matchLabels": {"app": "web"}}}],
        [{"selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}}],
        [{"controller": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}],
        [{"pod": {"name": "web-1"}}, {"selector": {"matchLabels": {"app": "db"}}}],
    ]
)
ROOM: list[Json] = [{"cpu": "1"}, {"cpu": "2"}, {"cpu": "3"}, {"cpu": "1", GPU: "1"}]


def template(requests: Json, app: str = "", host_port: int = 0, **affinity: str) -> Json:
    """Build the template of a pod with affinity or anti-affinity to an app, or with a host port."""
    container: Json = {"name": "m", "resources": {"requests": requests}}
    if host_port:
        container["ports"] = [{"containerPort": 80, "hostPort": host_port}]
    metadata = {"labels": {"app": app}} if app else {}
    terms = {
        kind: [{"topologyKey": "name", "labelSelector": {"matchLabels": {"app": other}}}]
        for kind, other in affinity.items()
    }
    required = {
        kind: {"requiredDuringSchedulingIgnoredDuringExecution": each} for kind, each in terms.items()
    }
    return {"metadata": metadata, "spec": {"containers": [container], "affinity": required}}


SIZES = st.sampled_from(
    [{"resources": amounts, "template": None} for amounts in ROOM]
    + [
        {"resources": None, "template": each}
        for each in (
            *(template(amounts) for amounts in ROOM[:2]),
            template(ROOM[0], "web", 8080),
            template(ROOM[0], "web", podAffinity="web"),
            template(ROOM[1], "db", podAntiAffinity="web"),
        )
    ]
)
ENDS: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"ttlSeconds": 600, "expireAt": None},
        {"ttlSeconds": 30, "expireAt": None},
        {"ttlSeconds": None, "expireAt": format_instant(NOW + 60)},
        {"ttlSeconds": None, "expireAt": format_instant(NOW + 900)},
    ]
)
LEASES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"lease": None},
        {"lease": None},
        *({"lease": {"durationSeconds": d, "graceSeconds": g}} for d, g in ((20, 0), (20, 30), (45, 15))),
    ]
)
COMMITS: st.SearchStrategy[Json] = st.sampled_from(
    [{"commit": None}, {"commit": None}, *({"commit": {"withinSeconds": s}} for s in (8, 40, 500))]
)
SETS: st.SearchStrategy[Json] = st.sampled_from([{"anyOf": name} for name in (None, None, "web", "web")])
# The hold that a commit names: the published one, the one before, the one after, or another reservation's.
TOKENS = st.sampled_from([0, 0, 0, -1, 1, None])
SHARING: st.SearchStrategy[Json] = st.sampled_from(
    [{}, {"reuse": "Never"}, {"reuse": "Always"}, {"borrowable": True}]
)
LENDING: st.SearchStrategy[Json] = st.sampled_from([{}, {"borrowable": True}])
BEGINNINGS = st.sampled_from([None, None, 9, 40, 90])
RUNS: st.SearchStrategy[Json] = st.sampled_from([{"runSeconds": seconds} for seconds in (None, None, 1, 30)])
SKEWS = st.sampled_from([0, 0, -500, 500])
RANKS: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"priority": priority, "preemptionPolicy": policy}
        for priority in (0, 1, 5)
        for policy in ("Never", "PreemptLowerPriority")
    ]
)
PLANS: st.SearchStrategy[Json] = st.sampled_from(
    [
        {
            "pendingDeadlineSeconds": seconds,
            "retention": retention,
            "ttlSecondsAfterFinished": after,
            "onViolation": on_violation,
        }
        for seconds, after in ((600, None), (60, 20), (5, None), (0, None))
        for retention in ("Delete", "Retain")
        for on_violation in ("Keep", "Move")
    ]
)
PLACES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"nodeName": None, "nodeSelector": None},
        {"nodeName": "node-a", "nodeSelector": None},
        {"nodeName": "node-b", "nodeSelector": None},
        {"nodeName": None, "nodeSelector": {"name": "node-b"}},
    ]
)
ALONE: st.SearchStrategy[Json] = st.sampled_from([{"anyOf": None, "startAt": None}] * 5 + [{}])
NAMES = st.sampled_from(["", "", "", "lock-", "l"])
FATES: st.SearchStrategy[Fate] = st.sampled_from(["stored"] * 6 + ["refused", "dry run"])
APPS = st.sampled_from(["web", "db"])
MAY_MOVE = st.sampled_from([{}, {"maxPods": 1}, {"automatically": True}, {"automatically": True}])
MOVES: st.SearchStrategy[Json] = st.sampled_from(
    [
        *({"mayMove": None}, {"mayMove": None}),
        *({"mayMove": asks} for asks in ({}, {"maxPods": 1}, {"automatically": True})),
    ]
)
RANKED: Json = {"maxPriority": 5, "preemptionPolicy": "PreemptLowerPriority"}
LIMITS: st.SearchStrategy[Json] = st.sampled_from(
    [
        *({"hard": {"cpu": cpu}} for cpu in ("0", "2", "3", "5")),
        {"hard": {"pods": "1", GPU: "1"}},
        *({"hardSeconds": {"cpu": seconds}} for seconds in ("600", "1200", "1900")),
        *({"maxLifeSeconds": seconds} for seconds in (30, 600)),
        {"maxAmounts": {"cpu": "2"}, "maxPriority": 1},
        {"maxPriority": 0, "hard": {"cpu": "4"}},
        {"hard": {"cpu": "two"}},
        {"preemptionPolicy": "Never", "maxPriority": 5},
        RANKED,
    ]
)
UNREADABLE: st.SearchStrategy[Json] = st.just({"resources": {"cpu": "two"}, "template": None})
EDITS = st.one_of(
    *(
        SIZES,
        OWNERS.map(lambda owners: {"owners": owners}),
        ENDS,
        RANKS,
        PLANS,
        PLACES,
        UNREADABLE,
        LEASES,
        RUNS,
        MOVES,
    )
)


POD_KINDS = st.sampled_from(
    [
        *("plain", "plain", "short", "short", "urgent", "urgent", "requires", "gated", "choosy", "another's"),
        *("borrows", "borrows", "urgently borrows", "short, borrows"),
    ]
)


class World(RuleBasedStateMachine):
    """Users, kubelets, other schedulers and the network on one side, one operator on the other."""

    def __init__(self) -> None:
        super().__init__()
        # Equal reservations follow the first of them. None is tried only to renew its numbers.
        self._unrenewed = mock.patch.object(waiting, "_RENEWED", 0)
        self._unrenewed.start()
        self.clock = FakeClock(NOW)
        self.api = ModelApi(self.clock.now)
        self.nodes, self.pods, self.reservations = self.api.nodes, self.api.pods, self.api.reservations
        self.process = Process(self.api, self.clock, self.api.elect())
        self.observer = Observer(self.process)
        self.weather: Weather = (KINDS, None)
        self._uids = 0
        self._gang: Json = {}

    @initialize(
        data=st.data(),
        sizes=st.tuples(NODE_CPUS, NODE_CPUS),
        ranked=st.sampled_from([RANKED, RANKED, None]),
        weather=WEATHER,
    )
    def begin(
        self, data: st.DataObject, sizes: tuple[str, str], ranked: Json | None, weather: Weather
    ) -> None:
        """Begin with two nodes, two reservations and a pod, because an empty cluster shows no faults."""
        self._put_quota(1, ranked)
        for name, cpu in zip(("node-a", "node-b"), sizes, strict=True):
            self._put_node(name, cpu)
        for number in (0, 1):
            self._create_reservation(data, number, asks=data.draw(st.booleans()))
        self._go_on()
        self.weather = weather
        self.process.accidents += data.draw(st.lists(ACCIDENTS, max_size=3))
        self._create_pod(data, 0)
        self._go_on()

    # Users.

    @rule(
        data=st.data(),
        number=NUMBERS,
        fate=st.sampled_from(
            [
                *("edit", "edit", "renew", "commit", "commit", "approve", "approve", "delete"),
                *("ask", "ask", "ask", "copy"),
            ]
        ),
    )
    def reservation(self, data: st.DataObject, number: int, fate: str) -> None:
        """Create a Reservation, or edit, renew, commit, approve or delete the existing one."""
        key = Key("shop", f"lock-{number}")
        if fate == "ask":
            free = (each for each in range(4) if Key("shop", f"lock-{each}") not in self.reservations.objects)
            self._create_reservation(
                data, data.draw(st.sampled_from([number, next(free, number)])), asks=True
            )
            self._go_on()
            if data.draw(st.sampled_from([False, False, True])):
                self._restart(data, bind=True)
        elif fate == "copy":
            self._copy_answer(data, key)
        elif key not in self.reservations.objects:
            self._create_reservation(data, number)
        elif fate == "edit":
            self._edit_reservation(data, number)
        elif fate == "renew":
            self._renew_reservation(data, key)
        elif fate == "commit":
            self._commit_reservation(data, key)
        elif fate == "approve":
            self._approve_moves(data, key)
        else:
            self.reservations.delete(key)
        self._go_on()

    @rule(data=st.data(), number=NUMBERS, fate=st.sampled_from(["make", "make", "delete", "dissolve"]))
    def gang(self, data: st.DataObject, number: int, fate: str) -> None:
        """Create the missing members of a group, delete one member, or delete the whole group."""
        key = Key("shop", f"gang-{number}")
        if fate == "make":
            self._make_gang(data)
        elif fate == "delete" and key in self.reservations.objects:
            self.reservations.delete(key)
        elif fate == "dissolve":
            self._gang = {}
            for each in [each for each in self.reservations.objects if each.name.startswith("gang")]:
                self.reservations.delete(each)
        self._go_on()

    @rule(
        data=st.data(),
        number=NUMBERS,
        change=st.sampled_from(["delete", "delete", "finish", "resize", "label", "gate", "borrow"]),
    )
    def pod(self, data: st.DataObject, number: int, change: str) -> None:
        """Create a pod, or change or end the existing one, which leaves first if it runs."""
        key = Key("shop", f"web-{number}")
        stored = self.pods.objects.get(key)
        if stored is None:
            self._create_pod(data, number)
        elif change == "label":
            self.pods.change(key, "metadata", labels={"app": data.draw(st.sampled_from(["web", "db", ""]))})
        elif change == "borrow":
            annotations = stored["metadata"]["annotations"]
            borrows = {"true": "false", "false": "true"}[annotations[BORROWS]]
            self.observer.disturb(stored["spec"]["nodeName"])
            self.pods.change(key, "metadata", annotations=annotations | {BORROWS: borrows})
        elif change == "gate" and not stored["spec"]["nodeName"]:
            self.pods.change(key, "spec", schedulingGates=[])
        elif change == "finish" and stored["spec"]["nodeName"]:
            self.pods.change(key, "status", phase="Succeeded")
        elif change == "resize" and stored["spec"]["nodeName"]:
            resized = pod_json(requests={"cpu": data.draw(CPUS)})["spec"]["containers"]
            self.observer.disturb(stored["spec"]["nodeName"])
            self.pods.change(key, "spec", containers=resized)
        else:
            self.api.end_pod(key, self.clock.now())
        self._go_on()

    @rule(number=st.sampled_from([0, 1]), limits=st.none() | LIMITS)
    def quota(self, number: int, limits: Json | None) -> None:
        """Create, change or delete a quota."""
        self._put_quota(number, limits)
        self._go_on()

    def _put_quota(self, number: int, limits: Json | None) -> None:
        key, stored = Key("shop", f"quota-{number}"), self.api.quotas.objects
        if limits is None and key in stored:
            self.api.quotas.delete(key)
        elif limits is not None and key in stored:
            self.api.quotas.put(stored[key] | {"spec": limits})
        elif limits is not None:
            metadata = {"name": key.name, "namespace": key.namespace, "uid": self._uid()}
            self.api.quotas.put({"metadata": metadata, "spec": limits})

    @rule(allowed=st.sampled_from([None, 0, 1, 1]))
    def budget(self, allowed: int | None) -> None:
        """Create or change a budget that allows so many evictions of the pods of an app, or delete it."""
        key, stored = Key("shop", "budget"), self.api.budgets.objects
        if allowed is not None:
            guards = {"selector": {"matchLabels": {"app": "web"}}}
            metadata = {"name": key.name, "namespace": key.namespace, "uid": self._uid()}
            status = {"disruptionsAllowed": allowed}
            self.api.budgets.put({"metadata": metadata, "spec": guards, "status": status})
        elif key in stored:
            self.api.budgets.delete(key)
        self._go_on()

    # The cluster.

    @rule(
        data=st.data(),
        name=NODES,
        event=st.sampled_from(["size", "size", "size", "problem", "stranger", "stranger", "goes", "another"]),
    )
    def node(self, data: st.DataObject, name: str, event: str) -> None:
        """Change a node's size or condition, bind a pod to it without the operator, delete or replace it."""
        key = Key("", name)
        if event != "problem" or key not in self.nodes.objects:
            self.observer.disturb(name)
        if event == "stranger":
            self._bind_stranger(data, name)
        elif key not in self.nodes.objects:
            self._put_node(name, "4")
        elif event == "size":
            amounts = {"cpu": data.draw(NODE_CPUS), GPU: data.draw(st.sampled_from(["0", "1"]))}
            allocatable = self.nodes.objects[key]["status"]["allocatable"] | amounts
            self.nodes.change(key, "status", allocatable=allocatable)
        elif event == "problem":
            cordoned, ready = data.draw(st.sampled_from([(False, True), (True, True), (False, False)]))
            self.nodes.change(key, "spec", unschedulable=cordoned)
            self.nodes.change(key, "status", conditions=[{"type": "Ready", "status": str(ready)}])
        else:
            self.nodes.delete(key)
            if event == "another":
                self._put_node(name, "4")
        self._go_on()

    # The operator and the network.

    # There are few rules with many kinds, because a run draws only some of the rules.
    @rule(data=st.data(), kind=TROUBLES)
    def trouble(self, data: st.DataObject, kind: str) -> None:
        """Advance the clock, lose events, make a move go wrong, or restart the operator during bindings."""
        process = self.process
        if kind == "weather":
            self.weather = data.draw(WEATHER)
        elif kind == "time":
            self.clock.time += data.draw(SECONDS)
        elif kind == "accident":
            process.accidents.append(data.draw(ACCIDENTS))
        elif kind in process.watches:
            process.watches[kind].relist()
        elif kind == "rest":
            self.rest()
        elif kind == "forget":
            self.forget()
        else:
            self._restart(data, bind=kind == "crash in the end")
        self._go_on()

    def _restart(self, data: st.DataObject, *, bind: bool) -> None:
        """Restart the operator, with its bindings under way carried out or not, and an edit meanwhile."""
        for uid in sorted(self.process.in_flight.keys() - self.process.bind_answers.keys()):
            if bind:
                self.process.send_binding(uid)
        self._edit_reservation(data, 0)
        self.process = Process(self.api, self.clock, self.api.elect())
        self.observer.follow(self.process)

    def rest(self) -> None:
        """Check that the undisturbed operator finishes its work, and agrees with the stored objects."""
        self.process.accidents.clear()
        self.api.calm = True
        self.process.go_on(self._check)
        if any(entry.unseen for entry in self.process.ledger.entries.values()):
            self.clock.time += UNSEEN_SECONDS
            self.process.go_on(self._check)
        unseen = [entry.key for entry in self.process.ledger.entries.values() if entry.unseen]
        assert not unseen, f"{unseen} can't be stored any more"
        self.api.calm = False
        self.observer.check_rest()

    def forget(self) -> None:
        """Check that the operator reaches the same state after it forgets earlier answers."""
        self.rest()
        before = reservations(self.process)
        self.process.decider.forget()
        self.process.go_on(self._check)
        assert reservations(self.process) == before, "a forgotten answer was wrong"

    def teardown(self) -> None:
        try:
            self.rest()
            self.clock.time += 11
            self.forget()
            check_indexes(self.process)
        finally:
            self._unrenewed.stop()

    # Helpers.

    def _go_on(self) -> None:
        self.api.note_owned()
        self.process.go_on(self._check, *self.weather)

    def _check(self) -> None:
        self.observer.check()

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _put_node(self, name: str, cpu: str) -> None:
        gpu: dict[str, Any] = {GPU: "1"}
        self.nodes.put(node_json(name, cpu=cpu, pods="4", uid=self._uid(), labels={"name": name}, **gpu))

    def _create_reservation(self, data: st.DataObject, number: int, *, asks: bool = False) -> None:
        """Create a Reservation, or begin to create one that asks for an answer."""
        spec: Json = {"owners": data.draw(OWNERS)}
        for part in (SIZES, ENDS, RANKS, PLANS, PLACES, LEASES, SHARING, RUNS, COMMITS, SETS):
            spec |= data.draw(part)
        if spec["preemptionPolicy"] == "Never" and spec["pendingDeadlineSeconds"]:
            spec |= data.draw(MOVES)
        if spec["preemptionPolicy"] != "Never" or (spec.get("mayMove") or {}).get("automatically"):
            spec["commit"] = None
        if spec.get("borrowable"):
            spec["runSeconds"] = None
        elif (seconds := data.draw(BEGINNINGS)) is not None:
            begins = {"startAt": format_instant(self.clock.now() + seconds)}
            spec |= {} if ends_before_it_begins(spec | begins) else begins
        if asks:
            spec |= {"answer": "Immediate", **data.draw(ALONE)}
            self._begin_creation(data, number, spec)
        else:
            self.reservations.put(
                reservation_json(f"lock-{number}", uid=self._uid(), created=self.clock.now(), **spec)
            )

    def _begin_creation(
        self,
        data: st.DataObject,
        number: int,
        spec: Json,
        annotations: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        made = reservation_json(
            f"lock-{number}", uid=self._uid(), created=int(self.clock.now()), annotations=annotations, **spec
        )
        names, fate, slow = data.draw(NAMES), data.draw(FATES), data.draw(st.booleans())
        self.api.creations.append(Creation(made, names, fate, self.clock.now(), slow))

    def _copy_answer(self, data: st.DataObject, key: Key) -> None:
        """Copy, forge or remove the answer of a Reservation, as users may try."""
        objects = self.reservations.objects
        known = sorted(other for other in objects if answer_in(objects[other]))
        if not known:
            return
        source = data.draw(st.sampled_from(known))
        copy = answer_in(objects[source])
        way = data.draw(st.sampled_from(["create", "create", "update", "forge", "remove"]))
        if way == "create":
            spec = objects[source]["spec"] | {"priority": data.draw(st.sampled_from([0, 5]))}
            self._begin_creation(data, int(key.name[-1]), spec, copy)
        elif way == "remove":
            self.api.annotate(source, {})
        elif key in objects and key != source:
            with suppress(RefusedError):
                self.api.annotate(key, copy)
                assert answer_in(objects[key]) == copy, "the policy lets a copy pass"
            # Without the policy, the signature is worth nothing for another text, or for another name.
            text = copy[ANSWER].replace(source.name, key.name) if way == "forge" else copy[ANSWER]
            if text != copy[ANSWER] or "generateName" not in text:
                self.reservations.change(key, "metadata", annotations=copy | {ANSWER: text})

    def _make_gang(self, data: st.DataObject) -> None:
        """Create a group of two or three reservations for the same pods, or its missing members."""
        if not self._gang:
            size, spare = data.draw(st.sampled_from([(2, 0), (3, 0), (3, 1)]))
            group = {"name": "gang", "uid": self._uid(), "members": size, "minMembers": size - spare}
            self._gang = {"owners": data.draw(OWNERS), "group": group}
            for part in (SIZES, ENDS, PLANS, LENDING):
                self._gang |= data.draw(part)
            self._gang |= {"retention": "Retain", "priority": data.draw(st.sampled_from([0, 1, 5]))}
        for number in range(self._gang["group"]["members"]):
            if Key("shop", f"gang-{number}") not in self.reservations.objects:
                spec = self._gang | data.draw(PLACES)
                made = reservation_json(f"gang-{number}", uid=self._uid(), created=self.clock.now(), **spec)
                self.reservations.put(made)

    def _edit_reservation(self, data: st.DataObject, number: int) -> None:
        key, edit = Key("shop", f"lock-{number}"), data.draw(EDITS)
        if key in self.reservations.objects:
            with suppress(RefusedError):
                self.api.edit_spec(key, **edit)

    def _renew_reservation(self, data: st.DataObject, key: Key) -> None:
        """Renew a reservation's lease, if it has one, by a holder with a clock that may be wrong."""
        if (lease := self.reservations.objects[key]["spec"].get("lease")) is not None:
            renewed = lease | {"renewTime": format_instant(self.clock.now() + data.draw(SKEWS))}
            with suppress(RefusedError):
                self.api.edit_spec(key, lease=renewed)

    def _commit_reservation(self, data: st.DataObject, key: Key) -> None:
        """Commit a two-phase reservation, with its token or a wrong one."""
        stored, which = self.reservations.objects[key], data.draw(TOKENS)
        if (commit := stored["spec"].get("commit")) is not None:
            holds = stored["status"].get("commit", {}).get("holds", 0)
            token = "another's" if which is None else f"{stored['metadata']['uid']}.{holds + which}"
            with suppress(RefusedError):
                self.api.edit_spec(key, commit=commit | {"token": token})

    def _approve_moves(self, data: st.DataObject, key: Key) -> None:
        """Approve the migration plan that a reservation shows, or another one."""
        planned = [
            each for each, reservation in self.reservations.objects.items() if "plan" in reservation["status"]
        ]
        key = planned[0] if planned else key
        stored = self.reservations.objects[key]
        if (asks := stored["spec"].get("mayMove")) is not None:
            token = stored["status"].get("plan", {}).get("token", "none")
            token = data.draw(st.sampled_from([token, token, token, "another's"]))
            with suppress(RefusedError):
                self.api.edit_spec(key, mayMove=asks | {"approve": token})

    def _create_pod(self, data: st.DataObject, number: int, node_name: str = "") -> None:
        kind = data.draw(POD_KINDS)
        self.pods.put(
            pod_json(
                f"web-{number}",
                requests={"cpu": data.draw(CPUS)},
                uid=self._uid(),
                labels={"app": data.draw(st.sampled_from(["", "web", "db"]))},
                annotations={
                    REQUIRE_RESERVATION: str(kind == "requires").lower(),
                    BORROWS: str("borrows" in kind).lower(),
                },
                controller=f"apps/v1/StatefulSet/{'web' if number == 0 else 'db'}",
                node_name=node_name,
                created=self.clock.now(),
                priority=3 if kind.startswith("urgent") else 0,
                schedulingGates=[{"name": "hold"}] if kind == "gated" and not node_name else [],
                nodeSelector={"name": "node-b"} if kind == "choosy" else {},
                activeDeadlineSeconds=data.draw(st.sampled_from([1, 30]))
                if kind.startswith("short")
                else None,
                terminationGracePeriodSeconds=0,
                scheduler="another" if kind == "another's" else SCHEDULER,
            )
        )

    def _bind_stranger(self, data: st.DataObject, node_name: str) -> None:
        number = data.draw(NUMBERS)
        stored = self.pods.objects.get(Key("shop", f"web-{number}"))
        if stored is None:
            self._create_pod(data, number, node_name)
        else:
            with suppress(RefusedError):
                self.api.bind(Key("shop", f"web-{number}"), stored["metadata"]["uid"], node_name)


class Fragmented(World):
    """The same world with two nodes, on which a reservation fits only if a pod moves to the other node."""

    @initialize(asks=MAY_MOVE, label=APPS, allowed=st.sampled_from([None, 0, 1]), weather=WEATHER)
    def begin(self, asks: Json, label: str, allowed: int | None, weather: Weather) -> None:
        """Begin with that reservation, and a budget for the pods of one app."""
        for number, name in enumerate(("node-a", "node-b")):
            self._put_node(name, "4")
            fields: Json = {"labels": {"app": label}, "annotations": {BORROWS: "false"}, "node_name": name}
            fields |= {"requests": {"cpu": "2"}, "controller": "apps/v1/StatefulSet/db"}
            self.pods.put(pod_json(f"db-{number}", uid=self._uid(), **fields))
        self.budget(allowed)
        spec: Json = {"owners": [{"pod": {"name": "web-2"}}], "resources": {"cpu": "3"}, "mayMove": asks}
        spec |= {"preemptionPolicy": "Never", "pendingDeadlineSeconds": 600}
        self.reservations.put(reservation_json("lock-2", uid=self._uid(), created=self.clock.now(), **spec))
        self.weather = weather
        self._go_on()

    @rule(number=st.sampled_from([0, 1]))
    def end(self, number: int) -> None:
        """Delete a pod that may be moved, or end it as its kubelet does if it is leaving."""
        if (key := Key("shop", f"db-{number}")) in self.pods.objects:
            self.api.end_pod(key, self.clock.now())
        self._go_on()


SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestWorld = World.TestCase
TestWorld.settings = SETTINGS
TestFragmented = Fragmented.TestCase
TestFragmented.settings = settings(SETTINGS, max_examples=(EXAMPLES + 1) // 2)
