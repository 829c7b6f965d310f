"""The time of an answer, by clocks that may differ."""

from datetime import UTC, datetime

import pytest

from tidelock.model.answer import Answer, AnswerKeys
from tidelock.model.instants import format_instant
from tidelock.model.meta import ObjectMeta

AT = 1_800_000_000.0


@pytest.mark.parametrize(
    ("late", "timely"), [(0, True), (-60, True), (120, True), (-600, False), (600, False)]
)
def test_an_answer_that_is_known_counts_whatever_the_clocks_say(late: float, timely: bool) -> None:
    """A clock that differed by minutes cost an object the capacity that was held for it."""
    keys = AnswerKeys()
    keys.use(b"key")
    answer = Answer("once", 1, format_instant(AT), {"phase": "Active"}, "shop", "lock")
    meta = ObjectMeta(
        name="lock",
        namespace="shop",
        creation_timestamp=datetime.fromtimestamp(AT + late, UTC),
        annotations=keys.sign(answer),
    )
    assert keys.read(meta, at_any_time=True) == answer
    assert (keys.read(meta) == answer) is timely
