"""Leases: a lock whose holder has to renew it."""

import pytest

from cluster.api import RefusedError
from cluster.live import condition, in_seconds
from cluster.world import World


def test_a_lock_is_renewed_lapses_is_saved_and_lost_at_last(world: World) -> None:
    """Its short lives are given by edits, each after what comes before was seen."""
    reservation = world.active_reservation(
        node=world.node(), lease={"durationSeconds": 600}, retention="Retain"
    )
    first = in_seconds(-3600)  # the holder's clock is an hour late
    reservation.edit(lease={"renewTime": first})
    reservation.until(lambda found: found["status"]["lease"].get("renewTime") == first, "be renewed")

    reservation.edit(lease={"durationSeconds": 1, "graceSeconds": 600})
    lapsed = reservation.until_condition("LeaseLapsed", "True", "NotRenewed")
    assert reservation.status()["lease"]["lostAt"] in lapsed["message"]
    assert condition(reservation.status(), "Active")["status"] == "True"
    reservation.edit(lease={"durationSeconds": 600, "renewTime": in_seconds(-3599)})
    reservation.until(lambda found: not condition(found["status"], "LeaseLapsed"), "be saved")

    reservation.edit(lease={"durationSeconds": 1, "graceSeconds": 0})
    assert condition(reservation.until_phase("Expired"), "Expired")["reason"] == "LeaseExpired"
    assert set(reservation.phases()) == {"Active", "Expired"}
    with pytest.raises(RefusedError, match="is final"):
        reservation.edit(lease={"renewTime": in_seconds(0)})
