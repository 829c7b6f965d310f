"""Reservations while their owner is being bound: expiry, a refusal, deletion and a crash.

It needs an API server that refuses a second binding of a pod.
"""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from cluster.binding_gate import BindingGate, binding_gate
from cluster.live import Lock, in_seconds, until_past
from cluster.operator_process import Launch
from cluster.world import World
from devcluster import wait_for
from tidelock.model.instants import parse_instant


@pytest.fixture
def gate(private_world: World, tmp_path: Path) -> Iterator[BindingGate]:
    """Yield a closed gate for bindings of the private world."""
    with binding_gate(private_world.api, private_world.namespace, tmp_path) as made:
        yield made


def expire(reservation: Lock) -> None:
    """Let the expiry of a reservation pass, whatever its phase."""
    end = in_seconds(1)
    reservation.edit(expireAt=end)
    until_past(end)


def test_expiry_never_interrupts_a_binding(private_world: World, gate: BindingGate, launch: Launch) -> None:
    launch()
    node = private_world.node(cpu="2")
    reservation = private_world.active_reservation(
        cpu="2", node=node, expireAt=in_seconds(600), retention="Retain"
    )
    pod = private_world.pod(cpu="2")
    gate.until_reached()
    expire(reservation)
    private_world.pod("stranger", cpu="2").until_refused("Insufficient cpu")

    gate.open()
    assert pod.until_bound() == node.name
    assert reservation.until_phase("Consumed")["boundPod"]["uid"] == pod.uid
    assert "Expired" not in reservation.phases()


def test_a_reservation_is_active_again_after_a_refused_binding(
    private_world: World, gate: BindingGate, launch: Launch
) -> None:
    operator = launch()
    node = private_world.node(cpu="2")
    reservation = private_world.active_reservation(cpu="2", node=node)
    pod = private_world.pod(cpu="2")
    gate.until_reached()
    gate.open(allow=False)
    series = 'tidelock_reservation_transitions_total{event="admit",phase="Active"}'
    wait_for(
        lambda: operator.metrics()[series] >= 2, what="the lock to be back"
    )  # the operator tries repeatedly

    private_world.pod("stranger", cpu="1").until_refused("reserved by")
    assert reservation.status()["phase"] == "Active"
    gate.open()
    assert pod.until_bound() == node.name
    reservation.until_gone()
    assert private_world.taken_cpu(node) == Decimal(2)


def test_a_reservation_that_expires_during_a_failing_binding_is_expired(
    private_world: World, gate: BindingGate, launch: Launch
) -> None:
    launch()
    node = private_world.node(cpu="2")
    reservation = private_world.active_reservation(
        cpu="2", node=node, expireAt=in_seconds(600), retention="Retain"
    )
    private_world.pod(cpu="2")
    gate.until_reached()
    expire(reservation)
    gate.open(allow=False)
    status = reservation.until_phase("Expired")
    assert parse_instant(status["finishedAt"]) >= parse_instant(status["expiresAt"])
    assert "boundPod" not in status


def test_the_deletion_of_a_reservation_does_not_stop_the_binding_of_its_owner(
    private_world: World, gate: BindingGate, launch: Launch
) -> None:
    launch()
    node = private_world.node(cpu="2")
    reservation = private_world.active_reservation(cpu="2", node=node)
    pod = private_world.pod(cpu="2")
    gate.until_reached()
    reservation.delete()
    gate.open()
    assert pod.until_bound() == node.name


def test_a_crash_during_a_binding_counts_no_capacity_twice(
    private_world: World, gate: BindingGate, launch: Launch
) -> None:
    operator = launch()
    node = private_world.node(cpu="2")
    reservation = private_world.active_reservation(cpu="2", node=node)
    pod = private_world.pod(cpu="2")
    stranger = private_world.pod("stranger", cpu="2")
    gate.until_reached()
    operator.kill()
    gate.open()
    operator.start()
    operator.ready()
    assert pod.until_bound() == node.name
    reservation.until_gone()
    stranger.until_refused("Insufficient cpu")
    assert private_world.taken_cpu(node) == Decimal(2)
