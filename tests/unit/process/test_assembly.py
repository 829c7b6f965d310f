"""The parts of a process by its settings."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tidelock.assembly import assemble
from tidelock.clock import SystemClock
from tidelock.framework.config import default_configuration
from tidelock.kube.client import KubeClient
from tidelock.kube.lease import NoElection
from tidelock.plugins.registry import BUILTINS
from tidelock.settings import Settings
from unit.process.empty_server import empty_server

ALWAYS = {
    "gates",
    "quotas",
    "quotes",
    "groups",
    "schedules",
    "load",
    "protection",
    "lag",
    "clock",
    "leaders",
    "webhooks",
    "web",
}


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({}, set[str]()),
        ({"provisioning_requests": True}, {"provisioning"}),
        ({"request_nodes": True}, {"node requests"}),
        ({"karmada_cluster": "member"}, {"estimator"}),
        ({"extender": True}, {"binders"}),
        ({"admission": True}, {"binders"}),
        ({"answers": True}, {"binders"}),
    ],
)
async def test_a_process_has_the_parts_that_its_settings_ask_for(
    tmp_path: Path, settings: dict[str, Any], more: set[str]
) -> None:
    async with empty_server(tmp_path / "kubeconfig") as (server, connection, client):
        made = assembly_of(Settings(**settings), connection, client)
        names = [part.name for part in made.parts]

        assert sorted(names) == sorted(ALWAYS | more)
        assert not server.requests  # nothing is read or written before it leads


async def test_each_watch_has_a_name_of_its_own(tmp_path: Path) -> None:
    """Health would hide one of two with the same name."""
    everything = Settings(provisioning_requests=True, request_nodes=True, admission=True, answers=True)
    async with empty_server(tmp_path / "kubeconfig") as (_, connection, client):
        watched = [each.name for each in assembly_of(everything, connection, client).reflectors]
    assert len(set(watched)) == len(watched) > 20


def assembly_of(settings: Settings, connection: Any, client: KubeClient) -> Any:
    configuration = default_configuration("tidelock-scheduler", BUILTINS)
    rng = Random(1)  # noqa: S311 -- for jitter
    return assemble(settings, configuration, connection, client, NoElection(), SystemClock(), rng)
