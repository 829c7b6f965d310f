"""Leases: reservations that their holder must renew.

It needs an API server that stores the renewals of holders beside the writes of the operator.
"""

import pytest

from cluster.api import RefusedError
from cluster.live import condition, in_seconds
from cluster.world import World


def test_a_lease_lapses_is_renewed_in_its_grace_period_and_expires_at_last(world: World) -> None:
    """Test the life of a lease. Edits shorten it, each after the previous state was seen."""
    reservation = world.active_reservation(
        node=world.node(), lease={"durationSeconds": 600}, retention="Retain"
    )
    first = in_seconds(-3600)  # the holder's clock is an hour behind
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
    assert reservation.phases() == ["Active", "Expired"]
    with pytest.raises(RefusedError, match="is final"):
        reservation.edit(lease={"renewTime": in_seconds(0)})
