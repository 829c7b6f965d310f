"""Which plugins a profile has, at which point and in which order."""

import pytest

from unit.framework.configs import filters, profile, refusal, scores


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
        assert text.startswith(
            "profiles[0].plugins.filter: Keeper can't be disabled: reservations would not be kept"
        )

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
