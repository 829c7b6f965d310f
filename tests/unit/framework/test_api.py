import pytest

from builders import node, pod
from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import SKIP, SUCCESS, Code, Handle, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.ledger.ledger import Ledger
from tidelock.plugins.node_unschedulable import NodeUnschedulable


@pytest.mark.parametrize("code", list(Code))
def test_a_pod_goes_on_after_success_and_skip_alone(code: Code) -> None:
    assert Status(code).ok is (code in {Code.SUCCESS, Code.SKIP})


def test_the_ready_made_outcomes_have_no_reasons() -> None:
    assert (SUCCESS.code, SUCCESS.reasons) == (Code.SUCCESS, ())
    assert (SKIP.code, SKIP.reasons) == (Code.SKIP, ())


def test_a_filter_that_has_no_numbers_tells_none() -> None:
    columns = Columns()
    columns.put(node(cordoned=True))
    plugin = NodeUnschedulable(Handle(Ledger(columns).plugin_view, Cache(columns)), {})
    assert plugin.detail(CycleState(), pod(), Snapshot.of(columns), 0) == ""


def test_args_that_a_plugin_has_not_are_named() -> None:
    columns = Columns()
    handle = Handle(Ledger(columns).plugin_view, Cache(columns))
    with pytest.raises(ValueError, match=r"^pluginConfig of NodeUnschedulable: unknown args \['a', 'b'\]$"):
        NodeUnschedulable(handle, {"b": 1, "a": 2})
