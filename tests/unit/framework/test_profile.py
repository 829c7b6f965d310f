from typing import Any

import pytest

from builders import pod
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.framework.api import Handle
from tidelock.framework.profile import (
    Enabled,
    PluginFactory,
    Profile,
    ProfileSettings,
    build_profile,
)
from tidelock.ledger.ledger import Ledger
from tidelock.plugins.priority_sort import PrioritySort
from tidelock.plugins.registry import DEFAULT_PLUGINS, REGISTRY
from tidelock.plugins.scheduling_gates import SchedulingGates


class Backwards(PrioritySort):
    name = "Backwards"


class Patient(SchedulingGates):
    name = "Patient"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        super().__init__(handle, {})
        self.patience = args["patience"]


KNOWN: dict[str, PluginFactory] = {**REGISTRY, "Backwards": Backwards, "Patient": Patient}


def build(*names: str, args: dict[str, dict[str, Any]] | None = None) -> Profile:
    columns = Columns()
    handle = Handle(Ledger(columns).plugin_view, Cache(columns))
    return build_profile(ProfileSettings("mine", tuple(map(Enabled, names)), args=args or {}), KNOWN, handle)


def test_unknown_plugins_are_named_together() -> None:
    with pytest.raises(ValueError, match=r"^profile mine: unknown plugins Nothing, Zero$"):
        build("Zero", "PrioritySort", "Nothing")


@pytest.mark.parametrize(
    ("names", "count"), [((), 0), (("SchedulingGates",), 0), (("PrioritySort", "Backwards"), 2)]
)
def test_a_profile_has_exactly_one_queue_sort_plugin(names: tuple[str, ...], count: int) -> None:
    with pytest.raises(
        ValueError, match=rf"^profile mine: exactly one QueueSort plugin is needed, got {count}$"
    ):
        build(*names)


def test_each_plugin_gets_its_own_args() -> None:
    (patient,) = build("PrioritySort", "Patient", args={"Patient": {"patience": 9}}).pre_enqueue
    assert isinstance(patient, Patient)
    assert patient.patience == 9


def test_wrong_args_are_refused_by_the_plugin() -> None:
    with pytest.raises(ValueError, match="pluginConfig of PrioritySort: unknown args"):
        build("PrioritySort", args={"PrioritySort": {"patience": 9}})


def test_plugins_run_in_the_order_in_which_they_are_enabled() -> None:
    columns = Columns()
    profile = build_profile(
        ProfileSettings("mine", DEFAULT_PLUGINS),
        REGISTRY,
        Handle(Ledger(columns).plugin_view, Cache(columns)),
    )

    assert profile.scheduler_name == "mine"
    gates = ["SchedulingGates", "DynamicResources", "Reservation"]
    assert [plugin.name for plugin in profile.pre_enqueue] == gates
    assert profile.queue_sort.sort_key(pod(priority=3), 7.0) == (-3, 7.0)
    order = [plugin.name for plugin in DEFAULT_PLUGINS]
    filters = [plugin.name for plugin in profile.filter]
    assert filters == sorted(filters, key=order.index)
    assert filters[-1] == "Reservation", "the filter of reservations runs last"


def test_the_reservation_score_outweighs_all_other_scores_together() -> None:
    columns = Columns()
    profile = build_profile(
        ProfileSettings("mine", DEFAULT_PLUGINS),
        REGISTRY,
        Handle(Ledger(columns).plugin_view, Cache(columns)),
    )
    weights = {plugin.name: weight for plugin, weight in profile.score}

    assert weights.pop("Reservation") > sum(weights.values())


def test_a_factory_that_makes_another_plugin_is_refused() -> None:
    columns = Columns()
    odd: dict[str, PluginFactory] = {**REGISTRY, "Odd": SchedulingGates}
    settings = ProfileSettings("mine", (Enabled("PrioritySort"), Enabled("Odd")))
    with pytest.raises(ValueError, match=r"^profile mine: Odd makes .*, which is no plugin of that name$"):
        build_profile(settings, odd, Handle(Ledger(columns).plugin_view, Cache(columns)))
