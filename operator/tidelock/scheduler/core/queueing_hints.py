"""Decides which events can make a rejected pod schedulable, by the hints of the plugins that rejected it.

Semantics of kube-scheduler 1.37 (backend/queue/scheduling_queue.go and active_queue.go).
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from itertools import islice
from typing import Any

from tidelock.framework.api import EnqueueExtensions
from tidelock.framework.events import ANY_EVENT, ClusterEvent, Hint, Registration
from tidelock.framework.profile import Profile
from tidelock.ledger.queue.waiting import MOST_COMPARED
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.failures import Attempt, OnFailure
from tidelock.model.meta import Key
from tidelock.model.pod_limits import excess_of_decided
from tidelock.model.pods import Pod
from tidelock.plugins.extender import ExtenderAdvice
from tidelock.scheduler.core.queued_pod import PluginKey, QueuedPodInfo

Listeners = dict[PluginKey, tuple[Registration, ...]]
"""The plugins that have registered an event, with their registrations."""


class QueueingHint(IntEnum):
    """The effect of an event on a pod. The largest of several counts."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """An event with the object before and after it.

    Hints do not look at a pod that is too large, since they run for each pod that waits. It counts as a yes.

    Attributes:
        listeners: the plugins that have registered it.
        old: the object before, or None.
        new: the object after, or None.
        but: UID of a pod that it can't help.
        target: UID of the only pod that it may help, as it is an update of that pod.
        alone: UID of the only pod that it helps.
        too_large: whether the object is a pod beyond the limits of pods that are decided.

    """

    listeners: Listeners
    old: Any
    new: Any
    but: str = ""
    target: str = ""
    alone: str = ""
    too_large: bool = False

    @classmethod
    def of(cls, listeners: Listeners, old: Any, new: Any, but: str = "") -> "QueueEvent":
        """Return an event of the cluster."""
        too_large = any(isinstance(each, Pod) and bool(excess_of_decided(each)) for each in (old, new))
        return cls(listeners, old, new, but=but, too_large=too_large)


class QueueingHints:
    """The events that plugins have registered."""

    def __init__(self, profiles: Mapping[str, Profile], on_failure: OnFailure) -> None:
        self._on_failure = on_failure
        self._registered = {
            (name, plugin.name): _registrations(plugin)
            for name, profile in profiles.items()
            for plugin in profile.plugins.values()
        } | {(name, ExtenderAdvice.name): (ANY_EVENT,) for name in profiles}
        self._listeners: dict[ClusterEvent, Listeners] = {}

    def listeners(self, event: ClusterEvent) -> Listeners:
        """Return the plugins that have registered an event. They are looked up once for each event."""
        found = self._listeners.get(event)
        if found is None:
            covering = {
                plugin: tuple(each for each in registrations if each.event.covers(event))
                for plugin, registrations in self._registered.items()
            }
            found = self._listeners[event] = {plugin: some for plugin, some in covering.items() if some}
        return found

    def rejectors(self, waiting: QueuedPodInfo) -> tuple[PluginKey, ...]:
        """Return the plugins that have rejected a pod and registered events, by name."""
        profile = waiting.profile.scheduler_name
        plugins = ((profile, name) for name in sorted(waiting.plugins | waiting.pending))
        return tuple(plugin for plugin in plugins if plugin in self._registered)

    def hint(self, waiting: QueuedPodInfo, plugins: Iterable[PluginKey], event: QueueEvent) -> QueueingHint:
        """Return the effect of an event on a pod that these plugins have rejected or gate."""
        uid = waiting.pod.uid
        if event.alone:
            return QueueingHint.AFTER_BACKOFF if event.alone == uid else QueueingHint.SKIP
        if event.but == uid or event.target not in ("", uid):
            return QueueingHint.SKIP  # the pod itself left its node, or another one was updated
        result = QueueingHint.SKIP
        for plugin in plugins:
            for each in event.listeners.get(plugin, ()):
                if not self._helps(each.hint, waiting.pod, event):
                    continue
                if plugin[1] in waiting.pending:
                    return QueueingHint.IMMEDIATELY
                result = QueueingHint.AFTER_BACKOFF
                break
        return result

    def help_reservations(
        self, refused_by: Mapping[str, Mapping[Key, ReservationInfo]], event: ClusterEvent, old: Any, new: Any
    ) -> bool:
        """Return whether an event may help a reservation, by the plugins that have refused it.

        A plugin that has refused many is not asked about each of them: all are tried again.
        """
        change = QueueEvent.of({}, old, new)
        for (_, plugin), registrations in self.listeners(event).items():
            entries = refused_by.get(plugin, {})
            pods = (entry.reservation.pod for entry in entries.values())
            if len(entries) > MOST_COMPARED or any(
                pod is None or self._helps(each.hint, pod, change) for pod in pods for each in registrations
            ):
                return True
        return False

    def only_users(self, registrations: Sequence[Registration], event: QueueEvent) -> bool:
        """Return whether an event of a claim concerns only the pods that name it, by all of a plugin's hints.

        A hint that fails counts as a no, as another pod might wait for ever otherwise.
        """
        asked = [each.only_users for each in registrations if each.only_users is not None]
        if len(asked) < len(registrations):
            return False
        thing = event.old if event.new is None else event.new
        with Attempt(partial(self._on_failure, "hint", "", thing.meta)):
            return all(only_users(event.old, event.new) for only_users in asked)
        return False

    def _helps(self, hint: Hint | None, pod: Pod, event: QueueEvent) -> bool:
        """Call a hint. A hint that fails counts as a yes, as the pod might wait for ever otherwise."""
        if hint is None or event.too_large:
            return True
        with Attempt(partial(self._on_failure, "hint", "Pod", pod.meta)):
            return hint(pod, event.old, event.new)
        return True


class InFlightEvents:
    """The events since the oldest pod in flight was popped: they may help a pod that comes back."""

    def __init__(self) -> None:
        self._pods: OrderedDict[str, int] = OrderedDict()  # the number of events before each pod
        self._events: deque[QueueEvent] = deque()
        self._dropped = 0

    def __bool__(self) -> bool:
        """Return whether any pod is in flight."""
        return bool(self._pods)

    def begin(self, uid: str) -> None:
        """Keep events for a pod from now on."""
        self._pods[uid] = self._dropped + len(self._events)

    def add(self, event: QueueEvent) -> None:
        """Keep an event."""
        self._events.append(event)

    def since(self, uid: str) -> Iterator[QueueEvent]:
        """Return the events since a pod was popped, the newest first; none if the pod is not in flight."""
        now = self._dropped + len(self._events)
        return islice(reversed(self._events), now - self._pods.get(uid, now))

    def end(self, uid: str) -> None:
        """Drop the events that were kept for a pod alone."""
        if self._pods.pop(uid, None) is not None:
            oldest = next(iter(self._pods.values()), self._dropped + len(self._events))
            while self._dropped < oldest:
                self._events.popleft()
                self._dropped += 1


def _registrations(plugin: object) -> tuple[Registration, ...]:
    return tuple(plugin.events_to_register()) if isinstance(plugin, EnqueueExtensions) else (ANY_EVENT,)
