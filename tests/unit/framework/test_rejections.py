# ruff: noqa: ARG002 -- the framework passes the same arguments to every plugin.
"""The limits of the texts of plugins: tenants write parts of them, and there is one for each node and pod."""

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from builders import NOW, encode, node, pod
from tidelock.cluster.columns import Rows
from tidelock.framework.api import (
    MOST_REASONS,
    SUCCESS,
    Code,
    Filter,
    Mask,
    Permit,
    PostFilter,
    PostFilterResult,
    PreFilter,
    Reserve,
    Status,
)
from tidelock.framework.extension_point_timer import PluginError
from tidelock.framework.profile import Profile
from tidelock.framework.rejections import nodes_by_reason
from tidelock.model.printable import LONGEST_REASON
from tidelock.model.reservation_quote import decode_quote
from tidelock.scheduler.core.dry_run import DryRun, render_dry_run
from tidelock.scheduler.core.explain import explain_pod
from unit.scheduler.machinery import Core

LONG = "x" * 1_000_000
NODES = 40
LONGEST_MESSAGE = 4096


class Own(str):
    """A text that msgspec refuses to encode."""

    __slots__ = ()


class Verbose(PreFilter, Filter, PostFilter, Reserve, Permit):
    """A plugin with long texts at one point. Its Filter has another reason for each node."""

    name = "Verbose"
    at = ""
    code = Code.UNSCHEDULABLE

    def pre_filter(self, *_: object) -> Status:
        return self._status("PreFilter")

    def filter(self, state: object, pod: object, snapshot: Any) -> Mask:
        if self.at == "exception":
            raise LookupError(LONG)
        return np.full(len(snapshot), self.at not in {"Filter", "PostFilter"})

    def reasons(self, state: object, pod: object, snapshot: Any, row: int) -> tuple[str, ...]:
        return (Own(f"{snapshot.nodes[row].name} {LONG}"),)

    def tally(self, state: Any, pod: Any, snapshot: Any, rows: Rows) -> Counter[str]:
        counts = super().tally(state, pod, snapshot, rows)
        return Counter({reason: np.int64(count) for reason, count in counts.items()})

    def detail(self, *_: object) -> str:
        return Own(LONG)

    def post_filter(self, *_: object) -> PostFilterResult:
        message = Own(LONG) if self.at == "PostFilter" else ""
        return PostFilterResult(self._status("PostFilter"), message=message)

    def reserve(self, *_: object) -> Status:
        return self._status("Reserve")

    def unreserve(self, *_: object) -> None:
        pass

    def permit(self, *_: object) -> tuple[Status, float]:
        return self._status("Permit"), 0.0

    def _status(self, point: str) -> Status:
        return Status(self.code, (Own(LONG),) * 100) if point == self.at else SUCCESS


def core_with(at: str, code: Code = Code.UNSCHEDULABLE) -> tuple[Core, Profile]:
    """Return a scheduler with many nodes and a pod, which has a verbose plugin in its profile."""
    core = Core(*(node(f"node-{index:02}") for index in range(NODES)))
    core.add(pod("web-0"))
    plugin = type("Kind", (Verbose,), {"at": at, "code": code})(core.decider.profile.filter[0].handle, {})
    waiting = core.queue.get("uid-web-0")
    assert waiting is not None
    profile = waiting.profile = replace(
        waiting.profile,
        pre_filter=(*waiting.profile.pre_filter, plugin),
        filter=(*waiting.profile.filter, plugin),
        post_filter=(*waiting.profile.post_filter, plugin),
        reserve=(*waiting.profile.reserve, plugin),
        permit=(*waiting.profile.permit, plugin),
    )
    return core, profile


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.ERROR])
@pytest.mark.parametrize("at", ["PreFilter", "Filter", "PostFilter", "Reserve", "Permit", "exception"])
def test_the_message_of_a_refusal_is_limited_whatever_plugins_write(at: str, code: Code) -> None:
    """Regression: an expression of one claim wrote texts of any length, one for each node. They were kept for
    each pod in the queue: 30 pods took 1.9 GB.
    """
    core, _ = core_with(at, code)
    message = core.refuse().diagnosis.message
    assert 100 < len(message) <= LONGEST_MESSAGE
    assert type(message) is str


def test_a_message_has_the_reasons_of_most_nodes_and_the_number_of_the_others() -> None:
    core, _ = core_with("Filter")
    message = core.refuse().diagnosis.message
    text = "x" * (LONGEST_REASON - len("node-00 ") - 1)
    assert message.startswith(f"0/40 nodes are available: 1 node-00 {text}…, 1 node-01 {text}…, ")
    assert f", 1 node-15 {text}…, and 24 other reasons. " in message
    assert "node-16" not in message


def test_the_explanation_of_each_node_is_limited() -> None:
    core, profile = core_with("Filter")
    reports = explain_pod(core.decider.pipeline, profile, pod("web-1"), NOW)
    assert len(reports) == NODES
    for report in reports:
        (rejection,) = report.rejections
        assert [len(reason) for reason in rejection.reasons] == [LONGEST_REASON]
        assert 0 < len(rejection.detail) <= 1000
        msgspec.json.encode((rejection.reasons, rejection.detail))


def test_the_answer_to_a_quote_is_limited_and_can_be_encoded() -> None:
    core, profile = core_with("Filter")
    metadata = {"name": "quote", "namespace": "shop", "uid": "1"}
    quote = decode_quote(encode({"metadata": metadata, "spec": {"resources": {"cpu": "1"}}}))
    assert quote.pod is not None
    dry_run = DryRun(core.decider.cache, core.decider.ledger, core.decider.pipeline)
    answer = dry_run.answer(profile, quote.pod, NOW)
    status = msgspec.json.decode(msgspec.json.encode(render_dry_run(quote, answer, NOW)))
    assert {len(each["reason"]) for each in status["blockers"]["reasons"]} == {LONGEST_REASON}
    assert all(len(each["message"]) <= LONGEST_MESSAGE for each in status["conditions"])


def test_the_reasons_of_a_status_are_plain_short_and_few() -> None:
    reasons = Status(Code.ERROR, (Own(LONG), *["short"] * 100)).reasons
    assert reasons == ("x" * (LONGEST_REASON - 1) + "…", *["short"] * (MOST_REASONS - 1))
    assert {type(reason) for reason in reasons} == {str}


def test_the_error_of_a_plugin_is_short_and_keeps_the_name_of_the_plugin() -> None:
    text = str(PluginError.of("Bind", "DefaultBinder", LONG))
    assert text.startswith('running Bind plugin "DefaultBinder": xxx')
    assert len(text) < LONGEST_REASON + 50


def test_few_reasons_are_all_in_a_message() -> None:
    reasons = {f"reason {number:02}": number + 1 for number in range(MOST_REASONS)}
    message = nodes_by_reason(99, reasons)
    assert message.startswith("0/99 nodes are available: 1 reason 00, 10 reason 09, ")
    assert "other" not in message
    assert nodes_by_reason(0, {}) == "0/0 nodes are available."
