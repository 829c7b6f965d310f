"""Configuration files of a few toy plugins, and the profiles that result."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.framework.api import SUCCESS, Filter, Handle, Mask, Reserve, Score, Scores
from tidelock.framework.config import Builtins, Configuration, read_configuration
from tidelock.framework.config_file import ConfigurationError
from tidelock.framework.profile import Enabled, PluginFactory, Profile, build_profiles
from tidelock.ledger.ledger import Ledger
from tidelock.plugins.default_binder import DefaultBinder
from tidelock.plugins.priority_sort import PrioritySort

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Plain(Filter, Score):
    """A plugin that extends Filter and Score, and is never run."""

    def filter(self, *_: Any) -> Mask:
        raise NotImplementedError

    def reasons(self, *_: Any) -> tuple[str, ...]:
        raise NotImplementedError

    def score(self, *_: Any) -> Scores:
        raise NotImplementedError


class Alpha(Plain):
    name = "Alpha"


class Beta(Plain):
    name = "Beta"


class Gamma(Plain):
    name = "Gamma"


class Keeper(Filter, Reserve):
    """A plugin that must not be disabled."""

    name = "Keeper"

    def filter(self, *_: Any) -> Mask:
        raise NotImplementedError

    def reasons(self, *_: Any) -> tuple[str, ...]:
        raise NotImplementedError

    def reserve(self, *_: Any) -> Any:
        return SUCCESS

    def unreserve(self, *_: Any) -> None:
        pass


class Lifo(PrioritySort):
    name = "Lifo"


class Picky(Plain):
    name = "Picky"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        self.limit = args.pop("limit")["most"]
        super().__init__(handle, args)


FOREIGN: dict[str, PluginFactory] = {"Picky": Picky}
TOY = Builtins(
    registry={kind.name: kind for kind in (PrioritySort, Lifo, Alpha, Beta, Gamma, Keeper, DefaultBinder)},
    defaults=(
        Enabled("PrioritySort"),
        Enabled("Alpha", 3),
        Enabled("Keeper"),
        Enabled("Beta", 2),
        Enabled("DefaultBinder"),
    ),
    kept=frozenset({"Keeper"}),
    needed={"Keeper": ("filter", "reserve")},
)


def load(names: Collection[str]) -> Mapping[str, PluginFactory]:
    return {name: FOREIGN[name] for name in names if name in FOREIGN}


def read(text: str, builtins: Builtins = TOY) -> Configuration:
    return read_configuration(HEAD + text, builtins, load)


def profiles(text: str, builtins: Builtins = TOY) -> list[Profile]:
    configuration, columns = read(text, builtins), Columns()
    handle = Handle(Ledger(columns).plugin_view, Cache(columns))
    return list(build_profiles(configuration.profiles, configuration.registry, handle).values())


def profile(plugins: str) -> Profile:
    """Return a profile with these plugins, in YAML's flow style."""
    (made,) = profiles(f"profiles: [{{plugins: {plugins}}}]")
    return made


def filters(made: Profile) -> list[str]:
    return [plugin.name for plugin in made.filter]


def scores(made: Profile) -> list[tuple[str, int]]:
    return [(plugin.name, weight) for plugin, weight in made.score]


def refusal(text: str, builtins: Builtins = TOY) -> str:
    with pytest.raises(ConfigurationError) as refused:
        profiles(text, builtins)
    assert "\n" not in str(refused.value)
    return str(refused.value)
