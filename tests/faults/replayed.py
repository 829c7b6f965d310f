"""A run in a world: on virtual time, in memory, and replayed by its seed."""

import asyncio
import tempfile
import warnings
from collections.abc import Coroutine
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import yaml

from devcluster.identity import BASE, SERVICE_ACCOUNT, SYSTEM_NAMESPACE
from faults.plan import Plan
from faults.runner import PATIENCE, try_plan
from faults.verdict import Verdict
from world import Host, World
from world.api.operations import User
from world.api.server import ApiServer, Request
from world.api.serving import Site
from world.loop import Budget
from world.operator import import_all, write_kubeconfig

_PORT = 80
_TOKEN = "operator"  # noqa: S105 -- of a server in memory
_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM_NAMESPACE}", "system:authenticated")
_OPERATOR = User(f"system:serviceaccount:{SYSTEM_NAMESPACE}:{SERVICE_ACCOUNT}", _GROUPS)
_FILES = ("namespace", "fence", "quotas", "annotations-only", "pod-status", "status-writers")
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ValidatingAdmissionPolicy": f"{_POLICIES}ies",
    "ValidatingAdmissionPolicyBinding": f"{_POLICIES}ybindings",
}
_BUDGET = Budget(steps=20_000_000, seconds=50_000.0)


class Replay(NamedTuple):
    """A run in a world.

    Attributes:
        verdict: the plan, its violations and the evidence.
        digest: of each delivery with its instant. It is the same in each run of a plan.
        seconds: virtual time.
        requests: requests of the operator.

    """

    verdict: Verdict
    digest: str
    seconds: float
    requests: int


@cache
def _policies() -> list[tuple[str, bytes]]:
    """Return path and body of the namespace and the policies of an installation."""
    found = (
        each
        for name in _FILES
        for each in yaml.load_all((BASE / f"{name}.yaml").read_text(), yaml.CSafeLoader)
        if each["kind"] in _PATHS
    )
    return [(_PATHS[each["kind"]], msgspec.json.encode(each)) for each in found]


def replay(plan: Plan, patience: float = PATIENCE) -> Replay:
    """Run a plan in a world of its own."""
    import_all()
    world = World(plan.seed, budget=_BUDGET)
    operators: list[Host] = []
    uids, host = world.rng("uids"), world.host("api")
    api = ApiServer(host.wall, lambda: str(UUID(int=uids.getrandbits(128), version=4)))
    for path, body in _policies():
        response = api.handle(Request("POST", path, body=body))
        assert response.code == HTTPStatus.CREATED, response.body
    site = Site(api, users={_TOKEN: _OPERATOR})

    async def serve() -> None:
        await world.loop.create_server(site.protocol, port=_PORT)

    def start(operator: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        for former in operators:
            former.kill()
        # The clock of a run is read by all sides, so they share its beginning.
        operators.append(world.host("operator", uptime=world.loop.time()))
        return operators[-1].spawn(operator)

    async def main(folder: Path) -> Verdict:
        await host.spawn(serve())
        server = f"http://{host.name}:{_PORT}"
        admin = write_kubeconfig(folder / "admin", server)
        operator = write_kubeconfig(folder / "operator", server, _TOKEN)
        return await try_plan(admin, operator, plan, patience, host="world", start=start)

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = world.run(main(Path(folder)))
    asked = len(verdict.evidence.circumstances.asked)
    return Replay(verdict, world.history.digest(), world.loop.now, asked)
