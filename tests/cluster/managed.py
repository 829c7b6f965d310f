"""Reservations as a manager creates them, and the stored ones."""

from typing import Any

from cluster.api import Manifest
from cluster.world import World
from tidelock.client import PODS, RESERVATIONS


def spec(world: World, cpu: str = "1", **fields: Any) -> Manifest:
    """Return the spec of a reservation for the pod web-0."""
    wanted: Manifest = world.manifest("web-0", cpu, **fields)["spec"]
    return wanted


def reservations(world: World) -> list[Manifest]:
    """Return the reservations of a world."""
    found: list[Manifest] = world.api.get(RESERVATIONS.collection(world.namespace))["items"]
    return found


def pods(world: World) -> list[Manifest]:
    """Return the pods of a world."""
    found: list[Manifest] = world.api.get(PODS.collection(world.namespace))["items"]
    return found
