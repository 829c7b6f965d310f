import pytest

from tidelock.framework.config import read_configuration
from tidelock.plugins.registry import BUILTINS
from unit.framework.configs import TOY, Picky, filters, load, profiles, read, refusal, scores


def test_a_file_without_profiles_is_the_default_profile_of_the_default_scheduler() -> None:
    (made,) = profiles("")
    assert made.scheduler_name == "default-scheduler"
    assert filters(made) == ["Alpha", "Keeper", "Beta"]
    assert scores(made) == [("Alpha", 3), ("Beta", 2)]


def test_backoff_and_extenders_have_the_defaults_of_kube_scheduler() -> None:
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


class TestNames:
    def test_a_profile_without_a_name_must_be_the_only_one(self) -> None:
        assert refusal("profiles: [{schedulerName: a}, {}]") == "profiles[1].schedulerName: Required value"

    def test_an_empty_name_counts_as_no_name(self) -> None:
        assert refusal("profiles: [{schedulerName: ''}]") == "profiles[0].schedulerName: Required value"

    def test_two_profiles_cannot_share_a_name(self) -> None:
        assert refusal("profiles: [{schedulerName: a}, {schedulerName: a}]") == (
            "profiles[1].schedulerName: Duplicate value: 'a': profiles[0] has it too"
        )

    @pytest.mark.parametrize("change", ["enabled", "disabled"])
    def test_an_unknown_plugin_is_refused_with_the_names_of_the_known_ones(self, change: str) -> None:
        assert refusal(f"profiles: [{{plugins: {{score: {{{change}: [{{name: Delta}}]}}}}}}]") == (
            f'profiles[0].plugins.score.{change}[0].name: Invalid value: "Delta": '
            "should be one of Alpha, Beta, DefaultBinder, Gamma, Keeper, Lifo, PrioritySort"
        )

    def test_args_of_an_unknown_plugin_are_refused(self) -> None:
        assert refusal("profiles: [{pluginConfig: [{name: Delta}]}]").startswith(
            'profiles[0].pluginConfig[0].name: Invalid value: "Delta": '
        )

    def test_a_plugin_that_only_kube_scheduler_has_can_be_disabled_but_not_enabled(self) -> None:
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

    def test_args_that_a_plugin_refuses_are_reported_with_its_profile(self) -> None:
        assert refusal(self.configured("{limit: {most: 1}, colour: red}")) == (
            "profile default-scheduler: plugin Picky: pluginConfig of Picky: unknown args ['colour']"
        )

    @pytest.mark.parametrize("args", ["{}", "{limit: 3}", "{limit: []}"])
    def test_a_plugin_that_fails_on_its_args_is_named(self, args: str) -> None:
        assert refusal(self.configured(args)).startswith(
            "profile default-scheduler: plugin Picky can't be made: "
        )

    def test_args_given_twice_are_refused(self) -> None:
        text = refusal("profiles: [{pluginConfig: [{name: Alpha}, {name: Alpha}]}]")
        assert text.startswith("profiles[0].pluginConfig[0].name: Duplicate value: 'Alpha'")


def test_fields_without_effect_are_listed() -> None:
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
  plugins: {placementScore: {enabled: [{name: Whatever}]}, podGroupPostFilter: {}}
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
        "profiles[0].plugins.podGroupPostFilter",
    )


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

    def test_ignorable_extenders_are_called_last(self) -> None:
        extenders = read(
            "extenders: [{urlPrefix: 'http://a', ignorable: true}, {urlPrefix: 'http://b'}]"
        ).extenders
        assert [extender.url_prefix for extender in extenders] == ["http://b", "http://a"]

    def test_resources_that_only_an_extender_counts_are_ignored_by_fit_and_reservation(self) -> None:
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


def test_the_reservation_plugin_ignores_the_resources_that_fit_ignores() -> None:
    (made,) = read(
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [a.io]}}]}]",
        BUILTINS,
    ).profiles
    assert made.args["Reservation"] == {"ignoredResourceGroups": ["a.io"]}


def test_the_builtin_plugins_can_be_configured_by_a_file_of_kube_scheduler() -> None:
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


def test_reservations_are_enforced_in_every_profile() -> None:
    (made,) = profiles(
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}],"
        " enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}}]",
        BUILTINS,
    )
    assert filters(made) == ["UnreadableObjects", "Reservation"]
    assert [plugin.name for plugin in made.reserve] == ["Reservation"]
    for point in ("multiPoint", "preFilter", "filter", "reserve"):
        text = refusal(
            f"profiles: [{{plugins: {{{point}: {{disabled: [{{name: Reservation}}]}}}}}}]", BUILTINS
        )
        assert "Reservation can't be disabled: reservations would not be kept" in text
