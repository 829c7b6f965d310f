"""The plugins of a profile at each extension point, and their order."""

import pytest

from unit.framework.configs import filters, profile, refusal, scores


class TestMultiPoint:
    def test_a_new_plugin_follows_the_default_ones(self) -> None:
        made = profile("{multiPoint: {enabled: [{name: Gamma, weight: 7}]}}")
        assert filters(made) == ["Alpha", "Keeper", "Beta", "Gamma"]
        assert scores(made) == [("Alpha", 3), ("Beta", 2), ("Gamma", 7)]

    def test_a_default_plugin_that_is_enabled_again_keeps_its_position_and_loses_its_weight(self) -> None:
        made = profile("{multiPoint: {enabled: [{name: Gamma}, {name: Alpha}]}}")
        assert filters(made) == ["Alpha", "Keeper", "Beta", "Gamma"]
        assert scores(made) == [("Alpha", 1), ("Beta", 2), ("Gamma", 1)]

    def test_a_weight_of_zero_is_one(self) -> None:
        assert scores(profile("{multiPoint: {enabled: [{name: Alpha, weight: 0}]}}")) == [
            ("Alpha", 1),
            ("Beta", 2),
        ]

    def test_a_plugin_that_is_disabled_and_enabled_runs_last(self) -> None:
        made = profile("{multiPoint: {disabled: [{name: Alpha}], enabled: [{name: Alpha, weight: 5}]}}")
        assert scores(made) == [("Beta", 2), ("Alpha", 5)]

    def test_a_star_disables_all_other_plugins_except_the_kept_ones(self) -> None:
        made = profile(
            "{multiPoint: {disabled: [{name: '*'}], enabled:"
            " [{name: Beta}, {name: Lifo}, {name: DefaultBinder}, {name: Alpha}]}}"
        )
        assert filters(made) == ["Beta", "Alpha", "Keeper"]
        assert made.queue_sort.name == "Lifo"

    def test_a_plugin_enabled_twice_is_refused(self) -> None:
        assert refusal("profiles: [{plugins: {multiPoint: {enabled: [{name: Gamma}, {name: Gamma}]}}}]") == (
            "profile default-scheduler: plugins.filter: enabled twice: Gamma"
        )


class TestOneExtensionPoint:
    def test_a_plugin_enabled_at_one_point_only_runs_there(self) -> None:
        made = profile("{filter: {enabled: [{name: Gamma}]}}")
        assert filters(made) == ["Alpha", "Keeper", "Beta", "Gamma"]
        assert scores(made) == [("Alpha", 3), ("Beta", 2)]

    def test_a_plugin_disabled_at_one_point_runs_at_the_others(self) -> None:
        made = profile("{score: {disabled: [{name: Alpha}]}}")
        assert filters(made) == ["Alpha", "Keeper", "Beta"]
        assert scores(made) == [("Beta", 2)]

    def test_a_weight_at_score_overrides_the_weight_at_multi_point(self) -> None:
        made = profile("{multiPoint: {enabled: [{name: Beta, weight: 9}]}, score: {enabled: [{name: Beta}]}}")
        assert scores(made) == [("Beta", 1), ("Alpha", 3)]

    def test_plugins_that_override_multi_point_run_first_and_new_ones_last(self) -> None:
        made = profile("{filter: {enabled: [{name: Gamma}, {name: Beta}, {name: Alpha}]}}")
        assert filters(made) == ["Beta", "Alpha", "Keeper", "Gamma"]

    def test_a_plugin_that_is_disabled_and_enabled_at_one_point_runs_last_there(self) -> None:
        made = profile("{filter: {disabled: [{name: Alpha}], enabled: [{name: Alpha}]}}")
        assert filters(made) == ["Keeper", "Beta", "Alpha"]

    def test_a_star_at_one_point_leaves_the_enabled_and_kept_plugins(self) -> None:
        made = profile("{filter: {disabled: [{name: '*'}], enabled: [{name: Beta}]}}")
        assert filters(made) == ["Beta", "Keeper"]
        assert scores(made) == [("Alpha", 3), ("Beta", 2)]

    def test_the_position_of_a_kept_plugin_can_be_chosen(self) -> None:
        made = profile("{filter: {disabled: [{name: '*'}], enabled: [{name: Keeper}, {name: Beta}]}}")
        assert filters(made) == ["Keeper", "Beta"]

    def test_a_plugin_that_does_not_extend_a_point_is_refused_there(self) -> None:
        assert refusal("profiles: [{plugins: {bind: {enabled: [{name: Alpha}]}}}]") == (
            "profile default-scheduler: plugins.bind: plugin Alpha does not extend Bind"
        )

    def test_a_plugin_enabled_twice_at_one_point_is_refused(self) -> None:
        assert refusal("profiles: [{plugins: {score: {enabled: [{name: Beta}, {name: Beta}]}}}]") == (
            "profile default-scheduler: plugins.score: enabled twice: Beta"
        )

    @pytest.mark.parametrize("point", ["multiPoint", "filter"])
    def test_a_needed_plugin_cannot_be_disabled(self, point: str) -> None:
        text = refusal(f"profiles: [{{plugins: {{{point}: {{disabled: [{{name: Keeper}}]}}}}}}]")
        assert text.startswith(
            "profiles[0].plugins.filter: Keeper can't be disabled: reservations would not be kept"
        )

    def test_a_needed_plugin_can_be_enabled_point_by_point(self) -> None:
        made = profile(
            "{multiPoint: {disabled: [{name: Keeper}]}, filter: {enabled: [{name: Keeper}]},"
            " reserve: {enabled: [{name: Keeper}]}}"
        )
        assert filters(made) == ["Alpha", "Beta", "Keeper"]


class TestSorting:
    def test_another_plugin_can_sort_the_queue(self) -> None:
        made = profile("{queueSort: {disabled: [{name: '*'}], enabled: [{name: Lifo}]}}")
        assert made.queue_sort.name == "Lifo"

    @pytest.mark.parametrize(
        ("change", "count"), [("enabled: [{name: Lifo}]", 2), ("disabled: [{name: '*'}]", 0)]
    )
    def test_exactly_one_plugin_sorts_the_queue(self, change: str, count: int) -> None:
        assert refusal(f"profiles: [{{plugins: {{queueSort: {{{change}}}}}}}]") == (
            f"profile default-scheduler: exactly one QueueSort plugin is needed, got {count}"
        )

    def test_a_profile_must_be_able_to_bind_pods(self) -> None:
        assert refusal("profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]") == (
            "profile default-scheduler: at least one Bind plugin is needed"
        )

    def test_all_profiles_must_sort_the_queue_by_the_same_plugin(self) -> None:
        text = (
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: "
            "{disabled: [{name: '*'}], enabled: [{name: Lifo}]}}}]"
        )
        assert refusal(text) == (
            "profile b: plugins.queueSort: all profiles should sort by the same plugin with the same args, "
            "and a sorts by PrioritySort"
        )
