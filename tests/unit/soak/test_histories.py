import asyncio
import json
from typing import Any

import pytest

from soak.histories import Histories, LostError
from tidelock.kube.client import PODS, RESERVATIONS


def event(kind: str, name: str = "web-0", **fields: Any) -> bytes:
    return json.dumps(
        {"type": kind, "object": {"metadata": {"name": name, "resourceVersion": "7"}} | fields}
    ).encode()


def active(status: str) -> dict[str, Any]:
    return {"status": {"phase": "Active", "conditions": [{"type": "Active", "status": status}]}}


async def test_a_short_lived_state_is_remembered() -> None:
    seen = Histories(patience=20)
    seen.expect(RESERVATIONS, "web-0")
    waiting = asyncio.create_task(
        seen.until(
            RESERVATIONS, "web-0", lambda history: history.was_active and history.gone, "Active and gone"
        )
    )
    await asyncio.sleep(0)
    assert seen.take_reservation(event("ADDED"), 0.0) == "7"
    for line in (event("MODIFIED", **active("True")), event("MODIFIED", **active("False")), event("DELETED")):
        seen.take_reservation(line, 0.0)
    assert (await waiting).gone


async def test_a_pod_and_a_reservation_of_the_same_name_are_distinguished() -> None:
    seen = Histories(patience=20)
    seen.expect(RESERVATIONS, "web-0")
    seen.expect(PODS, "web-0")
    seen.take_pod(event("MODIFIED", spec={"nodeName": "a"}), 0.0)
    history = await seen.until(PODS, "web-0", lambda history: history.node, "bound")
    assert history.node == "a"
    assert seen.expect(RESERVATIONS, "web-0").node == ""


async def test_a_state_that_does_not_occur_in_time_is_an_error() -> None:
    seen = Histories(patience=0.01)
    seen.expect(RESERVATIONS, "web-0")
    seen.take_reservation(event("ADDED", status={"phase": "Pending"}), 0.0)
    with pytest.raises(LostError, match=r"Reservation web-0 was not Active after 0.01 s: phase 'Pending'"):
        await seen.until(RESERVATIONS, "web-0", lambda history: history.was_active, "Active")


async def test_a_forgotten_object_is_not_recorded() -> None:
    seen = Histories(patience=20)
    seen.expect(PODS, "web-0")
    seen.forget(PODS, "web-0")
    seen.take_pod(event("ADDED"), 0.0)
    with pytest.raises(KeyError):
        await seen.until(PODS, "web-0", bool, "there")
