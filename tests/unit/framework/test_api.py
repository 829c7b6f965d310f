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
def test_a_pod_continues_only_after_success_and_skip(code: Code) -> None:
    assert Status(code).ok is (code in {Code.SUCCESS, Code.SKIP})


def test_the_predefined_statuses_have_no_reasons() -> None:
    assert (SUCCESS.code, SUCCESS.reasons) == (Code.SUCCESS, ())
    assert (SKIP.code, SKIP.reasons) == (Code.SKIP, ())


def test_a_filter_without_numbers_returns_no_detail() -> None:
    columns = Columns()
    columns.put(node(cordoned=True))
    plugin = NodeUnschedulable(Handle(Ledger(columns).plugin_view, Cache(columns)), {})
    assert plugin.detail(CycleState(), pod(), Snapshot.of(columns), 0) == ""


def test_unknown_args_of_a_plugin_are_named() -> None:
    columns = Columns()
    handle = Handle(Ledger(columns).plugin_view, Cache(columns))
    with pytest.raises(ValueError, match=r"^pluginConfig of NodeUnschedulable: unknown args \['a', 'b'\]$"):
        NodeUnschedulable(handle, {"b": 1, "a": 2})
