"""The operator with events and answers that come late, out of order or twice, or get lost."""

import os
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from builders import Json, pod_json, reservation_json
from property.ledger_draws import (
    APPS,
    LENDING,
    MAY_MOVE,
    NUMBERS,
    SIZES,
    WEATHER,
    Weather,
)
from property.ledger_world import World
from property.model_api import RefusedError
from property.process import Process
from sampling import sample
from tidelock.model.meta import Key
from tidelock.model.pods import BORROWS

EXPLORES = settings.get_current_profile_name() == "explore"
EXAMPLES = int(os.environ.get("TIDELOCK_LEDGER_EXAMPLES", 20000 if EXPLORES else sample(80, 200)))

# An exploration may take as long as it needs.
pytestmark = [pytest.mark.timeout(0)] if EXPLORES else []


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


class Edited(World):
    """The same world with reservations that get capacity, and with edits that may never be granted."""

    @initialize(
        shapes=st.tuples(SIZES, SIZES, SIZES), lending=st.tuples(LENDING, LENDING, LENDING), weather=WEATHER
    )
    def begin(
        self, shapes: tuple[Json, Json, Json], lending: tuple[Json, Json, Json], weather: Weather
    ) -> None:
        """Begin with a reservation for each pod."""
        for name in ("node-a", "node-b"):
            self._put_node(name, "4")
        for number, (shape, lends) in enumerate(zip(shapes, lending, strict=True)):
            spec: Json = {"owners": [{"pod": {"name": f"web-{number}"}}], "preemptionPolicy": "Never"}
            spec |= shape | lends | {"pendingDeadlineSeconds": 600}
            made = reservation_json(f"lock-{number}", uid=self._uid(), created=self.clock.now(), **spec)
            self.reservations.put(made)
        self._go_on()
        self.weather = weather

    @rule(number=NUMBERS, shape=SIZES, then=st.sampled_from(["go on", "go on", "crash"]))
    def resize(self, number: int, shape: Json, then: str) -> None:
        """Edit the size or the template of a reservation, and let another process go on, or this one."""
        if (key := Key("shop", f"lock-{number}")) in self.reservations.objects:
            with suppress(RefusedError):
                self.api.edit_spec(key, **shape)
        if then == "crash":
            self.process = Process(self.api, self.clock, self.api.elect())
            self.observer.follow(self.process)
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
TestEdited = Edited.TestCase
TestEdited.settings = settings(SETTINGS, max_examples=(EXAMPLES + 1) // 2)
