from collections.abc import Collection, Mapping
from typing import Any

import pytest

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.framework.api import SUCCESS, Filter, Handle, Mask, Reserve, Score, Scores
from tidelock.framework.config import Builtins, Configuration, read_configuration
from tidelock.framework.configfile import ConfigurationError
from tidelock.framework.profile import Enabled, PluginFactory, Profile, build_profiles
from tidelock.ledger.book import Book
from tidelock.plugins.priority_sort import PrioritySort
from tidelock.plugins.registry import BUILTINS

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Plain(Filter, Score):
    """Filters and scores, without an opinion."""

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
    """What must not be switched off."""

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
    registry={kind.name: kind for kind in (PrioritySort, Lifo, Alpha, Beta, Gamma, Keeper)},
    defaults=(Enabled("PrioritySort"), Enabled("Alpha", 3), Enabled("Keeper"), Enabled("Beta", 2)),
    kept=frozenset({"Keeper"}),
    needed={"Keeper": ("filter", "reserve")},
)


def load(names: Collection[str]) -> Mapping[str, PluginFactory]:
    return {name: FOREIGN[name] for name in names if name in FOREIGN}


def read(text: str, builtins: Builtins = TOY) -> Configuration:
    return read_configuration(HEAD + text, builtins, load)


def profiles(text: str, builtins: Builtins = TOY) -> list[Profile]:
    configuration, columns = read(text, builtins), Columns()
    handle = Handle(Book(columns), Cache(columns))
    return list(build_profiles(configuration.profiles, configuration.registry, handle).values())


def profile(plugins: str) -> Profile:
    """Give a profile with these plugins, in YAML's short form."""
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


def test_a_file_without_profiles_is_the_default_profile_of_the_default_scheduler() -> None:
    (made,) = profiles("")
    assert made.scheduler_name == "default-scheduler"
    assert filters(made) == ["Alpha", "Keeper", "Beta"]
    assert scores(made) == [("Alpha", 3), ("Beta", 2)]


def test_backoff_and_extenders_have_upstreams_defaults() -> None:
    configuration = read("")
    assert (configuration.initial_backoff, configuration.max_backoff) == (1, 10)
    assert (configuration.extenders, configuration.ignored) == ((), ())


def test_backoff_is_read() -> None:
    configuration = read("podInitialBackoffSeconds: 3\npodMaxBackoffSeconds: 3")
    assert (configuration.initial_backoff, configuration.max_backoff) == (3, 3)


def test_a_file_may_be_json() -> None:
    text = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}'
    assert read_configuration(text, TOY, load).profiles[0].scheduler_name == "default-scheduler"


def test_keys_may_be_merged() -> None:
    first, second = profiles(
        "profiles: [{schedulerName: a, plugins: &p {score: {disabled: [{name: Beta}]}}},"
        " {schedulerName: b, plugins: {<<: *p, filter: {disabled: [{name: Alpha}]}}}]"
    )
    assert scores(first) == scores(second) == [("Alpha", 3)]
    assert filters(second) == ["Keeper", "Beta"]


def test_null_counts_as_not_given() -> None:
    (made,) = profiles("profiles: [{schedulerName: null, plugins: {score: null, filter: {enabled: null}}}]")
    assert made.scheduler_name == "default-scheduler"


def test_each_scheduler_name_has_its_own_plugins() -> None:
    first, second = profiles(
        "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {score: {disabled: [{name: '*'}]}}}]"
    )
    assert (first.scheduler_name, scores(first)) == ("a", [("Alpha", 3), ("Beta", 2)])
    assert (second.scheduler_name, scores(second)) == ("b", [])
    assert filters(second) == ["Alpha", "Keeper", "Beta"]


class TestMultiPoint:
    def test_a_new_plugin_follows_the_default_ones(self) -> None:
        made = profile("{multiPoint: {enabled: [{name: Gamma, weight: 7}]}}")
        assert filters(made) == ["Alpha", "Keeper", "Beta", "Gamma"]
        assert scores(made) == [("Alpha", 3), ("Beta", 2), ("Gamma", 7)]

    def test_a_default_plugin_that_is_enabled_again_keeps_its_place_and_loses_its_weight(self) -> None:
        made = profile("{multiPoint: {enabled: [{name: Gamma}, {name: Alpha}]}}")
        assert filters(made) == ["Alpha", "Keeper", "Beta", "Gamma"]
        assert scores(made) == [("Alpha", 1), ("Beta", 2), ("Gamma", 1)]

    def test_a_weight_of_zero_is_one(self) -> None:
        assert scores(profile("{multiPoint: {enabled: [{name: Alpha, weight: 0}]}}")) == [
            ("Alpha", 1),
            ("Beta", 2),
        ]

    def test_what_is_disabled_and_enabled_goes_to_the_end(self) -> None:
        made = profile("{multiPoint: {disabled: [{name: Alpha}], enabled: [{name: Alpha, weight: 5}]}}")
        assert scores(made) == [("Beta", 2), ("Alpha", 5)]

    def test_all_others_go_at_a_star_but_those_that_are_kept(self) -> None:
        made = profile(
            "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: Beta}, {name: Lifo}, {name: Alpha}]}}"
        )
        assert filters(made) == ["Beta", "Alpha", "Keeper"]
        assert made.queue_sort.name == "Lifo"

    def test_a_plugin_enabled_twice_is_refused(self) -> None:
        assert refusal("profiles: [{plugins: {multiPoint: {enabled: [{name: Gamma}, {name: Gamma}]}}}]") == (
            "profile default-scheduler: plugins.filter: enabled twice: Gamma"
        )


class TestOneExtensionPoint:
    def test_a_plugin_enabled_there_runs_nowhere_else(self) -> None:
        made = profile("{filter: {enabled: [{name: Gamma}]}}")
        assert filters(made) == ["Alpha", "Keeper", "Beta", "Gamma"]
        assert scores(made) == [("Alpha", 3), ("Beta", 2)]

    def test_a_plugin_disabled_there_runs_elsewhere(self) -> None:
        made = profile("{score: {disabled: [{name: Alpha}]}}")
        assert filters(made) == ["Alpha", "Keeper", "Beta"]
        assert scores(made) == [("Beta", 2)]

    def test_its_weight_goes_before_that_of_multi_point(self) -> None:
        made = profile("{multiPoint: {enabled: [{name: Beta, weight: 9}]}, score: {enabled: [{name: Beta}]}}")
        assert scores(made) == [("Beta", 1), ("Alpha", 3)]

    def test_what_overrides_multi_point_goes_first_and_what_is_new_last(self) -> None:
        made = profile("{filter: {enabled: [{name: Gamma}, {name: Beta}, {name: Alpha}]}}")
        assert filters(made) == ["Beta", "Alpha", "Keeper", "Gamma"]

    def test_what_is_disabled_and_enabled_goes_to_the_end(self) -> None:
        made = profile("{filter: {disabled: [{name: Alpha}], enabled: [{name: Alpha}]}}")
        assert filters(made) == ["Keeper", "Beta", "Alpha"]

    def test_a_star_leaves_what_is_enabled_and_kept(self) -> None:
        made = profile("{filter: {disabled: [{name: '*'}], enabled: [{name: Beta}]}}")
        assert filters(made) == ["Beta", "Keeper"]
        assert scores(made) == [("Alpha", 3), ("Beta", 2)]

    def test_the_place_of_what_is_kept_may_be_chosen(self) -> None:
        made = profile("{filter: {disabled: [{name: '*'}], enabled: [{name: Keeper}, {name: Beta}]}}")
        assert filters(made) == ["Keeper", "Beta"]

    def test_a_plugin_that_has_nothing_to_do_there_is_refused(self) -> None:
        assert refusal("profiles: [{plugins: {bind: {enabled: [{name: Alpha}]}}}]") == (
            "profile default-scheduler: plugins.bind: plugin Alpha does not extend Bind"
        )

    def test_a_plugin_enabled_twice_is_refused(self) -> None:
        assert refusal("profiles: [{plugins: {score: {enabled: [{name: Beta}, {name: Beta}]}}}]") == (
            "profile default-scheduler: plugins.score: enabled twice: Beta"
        )

    @pytest.mark.parametrize("point", ["multiPoint", "filter"])
    def test_what_is_needed_cannot_be_disabled(self, point: str) -> None:
        text = refusal(f"profiles: [{{plugins: {{{point}: {{disabled: [{{name: Keeper}}]}}}}}}]")
        assert text.startswith("profiles[0].plugins.filter: Keeper can't be disabled: locks would not hold")

    def test_what_is_needed_may_be_enabled_point_by_point(self) -> None:
        made = profile(
            "{multiPoint: {disabled: [{name: Keeper}]}, filter: {enabled: [{name: Keeper}]},"
            " reserve: {enabled: [{name: Keeper}]}}"
        )
        assert filters(made) == ["Alpha", "Beta", "Keeper"]


class TestSorting:
    def test_another_plugin_may_sort(self) -> None:
        made = profile("{queueSort: {disabled: [{name: '*'}], enabled: [{name: Lifo}]}}")
        assert made.queue_sort.name == "Lifo"

    @pytest.mark.parametrize(
        ("change", "count"), [("enabled: [{name: Lifo}]", 2), ("disabled: [{name: '*'}]", 0)]
    )
    def test_exactly_one_sorts(self, change: str, count: int) -> None:
        assert refusal(f"profiles: [{{plugins: {{queueSort: {{{change}}}}}}}]") == (
            f"profile default-scheduler: exactly one QueueSort plugin is needed, got {count}"
        )

    def test_all_profiles_sort_alike(self) -> None:
        text = (
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: "
            "{disabled: [{name: '*'}], enabled: [{name: Lifo}]}}}]"
        )
        assert refusal(text) == (
            "profile b: plugins.queueSort: all profiles should sort by the same plugin with the same args, "
            "and a sorts by PrioritySort"
        )


class TestNames:
    def test_only_one_profile_alone_may_have_no_name(self) -> None:
        assert refusal("profiles: [{schedulerName: a}, {}]") == "profiles[1].schedulerName: Required value"

    def test_an_empty_name_is_none(self) -> None:
        assert refusal("profiles: [{schedulerName: ''}]") == "profiles[0].schedulerName: Required value"

    def test_two_profiles_do_not_share_a_name(self) -> None:
        assert refusal("profiles: [{schedulerName: a}, {schedulerName: a}]") == (
            "profiles[1].schedulerName: Duplicate value: 'a': profiles[0] has it too"
        )

    @pytest.mark.parametrize("change", ["enabled", "disabled"])
    def test_an_unknown_plugin_is_refused_with_those_that_there_are(self, change: str) -> None:
        assert refusal(f"profiles: [{{plugins: {{score: {{{change}: [{{name: Delta}}]}}}}}}]") == (
            f'profiles[0].plugins.score.{change}[0].name: Invalid value: "Delta": '
            "should be one of Alpha, Beta, Gamma, Keeper, Lifo, PrioritySort"
        )

    def test_args_of_an_unknown_plugin_are_refused(self) -> None:
        assert refusal("profiles: [{pluginConfig: [{name: Delta}]}]").startswith(
            'profiles[0].pluginConfig[0].name: Invalid value: "Delta": '
        )

    def test_a_plugin_of_kube_scheduler_that_is_not_here_may_be_disabled_but_not_enabled(self) -> None:
        configuration = read(
            "profiles: [{plugins: {multiPoint: {disabled: [{name: Alpha}, {name: DynamicResources}]}},"
            " pluginConfig: [{name: DynamicResources, args: {filterTimeout: 1s}}]}]"
        )
        assert configuration.ignored == (
            "profiles[0].plugins.multiPoint.disabled[1] (DynamicResources is not here)",
            "profiles[0].pluginConfig[0] (DynamicResources is not here)",
        )
        assert refusal("profiles: [{plugins: {filter: {enabled: [{name: DynamicResources}]}}}]").startswith(
            'profiles[0].plugins.filter.enabled[0].name: Invalid value: "DynamicResources": '
        )


class TestArgs:
    def configured(self, args: str, plugin: str = "Picky") -> str:
        return (
            f"profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: Picky}}]}}}},"
            f" pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"
        )

    def test_a_plugin_gets_its_args_without_their_type(self) -> None:
        (made,) = profiles(
            self.configured("{apiVersion: example.com/v3, kind: PickyArgs, limit: {most: 4, least: null}}")
        )
        picky = next(plugin for plugin in made.filter if isinstance(plugin, Picky))
        assert picky.limit == 4

    def test_args_of_another_plugins_type_are_refused(self) -> None:
        assert refusal(self.configured("{kind: AlphaArgs}")) == (
            "profiles[0].pluginConfig[0].args.kind: Invalid value: \"AlphaArgs\": should be 'PickyArgs'"
        )

    def test_args_of_another_version_are_refused(self) -> None:
        text = "{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: NodeResourcesFitArgs}"
        assert refusal(self.configured(text, "NodeResourcesFit")).startswith(
            'profiles[0].pluginConfig[0].args.apiVersion: Invalid value: "kubescheduler.config.k8s.io/v1bet'
        )

    def test_args_that_a_plugin_refuses_are_told_with_its_profile(self) -> None:
        assert refusal(self.configured("{limit: {most: 1}, colour: red}")) == (
            "profile default-scheduler: plugin Picky: pluginConfig of Picky: unknown args ['colour']"
        )

    @pytest.mark.parametrize("args", ["{}", "{limit: 3}", "{limit: []}"])
    def test_a_plugin_that_stumbles_over_its_args_is_named(self, args: str) -> None:
        assert refusal(self.configured(args)).startswith(
            "profile default-scheduler: plugin Picky can't be made: "
        )

    def test_args_given_twice_are_refused(self) -> None:
        text = refusal("profiles: [{pluginConfig: [{name: Alpha}, {name: Alpha}]}]")
        assert text.startswith("profiles[0].pluginConfig[0].name: Duplicate value: 'Alpha'")


def test_what_has_no_effect_is_listed() -> None:
    configuration = read(
        """
parallelism: 4
leaderElection: {leaderElect: true, leaseDuration: 15s}
clientConnection: {kubeconfig: /etc/kubeconfig, qps: 50, burst: 100}
enableProfiling: false
enableContentionProfiling: false
percentageOfNodesToScore: 40
delayCacheUntilActive: true
profiles:
- percentageOfNodesToScore: 10
  plugins: {placementScore: {enabled: [{name: Whatever}]}}
"""
    )
    assert configuration.ignored == (
        "parallelism",
        "leaderElection",
        "clientConnection",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "delayCacheUntilActive",
        "profiles[0].percentageOfNodesToScore",
        "profiles[0].plugins.placementScore",
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("profile: []", "unknown field profile: expected one of apiVersion, clientConnection, "),
        ("profiles: [{plugin: {}}]", "profiles[0]: unknown field plugin: expected one of percentageOfNodes"),
        ("profiles: {}", "profiles: Invalid value: {}: should be a valid list"),
        ("profiles: [4]", "profiles[0]: Invalid value: 4: should be an object"),
        ("profiles: [{plugins: {score: {enabled: [{}]}}}]", "plugins.score.enabled[0].name: Required value"),
        (
            "profiles: [{plugins: {score: {enabled: [{name: Alpha, weight: -1}]}}}]",
            "profiles[0].plugins.score.enabled[0].weight: Invalid value: -1: should be greater than or equal",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: Alpha, weight: 2.0}]}}}]",
            "weight: Invalid value: 2.0",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: Alpha, weight: '2'}]}}}]",
            'weight: Invalid value: "2"',
        ),
        (
            "percentageOfNodesToScore: 101",
            "percentageOfNodesToScore: Invalid value: 101: should be less than or",
        ),
        ("parallelism: 0", "parallelism: Invalid value: 0: should be greater than 0"),
        ("enableProfiling: 'no'", 'enableProfiling: Invalid value: "no": should be a valid boolean'),
        (
            "leaderElection: {leaseDuration: 15}",
            "leaderElection.leaseDuration: Invalid value: 15: should be a",
        ),
        ("leaderElection: {leaseDuration: 15 s}", 'Invalid value: "15 s": should be a duration such as "5s"'),
        (
            "podInitialBackoffSeconds: 0",
            "podInitialBackoffSeconds: Invalid value: 0: should be greater than 0",
        ),
        (
            "podInitialBackoffSeconds: 11",
            "podMaxBackoffSeconds: Invalid value: 10: should be greater than or equal to podInitialBackoff",
        ),
        ("kind: KubeSchedulerConfiguration", "is not YAML: key 'kind' is given twice"),
        ("profiles: [", "is not YAML: while parsing"),
        ("profiles: 2026-02-31", "is not YAML: day is out of range"),
        ("2: 3\nyes: no", "unknown field 2, True: expected one of"),
        ("extenders: [{}]", "extenders[0].urlPrefix: Required value"),
        ("extenders: [{urlPrefix: 'extender:80'}]", "should be a URL that begins with http:// or https://"),
        (
            "extenders: [{urlPrefix: 'http://a', httpTimeout: 5}]",
            "extenders[0].httpTimeout: Invalid value: 5: ",
        ),
        (
            "extenders: [{urlPrefix: 'http://a', prioritizeVerb: p}]",
            "extenders[0].weight: Invalid value: 0: should be positive beside a prioritizeVerb",
        ),
        (
            "extenders: [{urlPrefix: 'http://a', bindVerb: b}, {urlPrefix: 'http://b', bindVerb: b}]",
            "extenders: 2 of them have a bindVerb: only one extender can bind",
        ),
        (
            "extenders: [{urlPrefix: 'http://a', managedResources: [{name: cpu}]}]",
            'extenders[0].managedResources[0].name: Invalid value: "cpu": should be the name of an extended',
        ),
        (
            "extenders: [{urlPrefix: 'http://a', managedResources: [{name: a.io/b}, {name: a.io/b}]}]",
            "extenders[0].managedResources[1].name: Duplicate value: 'a.io/b'",
        ),
        (
            "extenders: [{urlPrefix: 'https://a', tlsConfig: {caData: '%%'}}]",
            'extenders[0].tlsConfig.caData: Invalid value: "%%": should be base64',
        ),
        (
            "extenders: [{urlPrefix: 'https://a', tlsConfig: {insecure: true, caFile: /ca}}]",
            "extenders[0].tlsConfig.insecure: Invalid value: true: should not be set beside a CA",
        ),
        (
            "extenders: [{urlPrefix: 'https://a', tlsConfig: {certFile: /cert}}]",
            "extenders[0].tlsConfig: a client certificate and its key should be given together",
        ),
    ],
)
def test_what_is_wrong_is_told_by_path_value_and_expectation(text: str, told: str) -> None:
    assert told in refusal(text)


@pytest.mark.parametrize("text", ["", "[]", "just a text", "--- a\n--- b", "\x00"])
def test_what_is_no_configuration_at_all_is_told(text: str) -> None:
    with pytest.raises(ConfigurationError):
        read_configuration(text, TOY, load)


def test_another_version_is_told() -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_configuration("apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: Pod", TOY, load)
    assert str(refused.value) == (
        'apiVersion: Invalid value: "kubescheduler.config.k8s.io/v1beta3": '
        "should be 'kubescheduler.config.k8s.io/v1'; "
        "kind: Invalid value: \"Pod\": should be 'KubeSchedulerConfiguration'"
    )


def test_all_wrong_fields_are_told_at_once() -> None:
    text = refusal("parallelism: x\nprofiles: [{schedulerName: 3}]")
    assert text == (
        'parallelism: Invalid value: "x": should be a valid integer; '
        "profiles[0].schedulerName: Invalid value: 3: should be a valid string"
    )


def test_long_values_are_shortened() -> None:
    assert f'parallelism: Invalid value: "{"x" * 78}…: ' in refusal(f"parallelism: {'x' * 500}")


class TestExtenders:
    def test_all_fields_are_read(self) -> None:
        (extender,) = read(
            """
extenders:
- urlPrefix: https://extender.example:8888/scheduler
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  bindVerb: bind
  weight: 5
  enableHTTPS: true
  tlsConfig: {serverName: extender, certData: Y2VydA==, keyData: a2V5, caFile: /ca.crt}
  httpTimeout: 1m2.5s
  nodeCacheCapable: true
  managedResources: [{name: example.com/foo, ignoredByScheduler: true}]
"""
        ).extenders
        assert extender.enable_https
        assert extender.node_cache_capable
        assert extender.tls_config is not None
        assert (extender.tls_config.cert_data, extender.tls_config.ca_file) == (b"cert", "/ca.crt")
        assert extender.managed_resources[0].name == "example.com/foo"

    def test_those_that_may_fail_are_asked_last(self) -> None:
        extenders = read(
            "extenders: [{urlPrefix: 'http://a', ignorable: true}, {urlPrefix: 'http://b'}]"
        ).extenders
        assert [extender.url_prefix for extender in extenders] == ["http://b", "http://a"]

    def test_resources_that_only_the_extender_counts_are_told_to_fit(self) -> None:
        (settings,) = read(
            """
extenders:
- urlPrefix: http://a
  managedResources: [{name: a.io/x, ignoredByScheduler: true}, {name: a.io/y}]
profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [b.io/z]}}]}]
""",
            BUILTINS,
        ).profiles
        assert settings.args == {
            "NodeResourcesFit": {"ignoredResources": ["a.io/x"]},
            "Reservation": {"ignoredResources": ["a.io/x"]},
        }


def test_the_builtin_plugins_can_be_named_as_kube_schedulers_files_do() -> None:
    first, second = profiles(
        """
profiles:
- schedulerName: default-scheduler
- schedulerName: no-scoring
  plugins:
    preScore: {disabled: [{name: '*'}]}
    score: {disabled: [{name: '*'}]}
""",
        BUILTINS,
    )
    assert [plugin.name for plugin in second.filter] == [plugin.name for plugin in first.filter]
    assert [name for name, _ in scores(second)] == ["Reservation"]


def test_locks_hold_in_every_profile() -> None:
    (made,) = profiles(
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}]}}}]",
        BUILTINS,
    )
    assert filters(made) == ["Reservation"]
    assert [plugin.name for plugin in made.reserve] == ["Reservation"]
    for point in ("multiPoint", "preFilter", "filter", "reserve"):
        text = refusal(
            f"profiles: [{{plugins: {{{point}: {{disabled: [{{name: Reservation}}]}}}}}}]", BUILTINS
        )
        assert "Reservation can't be disabled: locks would not hold" in text
