"""A profile: which plugins run for the pods of one schedulerName, in which order and with which weight."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tidelock.framework.api import (
    Bind,
    Filter,
    Handle,
    Permit,
    Plugin,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    QueueSort,
    Reserve,
    Score,
)

PluginFactory = Callable[[Handle, dict[str, Any]], Plugin]

P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin of a profile; the weight counts where it scores."""

    name: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins of a schedulerName by extension point, each in the order in which they run."""

    scheduler_name: str
    queue_sort: QueueSort
    pre_enqueue: tuple[PreEnqueue, ...]
    pre_filter: tuple[PreFilter, ...]
    filter: tuple[Filter, ...]
    post_filter: tuple[PostFilter, ...]
    pre_score: tuple[PreScore, ...]
    score: tuple[tuple[Score, int], ...]
    reserve: tuple[Reserve, ...]
    permit: tuple[Permit, ...]
    pre_bind: tuple[PreBind, ...]
    bind: tuple[Bind, ...]
    post_bind: tuple[PostBind, ...]

    @property
    def plugins(self) -> dict[str, Plugin]:
        """All plugins by name."""
        points = (
            (self.queue_sort,),
            self.pre_enqueue,
            self.pre_filter,
            self.filter,
            self.post_filter,
            self.pre_score,
            tuple(plugin for plugin, _ in self.score),
            self.reserve,
            self.permit,
            self.pre_bind,
            self.bind,
            self.post_bind,
        )
        return {plugin.name: plugin for plugins in points for plugin in plugins}


def build_profile(
    scheduler_name: str,
    enabled: Sequence[Enabled],
    registry: Mapping[str, PluginFactory],
    handle: Handle,
    args: Mapping[str, dict[str, Any]] | None = None,
) -> Profile:
    """Make the plugins of a profile.

    Raises:
        ValueError: a plugin is unknown, its args are wrong, or there is not exactly one QueueSort.

    """
    unknown = sorted({plugin.name for plugin in enabled} - registry.keys())
    if unknown:
        raise ValueError(f"profile {scheduler_name}: unknown plugins {', '.join(unknown)}")
    configured = args or {}
    plugins = [(registry[e.name](handle, configured.get(e.name, {})), e.weight) for e in enabled]

    def of(kind: type[P]) -> tuple[P, ...]:
        return tuple(plugin for plugin, _ in plugins if isinstance(plugin, kind))

    sorters = of(QueueSort)
    if len(sorters) != 1:
        raise ValueError(
            f"profile {scheduler_name}: exactly one QueueSort plugin is needed, got {len(sorters)}"
        )
    return Profile(
        scheduler_name=scheduler_name,
        queue_sort=sorters[0],
        pre_enqueue=of(PreEnqueue),
        pre_filter=of(PreFilter),
        filter=of(Filter),
        post_filter=of(PostFilter),
        pre_score=of(PreScore),
        score=tuple((plugin, weight) for plugin, weight in plugins if isinstance(plugin, Score)),
        reserve=of(Reserve),
        permit=of(Permit),
        pre_bind=of(PreBind),
        bind=of(Bind),
        post_bind=of(PostBind),
    )
