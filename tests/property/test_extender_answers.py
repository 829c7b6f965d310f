"""Any answer of an extender is either understood or an error of the extender."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import pod
from tidelock.framework.config_file import Extender
from tidelock.framework.extender import (
    AnswerError,
    read_binding,
    read_filtered,
    read_preemption,
    read_priorities,
)

NAMES = ["node-a", "node-b"]
PLACED = {"node-a": [pod("old-0")], "node-b": []}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.sampled_from([*NAMES, "node-x", "uid-old-0"]),
)
keys = st.sampled_from(
    [
        "Nodes",
        "items",
        "metadata",
        "name",
        "NodeNames",
        "FailedNodes",
        "failedandunresolvablenodes",
        "Error",
        "Host",
        "SCORE",
        "NodeNameToMetaVictims",
        "pods",
        "UID",
        "NumPDBViolations",
        *NAMES,
    ]
)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)


def outcome(read: Any) -> Any:
    """Return the decoded answer, or None if it was refused."""
    try:
        return read()
    except AnswerError as error:
        return None if str(error) else error


@given(documents, st.booleans())
def test_any_answer_is_understood_or_refused(document: Any, cached: bool) -> None:
    answer = json.dumps(document).encode()
    settings = {"urlPrefix": "http://a", "weight": 3, "nodeCacheCapable": cached}
    extender = Extender.model_validate(settings)

    filtered = outcome(lambda: read_filtered(extender, answer, NAMES))
    priorities = outcome(lambda: read_priorities(extender, answer))
    victims = outcome(lambda: read_preemption(extender, answer, lambda name: PLACED.get(name, [])))
    assert outcome(lambda: read_binding(answer)) is None

    assert filtered is None or set(filtered.names) <= set(NAMES)
    assert priorities is None or all(score % 30 == 0 for _, score in priorities)
    assert victims is None or all(
        victim in PLACED.get(name, []) for name, each in victims.items() for victim in each.pods
    )


@given(st.binary(max_size=20))
def test_an_answer_that_is_not_json_is_refused(answer: bytes) -> None:
    with pytest.raises(AnswerError):
        read_binding(b"{{" + answer)
