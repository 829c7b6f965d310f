"""The assumed pods that wait for their Permit or PreBind plugins.

Semantics of kube-scheduler 1.37 (framework/runtime, waiting_pods_map.go and pods_in_prebind_map.go). Nothing
here waits: a callback gets the result, and the binder says when a plugin's time is over.
"""

from collections.abc import Callable, Iterator, Mapping

from tidelock.model.pods import Pod

MAX_WAIT = 900.0
"""Seconds that a Permit plugin can have a pod wait at most."""


class WaitingPod:
    """A waiting pod: every plugin that asked to wait must allow it, and any may reject it.

    Attributes:
        waits: the longest wait of each plugin in seconds.
        rejected_by: the plugin that rejected it, empty if the pod is gone, None while it is not rejected.
        reason: the reason of the rejection.

    """

    def __init__(self, pod: Pod, node_name: str, waits: Mapping[str, float]) -> None:
        self.pod = pod
        self.node_name = node_name
        self.waits = {plugin: min(seconds, MAX_WAIT) for plugin, seconds in waits.items()}
        self.rejected_by: str | None = None
        self.reason = ""
        self._pending = set(self.waits)
        self._on_decided: Callable[[], None] | None = None

    @property
    def pending(self) -> tuple[str, ...]:
        """Names of the plugins that have not allowed it, sorted."""
        return tuple(sorted(self._pending))

    @property
    def decided(self) -> bool:
        """Whether it need not wait any longer."""
        return self.rejected_by is not None or not self._pending

    def allow(self, plugin: str) -> None:
        """Note that a plugin has nothing against it any more."""
        if not self.decided:
            self._pending.discard(plugin)
            self._notify()

    def reject(self, plugin: str, reason: str) -> bool:
        """Reject the pod. Return whether that came in time."""
        if self.decided:
            return False
        self.rejected_by, self.reason = plugin, reason
        self._notify()
        return True

    def time_out(self, plugin: str) -> None:
        """Note that a plugin's time is over."""
        if plugin in self._pending:
            waited = format_duration(self.waits[plugin])
            self.reject(plugin, timeout_text(plugin, waited))

    def when_decided(self, callback: Callable[[], None]) -> None:
        """Call a function once it is decided."""
        self._on_decided = callback
        self._notify()

    def _notify(self) -> None:
        if self.decided and self._on_decided is not None:
            self._on_decided()


class WaitingPods:
    """The waiting pods by their uid.

    Attributes:
        in_pre_bind: by the uid of a pod whose PreBind plugins run, a function that cancels them, and returns
            whether it came in time. The binder maintains it.

    """

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self.in_pre_bind: dict[str, Callable[[], bool]] = {}

    def add(self, waiting: WaitingPod) -> None:
        """Begin to wait."""
        self._pods[waiting.pod.uid] = waiting

    def get(self, uid: str) -> WaitingPod | None:
        """Return a waiting pod, or None."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """End the waiting of a pod, if it waits."""
        self._pods.pop(uid, None)

    def preempt(self, uid: str, plugin: str) -> bool:
        """Reject a victim, or cancel its PreBind plugins. Return whether that came in time."""
        waiting = self._pods.get(uid)
        if waiting is not None:
            return waiting.reject(plugin, "preempted")
        cancel = self.in_pre_bind.pop(uid, None)
        return cancel is not None and cancel()

    def reject_removed(self, uid: str) -> None:
        """Reject a pod that is gone or was bound by another binder, if it waits."""
        waiting = self._pods.get(uid)
        if waiting is not None:
            waiting.reject("", "removed")

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)


def format_duration(seconds: float) -> str:
    """Write a duration as Go does: 90 s is `1m30s`, half a second `500ms`."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.6g}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    tail = f"{rest:.9g}s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def timeout_text(plugin: str, waited: str) -> str:
    """Say that a pod has waited for too long, in kube-scheduler's words."""
    return f"rejected due to timeout after waiting {waited} at plugin {plugin}"
