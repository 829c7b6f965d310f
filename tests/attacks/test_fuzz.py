"""A short run of the fuzzer. Each seed draws other objects, and `make fuzz` plays many more.

How fast the operator answers is measured by `make fuzz` alone, as other tests run beside this one.
"""

import asyncio
import math
from pathlib import Path

from cluster.api import Api
from cluster.leases import forget_lease
from devcluster import LocalCluster
from fuzz.__main__ import run_plan
from fuzz.run import Plan
from sampling import sample

OBJECTS = sample(150, 500)
OURS = ("Reservation", "ReservationGroup", "ReservationSchedule", "ReservationQuote", "ReservationQuota")
"""Kinds with at least half of their objects accepted, so that these reach the operator."""


def test_hostile_objects_end_with_a_status_or_a_refusal_that_names_their_field(
    attacked_cluster: LocalCluster, tmp_path: Path
) -> None:
    outcome = asyncio.run(run_plan(attacked_cluster, Plan(seed="ci", objects=OBJECTS, folder=tmp_path)))
    forget_lease(Api(attacked_cluster.kubeconfig))
    assert outcome.findings == []
    probes, reservations = outcome.health.probes, outcome.health.reservations
    assert reservations
    assert not any(map(math.isinf, reservations))  # each was answered
    assert sum(map(math.isinf, probes)) <= len(probes) / 100
    assert outcome.patches > OBJECTS / 5
    assert {kind: share for kind in OURS if (share := outcome.accepted(kind)) < 1 / 2} == {}
