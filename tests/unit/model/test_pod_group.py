"""PodGroups as they are read."""

import pytest

from builders import NAMESPACE, encode
from tidelock.model.pod_group import decode_pod_group


@pytest.mark.parametrize(
    ("mode", "together"),
    [
        ({"all": {}}, True),
        ({"all": {"later": "field"}}, True),
        ({"single": {}}, False),
        ({"all": None, "single": {}}, False),
        ({}, False),
        (None, False),
        ("all", False),
        ({"all": "yes"}, False),
    ],
)
def test_the_disruption_mode_is_read_if_possible_and_never_keeps_a_group_from_use(
    mode: object, *, together: bool
) -> None:
    group = decode_pod_group(
        encode({"metadata": {"name": "train", "namespace": NAMESPACE}, "spec": {"disruptionMode": mode}})
    )
    assert group.disrupts_all is together
    assert not group.meta.unreadable
