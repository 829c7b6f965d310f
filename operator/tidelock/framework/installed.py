"""Plugins of users: other distributions offer them as entry points of the group `tidelock.plugins`."""

from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

from tidelock.framework.config_file import ConfigurationError, refuse
from tidelock.framework.profile import PluginFactory

ENTRY_POINT_GROUP = "tidelock.plugins"


def load_plugins(
    names: Collection[str],
    builtin: Collection[str],
    offered: Iterable[EntryPoint] | None = None,
) -> Mapping[str, PluginFactory]:
    """Import those of some plugins that are installed, and nothing more.

    Args:
        names: the wanted plugins.
        builtin: names that no distribution may use.
        offered: the entry points, by default those of all distributions.

    Raises:
        ConfigurationError: a name is taken already or twice, or the plugin can't be imported.

    """
    points: dict[str, EntryPoint] = {}
    problems = []
    for point in entry_points(group=ENTRY_POINT_GROUP) if offered is None else offered:
        if point.name in builtin:
            problems.append(f"{_source(point)}: plugin {point.name}: there is a built-in plugin of that name")
        elif point.name in points and points[point.name] != point:
            problems.append(
                f"{_source(point)}: plugin {point.name}: {_source(points[point.name])} has one of that name"
            )
        points[point.name] = point
    refuse(problems)
    return {name: _load(points[name]) for name in sorted(names) if name in points}


def _load(point: EntryPoint) -> PluginFactory:
    try:
        factory = point.load()
    except Exception as error:  # a module of another author may raise anything
        text = f"{_source(point)}: plugin {point.name} can't be imported from {point.value}: {error!r}"
        raise ConfigurationError(text) from error
    if not callable(factory):
        raise ConfigurationError(f"{_source(point)}: plugin {point.name}: {point.value} is not callable")
    made: PluginFactory = factory
    return made


def _source(point: EntryPoint) -> str:
    return f"distribution {point.dist.name} {point.dist.version}" if point.dist else "an unnamed distribution"
