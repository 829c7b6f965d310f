"""The client for managers, with no more rights than a manager has, and the same steps by curl.

It needs an API server that authorizes each request by roles.
"""

import asyncio
import base64
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.api import Manifest
from cluster.live import condition
from cluster.managed import reservations, spec
from cluster.world import World
from devcluster import Cluster as ControlPlane
from devcluster import wait_for
from devcluster.identity import token_kubeconfig
from documents import ROOT, blocks
from tidelock.client import Cluster, quote, race

PAGE = ROOT / "docs" / "integrate-your-manager.md"
CURL_TIMED_OUT = 28
LONG = "--max-time 10"  # of the watch on the page


@pytest.fixture
def manager(world: World, controlplane: ControlPlane, tmp_path: Path) -> Path:
    """Return a kubeconfig with the rights of the ClusterRole tidelock-manager, and no others."""
    here = f"--namespace={world.namespace}"
    controlplane.kubectl("create", "serviceaccount", "dispatcher", here)
    account = f"--serviceaccount={world.namespace}:dispatcher"
    controlplane.kubectl(
        "create", "rolebinding", "dispatcher", "--clusterrole=tidelock-manager", account, here
    )
    return token_kubeconfig(controlplane, "dispatcher", world.namespace, tmp_path / "dispatcher")


async def test_the_rights_of_a_manager_suffice(world: World, manager: Path) -> None:
    node = world.node()
    wanted = spec(world, lease={"durationSeconds": 1})
    async with Cluster("east", kubeconfig=manager) as cluster:
        assert (await quote(cluster, wanted)).feasible
        async with race([cluster], wanted, name="web-0") as held:
            await asyncio.sleep(1)
            assert (held.node, held.lost.is_set()) == (node.name, False)
    assert reservations(world) == []


def test_the_page_has_the_same_steps_over_http(world: World, manager: Path, tmp_path: Path) -> None:
    world.node()
    found = json.loads(manager.read_text())
    server = found["clusters"][0]["cluster"]
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(server["certificate-authority-data"]))
    page = [each for each in blocks() if each.page == PAGE]
    (body,) = (each.text for each in page if each.language == "json")
    (tmp_path / "reservation.json").write_text(body)
    (text,) = (each.text for each in page if each.language == "sh" and "curl" in each.text)
    export, create, watch, commit, delete = text.replace("/shop/", f"/{world.namespace}/").splitlines()
    variables = {"SERVER": server["server"], "TOKEN": found["users"][0]["user"]["token"]}

    def run(command: str) -> list[Manifest]:
        done = subprocess.run(
            ["bash", "-c", f"{export}\n{command}"],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | variables,
        )
        assert done.returncode in {0, CURL_TIMED_OUT}, done.stderr
        decoder, answers, rest = json.JSONDecoder(), [], done.stdout.strip()
        while rest:
            answer, end = decoder.raw_decode(rest)
            answers.append(answer)
            rest = rest[end:].strip()
        return answers

    def watched(until: Callable[[Manifest], object]) -> Manifest:
        """Watch until the last seen status is as expected, for a second at a time."""
        assert LONG in watch
        status = wait_for(
            lambda: run(watch.replace(LONG, "--max-time 1"))[-1]["object"]["status"],
            until=until,
            what="the status of the reservation",
        )
        return dict(status)

    assert run(create)[0]["metadata"]["name"] == "web-0"
    held = watched(lambda status: status["phase"] == "Active")
    variables["HOLD"] = held["commit"]["token"]
    assert run(commit)[0]["spec"]["commit"]["token"] == variables["HOLD"]
    watched(lambda status: condition(status, "Committed").get("status") == "True")
    run(delete)
    assert reservations(world) == []
