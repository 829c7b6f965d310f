"""The pages of the web view, of an operator on a real API server.

It needs an API server that serves the objects that the pages show.
"""

import json
from functools import partial
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from cluster.operator_process import Launch, OperatorProcess
from cluster.world import World
from devcluster import wait_for
from devcluster.loopback import HOST


def shown(operator: OperatorProcess, view: str, **query: str) -> dict[str, Any]:
    """Read the first page that a browser gets."""
    parameters = urlencode({"view": view} | query)
    with urlopen(f"http://{HOST}:{operator.port}/web/events?{parameters}", timeout=60) as stream:
        page: dict[str, Any] = json.loads(stream.readline().removeprefix(b"data: "))["page"]
    return page


def row(operator: OperatorProcess, world: World, view: str) -> Any:
    """Return the only row of a list in the namespace of the test, or None until it has a reason."""
    rows = shown(operator, view, namespace=world.namespace)["rows"]
    return rows[0] if rows and "not processed" not in rows[0]["why"] else None


def test_all_kinds_of_objects_are_shown(launch: Launch, private_world: World) -> None:
    operator, world = launch("--web-view"), private_world
    node = world.node(cpu="4")
    world.quota(hard={"cpu": "3"})
    lease = {"durationSeconds": 600}
    reservation = world.active_reservation("web-0", "1", node, lease=lease)
    world.group(members=2).until(lambda found: found["status"].get("phase") == "Active", "be active")
    world.schedule(durationSeconds=60)

    with urlopen(f"http://{HOST}:{operator.port}/", timeout=60) as page:
        assert page.url.endswith("/web/")
    group, schedule, quota = (
        wait_for(partial(row, operator, world, view), what=f"the {view}")
        for view in ("groups", "schedules", "quotas")
    )
    assert (group["phase"], group["ready"], group["upcoming"][1]) == ("Active", 2, "ends")
    assert schedule["nextStart"] is not None
    assert quota["lines"] == [{"resource": "cpu", "share": 1.0, "used": "3", "hard": "3"}]

    on_node = shown(operator, "node", name=node.name)
    assert on_node["node"]["amounts"][0] == [4000, 0, 3000]
    assert {each["reservation"]["phase"] for each in on_node["reservations"]} == {"Active"}
    alone = shown(operator, "reservation", namespace=world.namespace, name="web-0")
    status = reservation.status()
    assert {each["event"] for each in alone["life"]} >= {"created", "active", "lease renewed", "lease lapses"}
    told = [(each["type"], each["status"], each["reason"]) for each in alone["conditions"]]
    assert told == [(each["type"], each["status"], each["reason"]) for each in status["conditions"]]
