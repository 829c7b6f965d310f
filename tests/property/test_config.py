"""Configurations: valid ones mean the same as in kube-scheduler, all others end in one clear error."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from property.oracles import profiles as oracle
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.framework.api import Filter, Handle, Mask, Score, Scores
from tidelock.framework.config import Builtins, read_configuration
from tidelock.framework.config_file import ConfigurationError
from tidelock.framework.profile import Enabled, PluginFactory, build_profiles
from tidelock.ledger.ledger import Ledger
from tidelock.plugins.default_binder import DefaultBinder
from tidelock.plugins.priority_sort import PrioritySort
from tidelock.plugins.registry import BUILTINS

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}

Json = dict[str, Any]


class Sieve(Filter):
    """A plugin that only filters."""

    def filter(self, *_: Any) -> Mask:
        raise NotImplementedError

    def reasons(self, *_: Any) -> tuple[str, ...]:
        raise NotImplementedError


class Scale(Score):
    """A plugin that only scores."""

    def score(self, *_: Any) -> Scores:
        raise NotImplementedError


class Both(Sieve, Scale):
    """A plugin that filters and scores."""


KINDS: Mapping[str, type[Filter | Score]] = {
    name: type(name, (base,), {"name": name})
    for name, base in (("A", Both), ("B", Both), ("C", Scale), ("D", Sieve), ("E", Both), ("F", Scale))
}
DEFAULTS = (("A", 3), ("C", 2), ("B", 1), ("D", 1))
TOY = Builtins(
    registry={"PrioritySort": PrioritySort, "DefaultBinder": DefaultBinder, **KINDS},
    defaults=(Enabled("PrioritySort"), *(Enabled(*entry) for entry in DEFAULTS)),
)

names = st.sampled_from(sorted(KINDS))


def listed(allowed: st.SearchStrategy[str]) -> st.SearchStrategy[oracle.Listed]:
    """Draw lists of plugins, with a few duplicates."""
    entries = st.lists(st.tuples(allowed, st.integers(0, 9)), max_size=4)
    return st.builds(
        oracle.Listed,
        entries.map(tuple),
        st.lists(st.one_of(names, st.just("*")), max_size=2).map(tuple),
    )


def plain(said: oracle.Listed) -> Json:
    return {
        "enabled": [{"name": name, "weight": weight} for name, weight in said.enabled],
        "disabled": [{"name": name} for name in said.disabled],
    }


def load(_: object) -> dict[str, PluginFactory]:
    return {}


def build(document: object, builtins: Builtins) -> Any:
    """Build profiles from the text of a configuration."""
    configuration = read_configuration(json.dumps(document), builtins, load)
    columns = Columns()
    handle = Handle(Ledger(columns).plugin_view, Cache(columns))
    return build_profiles(configuration.profiles, configuration.registry, handle)


@given(
    listed(names),
    listed(st.sampled_from([name for name, kind in KINDS.items() if issubclass(kind, Filter)])),
    listed(st.sampled_from([name for name, kind in KINDS.items() if issubclass(kind, Score)])),
)
def test_plugins_run_at_the_same_points_in_the_same_order_as_in_kube_scheduler(
    multi_point: oracle.Listed, filters: oracle.Listed, scores: oracle.Listed
) -> None:
    sorting = {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}]}
    plugins = {
        "multiPoint": plain(multi_point),
        "queueSort": sorting,
        "bind": {"enabled": [{"name": "DefaultBinder"}]},
        "filter": plain(filters),
        "score": plain(scores),
    }
    document = {**HEAD, "profiles": [{"plugins": plugins}]}
    general = oracle.merge(DEFAULTS, multi_point)
    try:
        filtering = oracle.expand(general, filters, {n: issubclass(k, Filter) for n, k in KINDS.items()})
        scoring = oracle.expand(general, scores, {n: issubclass(k, Score) for n, k in KINDS.items()})
    except oracle.TwiceError:
        with pytest.raises(ConfigurationError, match="enabled twice"):
            build(document, TOY)
        return

    made = build(document, TOY)["default-scheduler"]

    assert [plugin.name for plugin in made.filter] == [name for name, _ in filtering]
    assert [(plugin.name, weight) for plugin, weight in made.score] == scoring


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["*", "NodeResourcesFit", "Reservation", "PrioritySort", "5s", "http://a"]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
plugin_names = st.one_of(st.sampled_from([*BUILTINS.registry, "*", "DynamicResources"]), scalars)


def objects(fields: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Draw objects with most of the fields, sometimes with invalid values or an unknown field."""
    loose = {name: st.one_of(value, value, value, anything) for name, value in fields.items()}
    right = st.fixed_dictionaries({}, optional=loose)
    return st.one_of(right, right, right, st.builds(lambda r, k, v: {**r, k: v}, right, st.text(), anything))


entries = st.lists(objects({"name": plugin_names, "weight": st.integers(-1, 3)}), max_size=2)
sets = objects({"enabled": entries, "disabled": entries})
points = ("multiPoint", "filter", "score", "queueSort", "bind", "preEnqueue", "placementScore")
profile_objects = objects(
    {
        "schedulerName": st.sampled_from(["a", "b", ""]),
        "percentageOfNodesToScore": st.integers(-1, 101),
        "plugins": objects(dict.fromkeys(points, sets)),
        "pluginConfig": st.lists(objects({"name": plugin_names, "args": anything}), max_size=2),
    }
)
extender_objects = objects(
    {
        "urlPrefix": st.sampled_from(["http://a", "ftp://a", ""]),
        "prioritizeVerb": st.just("prioritize"),
        "weight": st.integers(-1, 2),
        "httpTimeout": st.sampled_from(["5s", "-5s", "5"]),
        "tlsConfig": objects({"insecure": st.booleans(), "caData": st.sampled_from(["YQ==", "?"])}),
        "managedResources": st.lists(
            objects(
                {"name": st.sampled_from(["a.io/b", "cpu", "a/b/c"]), "ignoredByScheduler": st.booleans()}
            ),
            max_size=2,
        ),
    }
)
documents = objects(
    {
        "parallelism": st.integers(-1, 2),
        "podInitialBackoffSeconds": st.integers(-1, 12),
        "podMaxBackoffSeconds": st.integers(-1, 12),
        "profiles": st.lists(profile_objects, max_size=2),
        "extenders": st.lists(extender_objects, max_size=2),
        "leaderElection": objects({"leaderElect": st.booleans(), "leaseDuration": st.just("15s")}),
    }
)


@given(documents)
def test_a_configuration_is_read_or_refused_in_one_line(document: Any) -> None:
    whole = {**HEAD, **document} if isinstance(document, dict) else document
    told, made = "", {}
    try:
        made = build(whole, BUILTINS)
    except ConfigurationError as error:
        told = str(error)

    assert bool(told) is not bool(made)
    assert "\n" not in told
    assert all("Reservation" in [plugin.name for plugin in profile.filter] for profile in made.values())


@given(st.text(max_size=60))
def test_random_text_is_refused_as_a_configuration(text: str) -> None:
    with pytest.raises(ConfigurationError):
        read_configuration(text, BUILTINS, load)
