"""The message of a standby about a leader that does not renew its Lease."""

from random import Random

import pytest

from tidelock.kube.client import KubeClient
from tidelock.kube.config import Connection, Credentials
from tidelock.kube.lease import Lease, LeaseObject, LeaseSpec, NoElection
from tidelock.kube.rest_config import RestConfig
from tidelock.model.meta import ObjectMeta


class Standby:
    """A standby that watches the Lease, and its clock."""

    def __init__(self) -> None:
        self.time = 100.0
        connection = Connection(server="https://none.example.org", credentials=Credentials(RestConfig))
        client = KubeClient(connection, user_agent="test")
        rng = Random(1)  # noqa: S311 -- for jitter
        self.lease = Lease(
            client, name="tidelock", namespace="system", identity="b", rng=rng, clock=lambda: self.time
        )
        self._last: LeaseObject | None = None

    def see(self, holder: str, seconds: int = 15) -> None:
        """Deliver a change of the Lease."""
        spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=seconds, lease_transitions=1)
        seen = LeaseObject(ObjectMeta(name="tidelock", namespace="system"), spec)
        self.lease.upsert(self._last, seen)
        self._last = seen


@pytest.fixture
def standby() -> Standby:
    return Standby()


def test_a_leader_that_renews_is_not_silent(standby: Standby) -> None:
    standby.see("a")
    standby.time += 2
    standby.see("a")
    standby.time += 4.9
    assert standby.lease.silence == ""


def test_a_leader_that_stops_renewing_is_reported(standby: Standby) -> None:
    standby.see("a")
    standby.see("a")
    standby.time += 7
    assert standby.lease.silence == "no renewal by a seen for 7 s: it can be taken in 8 s"
    standby.see("a")
    assert standby.lease.silence == ""


def test_a_lease_that_was_never_seen_renewed_is_reported_at_once(standby: Standby) -> None:
    standby.see("gone", seconds=3600)
    standby.time += 1
    assert standby.lease.silence == "no renewal by gone seen for 1 s: it can be taken in 3599 s"


def test_another_leader_must_be_seen_to_renew_first(standby: Standby) -> None:
    standby.see("a")
    standby.see("a")
    standby.see("c")
    assert standby.lease.silence.startswith("no renewal by c seen for 0 s")


def test_without_a_leader_no_silence_is_reported(standby: Standby) -> None:
    assert standby.lease.silence == ""
    standby.see("")
    assert standby.lease.silence == ""
    assert NoElection().silence == ""
