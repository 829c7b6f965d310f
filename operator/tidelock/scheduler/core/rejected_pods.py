"""The pods of the queue by the plugins that have rejected them.

Semantics of the PreQueueingHints of kube-scheduler 1.37 (backend/queue/scheduling_queue.go): an event of a
claim concerns only the pods that name it, as far as the plugin's registration says so. A pod that waits for
its claim is thus not compared with all other claims that come.
"""

from collections import defaultdict
from collections.abc import Mapping

from tidelock.framework.events import Resource
from tidelock.scheduler.core.queued_pod import PluginKey, QueuedPodInfo
from tidelock.scheduler.core.queued_pods import QueuedPods
from tidelock.scheduler.core.queueing_hints import QueueEvent, QueueingHints


class RejectedPods:
    """The pods that wait for an event, by plugin."""

    def __init__(self, hints: QueueingHints, queued: QueuedPods) -> None:
        self._hints = hints
        self._queued = queued
        self._by_plugin: defaultdict[PluginKey, dict[str, QueuedPodInfo]] = defaultdict(dict)

    def __bool__(self) -> bool:
        """Return whether any pod waits for an event."""
        return bool(self._by_plugin)

    def of(self, plugin: PluginKey) -> Mapping[str, QueuedPodInfo]:
        """Return the pods that a plugin has rejected or gates, by their uids."""
        return self._by_plugin.get(plugin, {})

    def add(self, waiting: QueuedPodInfo, plugins: tuple[PluginKey, ...]) -> None:
        """Let a pod wait for events of the plugins that have rejected it or gate it."""
        waiting.indexed = plugins
        for plugin in plugins:
            self._by_plugin[plugin][waiting.pod.uid] = waiting

    def discard(self, waiting: QueuedPodInfo) -> None:
        """Let a pod wait no longer."""
        for plugin in waiting.indexed:
            del self._by_plugin[plugin][waiting.pod.uid]
            if not self._by_plugin[plugin]:
                del self._by_plugin[plugin]
        waiting.indexed = ()

    def concerned_by(self, resource: Resource, event: QueueEvent) -> list[QueuedPodInfo]:
        """Return the pods that an event may concern. The hints decide which of them it helps."""
        found: dict[str, QueuedPodInfo] = {}
        for plugin, registrations in event.listeners.items():
            pods = self._by_plugin.get(plugin)
            if pods is None:
                continue
            if self._hints.only_users(registrations, event):
                thing = event.old if event.new is None else event.new
                users = self._queued.users((resource, thing.meta.key))
                found.update((uid, pods[uid]) for uid in users if uid in pods)
            else:
                found.update(pods)
        return list(found.values())
