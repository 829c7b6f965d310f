"""A state machine of the ledger: users, a cluster, and an operator behind an unreliable network."""

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from builders import NOW, SCHEDULER, Json, node_json, pod_json, reservation_json
from property.creations import Creation, answer_in
from property.invariants import Observer
from property.ledger_draws import (
    ACCIDENTS,
    ALONE,
    BEGINNINGS,
    COMMITS,
    CPUS,
    EDITS,
    ENDS,
    FATES,
    GPU,
    LEASES,
    LENDING,
    LIMITS,
    MOVES,
    NAMES,
    NODE_CPUS,
    NODES,
    NUMBERS,
    OWNERS,
    PLACES,
    PLANS,
    POD_KINDS,
    RANKED,
    RANKS,
    RUNS,
    SECONDS,
    SETS,
    SHARING,
    SIZES,
    SKEWS,
    TOKENS,
    TROUBLES,
    WEATHER,
    Weather,
)
from property.model_api import ModelApi, RefusedError, ends_before_it_begins
from property.process import KINDS, Process
from property.sums import check_indexes, reservations
from tidelock.ledger.queue import waiting
from tidelock.model.answer import ANSWER, UNSEEN_SECONDS
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import BORROWS, REQUIRE_RESERVATION
from unit.scheduler.machinery import FakeClock


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
