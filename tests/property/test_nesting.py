"""Deeply nested JSON is cut in the same way with numpy and without it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tidelock.model.nesting import _cut_by_arrays, _cut_by_runs

_TEXTS = st.text('a"\\[]{}', max_size=4)
_JSON = st.recursive(
    _TEXTS | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
)


@given(_JSON, st.integers(1, 4))
def test_both_ways_to_cut_are_equal(plain: object, deepest: int) -> None:
    raw = json.dumps(plain).encode()
    found = _cut_by_runs(raw, deepest)
    assert found == _cut_by_arrays(raw, deepest)
    assert found is None or depth(json.loads(found.raw)) == deepest


def depth(plain: object) -> int:
    """Return the number of levels of lists and objects."""
    inner = plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)
