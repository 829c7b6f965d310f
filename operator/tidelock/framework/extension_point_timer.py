"""The course of a decision through the extension points: which plugin is asked, and how long that takes.

If a plugin fails, that is an error which names it and the point. Durations are those of kube-scheduler 1.36's
metrics: of every point, and of the plugins in a sample of the decisions.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from tidelock.framework.api import Code, Plugin
from tidelock.model.printable import shortened


class PluginError(Exception):
    """A plugin failed: an error of its pod, and no rejection."""

    @classmethod
    def of(cls, point: str, plugin: str, problem: str) -> Self:
        """Return the error of a plugin at an extension point, with a problem of any length."""
        return cls(f'running {point} plugin "{plugin}": {shortened(problem)}')


class MetricsRecorder(Protocol):
    """Takes the durations of extension points and plugins, in seconds.

    Attributes:
        clock: returns seconds since any instant, and never goes back.

    """

    clock: Callable[[], float]

    def sample(self) -> bool:
        """Return whether to measure the plugins of the next decision."""

    def passed(self, point: str, code: Code, profile: str, seconds: float) -> None:
        """Measure an extension point."""

    def ran(self, plugin: str, point: str, code: Code, seconds: float) -> None:
        """Measure a plugin."""


class ExtensionPointTimer:
    """Measures a decision. It is a context manager, and its end ends the last extension point.

    Attributes:
        code: the outcome of the last plugin, or of the extension point after `leave`.
        sampled: whether plugins are measured.

    """

    __slots__ = ("_entered", "_plugin", "_point", "_profile", "_recorder", "_since", "code", "sampled")

    def __init__(self, profile: str = "", recorder: MetricsRecorder | None = None) -> None:
        """Begin a decision for a profile. Nothing is measured without a recorder."""
        self._profile = profile
        self._recorder = recorder
        self._point = ""
        self._plugin: Plugin | None = None
        self._entered = self._since = 0.0
        self.code = Code.SUCCESS
        self.sampled = recorder is not None and recorder.sample()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        plugin, point = self._plugin, self._point
        self.leave(Code.SUCCESS if error is None else Code.ERROR)
        if isinstance(error, Exception) and not isinstance(error, PluginError) and plugin is not None:
            raise PluginError.of(point, plugin.name, f"{type(error).__name__}: {error}") from error

    def enter(self, point: str) -> None:
        """Begin an extension point, after the success of the one before."""
        if self._point:
            self.leave(Code.SUCCESS)
        self._point = point
        if self._recorder is not None:
            self._entered = self._recorder.clock()

    def ask(self, plugin: Plugin) -> None:
        """Note that a plugin is called next, and that the one before has answered with `code`."""
        if self.sampled and self._recorder is not None:
            self._measure(self._recorder, plugin)
        self._plugin, self.code = plugin, Code.SUCCESS

    def leave(self, code: Code) -> None:
        """End an extension point with its outcome, if there is one to end."""
        if self._recorder is not None and self._point:
            if self.sampled:
                self.code = Code.ERROR if code is Code.ERROR else self.code
                self._measure(self._recorder, None)
            self._recorder.passed(self._point, code, self._profile, self._recorder.clock() - self._entered)
        self._point, self._plugin = "", None

    def now(self) -> float:
        """Begin to measure a plugin outside of its extension point. `aside` takes the result."""
        return self._recorder.clock() if self.sampled and self._recorder is not None else 0.0

    def aside(self, plugin: Plugin, point: str, since: float) -> None:
        """Measure a plugin that was called outside of its extension point, about hypothetical nodes."""
        if self.sampled and self._recorder is not None:
            self._recorder.ran(plugin.name, point, Code.SUCCESS, self._recorder.clock() - since)

    def fail(self, plugin: Plugin, reasons: tuple[str, ...]) -> PluginError:
        """Return the error of a plugin with an error status."""
        return PluginError.of(self._point, plugin.name, ", ".join(reasons))

    def _measure(self, recorder: MetricsRecorder, following: Plugin | None) -> None:
        """Measure the plugin that was asked last, and begin with the one that follows."""
        now = recorder.clock()
        if self._plugin is not None:
            recorder.ran(self._plugin.name, self._point, self.code, now - self._since)
        self._since = now
        if following is None:
            self._plugin = None
