"""Faults that are planted in an operator's process: a step fails for each object that is named after it.

`offer` installs a plugin as users do (docs/writing-a-plugin.md). The plugin fails at its extension points for
pods that are named `fails-…`. Its constructor also plants faults in steps that no plugin reaches.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import iscoroutinefunction
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    SUCCESS,
    EnqueueExtensions,
    Filter,
    Handle,
    Mask,
    PreBind,
    PreEnqueue,
    Reserve,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import ANY_EVENT, Registration
from tidelock.framework.installed import ENTRY_POINT_GROUP
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.endings import Endings
from tidelock.model import reservation
from tidelock.model.pods import Pod
from tidelock.scheduler.actions.binding import Binder
from tidelock.scheduler.actions.status_writer import StatusWriter
from tidelock.scheduler.controllers.groups import GroupController
from tidelock.scheduler.controllers.quotas import QuotaController
from tidelock.scheduler.controllers.quotes import QuoteController
from tidelock.scheduler.controllers.schedules import ScheduleController

# Each method fails for the objects that have the word in their names.
STEPS: tuple[tuple[Any, str, str], ...] = (
    (Ledger, "upsert", "event"),
    (Ledger, "remove", "removal"),
    (Endings, "_expire", "due"),
    (Cache, "upsert", "event"),
    (Cache, "put_node", "event"),
    (GroupController, "_desired_state", "keeping"),
    (ScheduleController, "_desired_state", "keeping"),
    (StatusWriter, "_status_difference", "status"),
    (StatusWriter, "_is_in_first_status", "telling"),
    (StatusWriter, "_audit", "audit"),
    (QuotaController, "_wanted", "status"),
    (QuoteController, "_judge", "quote"),
    (Binder, "_look_up", "look-up"),
    (Binder, "_write_unschedulable", "condition"),
    (reservation, "make_reserve_pod", "decoding"),
)


# How often a step fails, if it does not fail every time.
_TIMES: Mapping[str, int] = MappingProxyType({"removal": 2})
_failed: Counter[tuple[str, str]] = Counter()


class Planted(Filter, PreEnqueue, EnqueueExtensions, Reserve, PreBind):
    """Fails for pods, and reserve pods, that are named after the extension point."""

    name = "Planted"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        """Plant the other faults, too."""
        super().__init__(handle, args)
        for owner, method, word in STEPS:
            _plant(owner, method, word)

    def pre_enqueue(self, pod: Pod) -> Status:
        """Fail for `fails-gate`."""
        _fail("gate", pod)
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Mask:
        """Fail for `fails-decision`, and rule out all nodes for `fails-hint` so that its hint is called."""
        del state
        _fail("decision", pod)
        fits: Mask = np.full(len(snapshot), "fails-hint" not in pod.meta.name)
        return fits

    def reasons(self, state: CycleState, pod: Pod, snapshot: Snapshot, row: int) -> tuple[str, ...]:
        """Return that a test ruled the node out."""
        del state, pod, snapshot, row
        return ("node(s) that were ruled out by a test",)

    def events_to_register(self) -> Sequence[Registration]:
        """Register for all events, with a hint that fails for `fails-hint`."""
        return (replace(ANY_EVENT, hint=_hint),)

    def reserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> Status:
        """Accept every pod."""
        del state, pod, node_name, now
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str, now: float) -> None:
        """Fail for `fails-binding`, after its binding has failed."""
        del state, node_name, now
        _fail("binding", pod)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Fail for `fails-binding`."""
        del state, node_name
        _fail("binding", pod)
        return SUCCESS


def _hint(pod: Pod, _old: Any, _new: Any) -> bool:
    _fail("hint", pod)
    return False


def _plant(owner: Any, method: str, word: str) -> None:
    original: Callable[..., Any] = getattr(owner, method)

    def fails(*arguments: Any, **options: Any) -> Any:
        for each in arguments:
            _fail(word, each)
        return original(*arguments, **options)

    async def fails_later(*arguments: Any, **options: Any) -> Any:
        return await fails(*arguments, **options)

    setattr(owner, method, fails_later if iscoroutinefunction(original) else fails)


def _fail(word: str, about: Any) -> None:
    """Raise an error for an object that is named after a step, unless it stands for an unusable one."""
    for part in ("reservation", "pod", "meta"):
        about = getattr(about, part, about)
    name = getattr(about, "name", None)
    if not isinstance(name, str) or f"fails-{word}" not in name or getattr(about, "faults", None):
        return
    _failed[word, name] += 1
    if _failed[word, name] <= _TIMES.get(word, inf):
        raise LookupError(f"planted in {word}")


def offer(folder: Path) -> None:
    """Install the plugin into a folder of PYTHONPATH, as a distribution that offers it."""
    info = folder / "planted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\nPlanted = attacks.planted:Planted\n")
