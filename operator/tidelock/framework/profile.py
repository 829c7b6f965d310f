"""A profile: which plugins run for the pods of one schedulerName, at which extension points, in which order.

Source: kube-scheduler 1.36, framework/runtime/framework.go, NewFramework and expandMultiPointPlugins.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
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
from tidelock.framework.config_file import ConfigurationError

PluginFactory = Callable[[Handle, dict[str, Any]], Plugin]

P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin of a profile. The weight counts for scorers."""

    name: str
    weight: int = 1


ALL = "*"
"""Stands for all plugins among those that are disabled."""

EXTENSION_POINTS: Mapping[str, type[Plugin]] = MappingProxyType(
    {
        "preEnqueue": PreEnqueue,
        "queueSort": QueueSort,
        "preFilter": PreFilter,
        "filter": Filter,
        "postFilter": PostFilter,
        "preScore": PreScore,
        "score": Score,
        "reserve": Reserve,
        "permit": Permit,
        "preBind": PreBind,
        "bind": Bind,
        "postBind": PostBind,
    }
)
"""Every extension point by its name in a configuration file."""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The configuration of one extension point."""

    enabled: tuple[Enabled, ...] = ()
    disabled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProfileSettings:
    """The settings of a profile.

    Attributes:
        scheduler_name: pods with this spec.schedulerName get the profile.
        enabled: plugins that run at every extension point that they implement (multiPoint).
        points: the differences from that, by extension point.
        args: args of plugins, by their names.
        kept: plugins that `*` does not disable.

    """

    scheduler_name: str
    enabled: tuple[Enabled, ...]
    points: Mapping[str, PluginSet] = field(default_factory=dict)
    args: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()

    @property
    def names(self) -> set[str]:
        """The plugins that are enabled anywhere."""
        sets = (self.enabled, *(point.enabled for point in self.points.values()))
        return {plugin.name for enabled in sets for plugin in enabled}


@dataclass(frozen=True, slots=True, eq=False)
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
    settings: ProfileSettings, registry: Mapping[str, PluginFactory], handle: Handle
) -> Profile:
    """Make the plugins of a profile, each once, and put them in order at their extension points.

    Raises:
        ConfigurationError: a plugin is unknown or enabled where it has nothing to do, its args are wrong, or
            there is not exactly one QueueSort.

    """
    name = settings.scheduler_name
    unknown = sorted(settings.names - registry.keys())
    if unknown:
        raise ConfigurationError(f"profile {name}: unknown plugins {', '.join(unknown)}")
    plugins = {plugin: _make(settings, plugin, registry[plugin], handle) for plugin in sorted(settings.names)}
    points = {point: _expand(settings, point, plugins) for point in EXTENSION_POINTS}

    def at(point: str, kind: type[P]) -> tuple[P, ...]:
        chosen = (plugins[plugin] for plugin in points[point])
        return tuple(plugin for plugin in chosen if isinstance(plugin, kind))

    sorters = at("queueSort", QueueSort)
    if len(sorters) != 1:
        raise ConfigurationError(
            f"profile {name}: exactly one QueueSort plugin is needed, got {len(sorters)}"
        )
    weights = _weights(settings)
    return Profile(
        scheduler_name=name,
        queue_sort=sorters[0],
        pre_enqueue=at("preEnqueue", PreEnqueue),
        pre_filter=at("preFilter", PreFilter),
        filter=at("filter", Filter),
        post_filter=at("postFilter", PostFilter),
        pre_score=at("preScore", PreScore),
        score=tuple((plugin, weights[plugin.name]) for plugin in at("score", Score)),
        reserve=at("reserve", Reserve),
        permit=at("permit", Permit),
        pre_bind=at("preBind", PreBind),
        bind=at("bind", Bind),
        post_bind=at("postBind", PostBind),
    )


def build_profiles(
    settings: Sequence[ProfileSettings], registry: Mapping[str, PluginFactory], handle: Handle
) -> dict[str, Profile]:
    """Make profiles by their schedulerName.

    Raises:
        ConfigurationError: one of them can't be made, can't bind pods, or sorts the one queue in another way.

    """
    profiles = {each.scheduler_name: build_profile(each, registry, handle) for each in settings}
    for name, profile in profiles.items():
        if not profile.bind:
            raise ConfigurationError(f"profile {name}: at least one Bind plugin is needed")
    first = settings[0]
    sorter = profiles[first.scheduler_name].queue_sort.name
    for other in settings[1:]:
        name = profiles[other.scheduler_name].queue_sort.name
        if name != sorter or other.args.get(name) != first.args.get(name):
            raise ConfigurationError(
                f"profile {other.scheduler_name}: plugins.queueSort: all profiles should sort by the same "
                f"plugin with the same args, and {first.scheduler_name} sorts by {sorter}"
            )
    return profiles


def _make(settings: ProfileSettings, name: str, factory: PluginFactory, handle: Handle) -> Plugin:
    try:
        plugin = factory(handle, dict(settings.args.get(name, {})))
    except ValueError as error:
        raise ConfigurationError(f"profile {settings.scheduler_name}: plugin {name}: {error}") from error
    except Exception as error:  # plugins of other authors may raise anything
        text = f"profile {settings.scheduler_name}: plugin {name} can't be made: {error!r}"
        raise ConfigurationError(text) from error
    if not isinstance(plugin, Plugin) or getattr(plugin, "name", None) != name:
        text = f"profile {settings.scheduler_name}: {name} makes {plugin!r}, which is no plugin of that name"
        raise ConfigurationError(text)
    return plugin


def _expand(settings: ProfileSettings, point: str, plugins: Mapping[str, Plugin]) -> list[str]:
    """Return the plugins of an extension point in their order.

    First come those of multiPoint that the extension point lists too, in its own order, then the rest of
    multiPoint, then the rest of the list. Disabled plugins are only left out of multiPoint.
    """
    kind, own = EXTENSION_POINTS[point], settings.points.get(point, PluginSet())
    where = f"profile {settings.scheduler_name}: plugins.{point}"
    listed = [plugin.name for plugin in own.enabled]
    for name in listed:
        if not isinstance(plugins[name], kind):
            raise ConfigurationError(f"{where}: plugin {name} does not extend {kind.__name__}")
    general = [
        plugin.name
        for plugin in settings.enabled
        if isinstance(plugins[plugin.name], kind) and plugin.name not in own.disabled
    ]
    if ALL in own.disabled:
        kept = [name for name in general if name in settings.kept and name not in listed]
        return _once([*listed, *kept], where)
    overridden = [name for name in listed if name in general]
    others = [name for name in general if name not in listed]
    return _once([*overridden, *others, *(name for name in listed if name not in general)], where)


def _once(names: list[str], where: str) -> list[str]:
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigurationError(f"{where}: enabled twice: {', '.join(doubled)}")
    return names


def _weights(settings: ProfileSettings) -> dict[str, int]:
    """Return the weight of each scorer. The one of the extension point precedes the one of multiPoint."""
    listed: Iterable[Enabled] = settings.points.get("score", PluginSet()).enabled
    return {plugin.name: plugin.weight or 1 for plugin in (*settings.enabled, *listed)}
