"""Outages of an API server as a whole. They affect all runs on a cluster, so each run has it to itself."""

import asyncio
import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from devcluster import LocalCluster
from devcluster.binders import webhook_configuration
from devcluster.identity import BASE, MANIFESTS, SYSTEM_NAMESPACE, rendered
from devcluster.loopback import HOST, free_ports
from faults.draws import Action as Drawn
from faults.draws import Draw
from faults.fault_run import Action, FaultRun
from faults.hasty import awaiting_answer
from faults.history import RESOURCES, Json, Record
from faults.plan import Plan, Step
from tidelock.binders.webhooks import CONFIGURATION
from tidelock.kube.client import WEBHOOKS, ApiResource
from tidelock.kube.errors import AlreadyExists, ApiError
from tidelock.kube.lease import LEASES

_CRDS = MANIFESTS.parent / "crds"
_FENCE = BASE / "fence.yaml"
_ROLES = ApiResource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
_NAME = "tidelock"
_LEASE = LEASES.item(_NAME, SYSTEM_NAMESPACE)

# Seconds of the loop.
_LOOK = 0.2
_PATIENCE = 600.0

_OWN = tuple(resource.plural for resource in RESOURCES if resource.group == "tidelock.dev")

_REMOVABLE = ("reservations", "waterlevels", *_OWN)

_RIGHTS = (
    *(("", "pods", verb) for verb in ("get", "list", "watch", "delete")),
    *(("", "nodes", verb) for verb in ("list", "watch")),
    ("", "pods/binding", "create"),
    ("", "pods/eviction", "create"),
    ("", "pods/status", "patch"),
    *(("tidelock.dev", "reservations", verb) for verb in ("list", "watch", "create", "delete")),
    *(("tidelock.dev", f"{plural}/status", "update") for plural in _OWN),
    ("tidelock.dev", "waterlevels/status", "patch"),
    *(("tidelock.dev", plural, verb) for plural in _OWN for verb in ("list", "watch")),
)
"""Group, resource and verb of each right that can be taken."""


class ApiOutages:
    """Breaks a cluster, and repairs it.

    Attributes:
        actions: the outages, and their ends, by the names of steps.

    """

    def __init__(self, cluster: LocalCluster, run: FaultRun, record: Record) -> None:
        self._cluster = cluster
        self._run = run
        self._record = record
        self._removed: set[str] = set()
        self._fenced = True
        self._asks = False
        self._forbidden: list[tuple[str, str, str]] = []
        own: Mapping[str, Action] = {
            "api server dies": self._die,
            "compaction": self._compact,
            "right taken": self._take_right,
            "rights given": self._give_rights,
            "fence removed": self._remove_fence,
            "fence restored": self._restore_fence,
            "webhook unanswered": self._put_webhook,
            "webhook removed": self._remove_webhook,
            "crd removed": self._remove_kind,
            "crds restored": self._restore_kinds,
        }
        self.actions = {name: _without_run(action) for name, action in own.items()}

    async def elect(self) -> int:
        """Begin another leadership, through outages if necessary, and return its number in the Lease."""
        admin = self._run.site.admin
        while True:
            with suppress(ApiError):
                with suppress(AlreadyExists):
                    body = {"metadata": {"name": _NAME}, "spec": {"leaseTransitions": 0}}
                    await admin.create(LEASES.collection(SYSTEM_NAMESPACE), body)
                stored = await self._run.stored(_LEASE)
                epoch: int = stored["spec"].get("leaseTransitions", 0) + 1
                await admin.patch(_LEASE, {"spec": {"leaseTransitions": epoch}})
                return epoch
            await asyncio.sleep(_LOOK)

    async def mend(self) -> None:
        """End all outages."""
        self._run.proxy.away = False
        await self._restore_kinds()
        await self._restore_fence()
        await self._remove_webhook()
        await self._give_rights()

    # The process, and its store.

    async def _die(self, down: float) -> None:
        """Kill the API server and start it again. The operator reaches it once the record is up to date."""
        self._run.proxy.away = True
        with awaiting_answer():
            await asyncio.to_thread(self._cluster.apiserver.kill)
            await asyncio.sleep(down)
            await asyncio.to_thread(self._cluster.apiserver.start)
        await self._until_followed()
        self._run.proxy.away = False

    async def _until_followed(self) -> None:
        """Wait until the record follows all kinds that the API server knows."""
        there = {resource.plural for resource in self._run.plan.resources} - self._removed
        async with asyncio.timeout(_PATIENCE):
            while not there <= self._record.followed:  # noqa: ASYNC110 -- a follower may end at any time
                await asyncio.sleep(_LOOK)

    async def _compact(self) -> None:
        """Compact etcd, which removes all versions except the newest."""
        asked = await self._ask_etcd("range", {"key": base64.b64encode(b"/").decode()})
        await self._ask_etcd("compaction", {"revision": asked["header"]["revision"]})

    async def _ask_etcd(self, what: str, question: Json) -> Json:
        url = f"http://{HOST}:{self._cluster.etcd.health.port}/v3/kv/{what}"
        async with self._run.site.session.post(url, json=question) as answer:
            answer.raise_for_status()
            told: Json = await answer.json()
        return told

    # The rights of the operator, and the fence.

    async def _take_right(self, group: str, resource: str, verb: str) -> None:
        self._forbidden.append((group, resource, verb))
        await self._put_rights()

    async def _give_rights(self) -> None:
        self._forbidden.clear()
        await self._put_rights()

    async def _put_rights(self) -> None:
        with awaiting_answer():
            manifests = await asyncio.to_thread(rendered, self._cluster)
        (role,) = (
            each for each in manifests if (each["kind"], each["metadata"]["name"]) == (_ROLES.kind, _NAME)
        )
        rules = role["rules"]
        for right in self._forbidden:
            rules = list(without(rules, *right))
        await self._run.site.admin.patch(_ROLES.item(_NAME), {"rules": rules})

    async def _remove_fence(self) -> None:
        if self._fenced:
            self._fenced = False
            await self._kubectl("delete", "--filename", str(_FENCE))

    async def _restore_fence(self) -> None:
        if not self._fenced:
            await self._kubectl("apply", "--server-side", "--filename", str(_FENCE))
            self._fenced = True

    async def _put_webhook(self) -> None:
        """Make the API server ask about bindings of other schedulers, at a port where no operator listens."""
        if not self._asks:
            self._asks = True
            configuration = await asyncio.to_thread(webhook_configuration, self._cluster, free_ports(1)[0])
            await self._run.site.admin.create(WEBHOOKS.collection(), configuration)

    async def _remove_webhook(self) -> None:
        if self._asks:
            await self._run.site.admin.delete(WEBHOOKS.item(CONFIGURATION))
            self._asks = False

    # CRDs.

    async def _remove_kind(self, plural: str) -> None:
        """Remove a CRD with all objects of its kind, which the operator did not delete."""
        self._removed.add(plural)
        await self._kubectl("delete", "--filename", str(_CRDS / f"{plural}.yaml"), "--ignore-not-found")
        self._run.deleted.update(each.uid for each in self._record.changes if each.kind == plural)

    async def _restore_kinds(self) -> None:
        for plural in sorted(self._removed):
            await self._kubectl("apply", "--server-side", "--filename", str(_CRDS / f"{plural}.yaml"))
        self._removed.clear()
        await self._until_followed()

    async def _kubectl(self, *arguments: str) -> None:
        with awaiting_answer():
            await asyncio.to_thread(self._cluster.kubectl, *arguments)


def _without_run(action: Action) -> Action:
    """Return an action that ignores the run that a step passes."""
    return lambda _, **arguments: action(**arguments)


def without(rules: Sequence[Json], group: str, resource: str, verb: str) -> Iterator[Json]:
    """Yield rules that allow the same without one right."""
    for rule in rules:
        if group not in rule["apiGroups"] or resource not in rule["resources"] or verb not in rule["verbs"]:
            yield rule
            continue
        for kept, verbs in (
            ([each for each in rule["resources"] if each != resource], rule["verbs"]),
            ([resource], [each for each in rule["verbs"] if each != verb]),
        ):
            if kept and verbs:
                yield rule | {"resources": kept, "verbs": verbs}


def with_outages(plan: Plan) -> Plan:
    """Return a plan with outages that are drawn from its seed. Most of them end some steps later."""
    rng = Random(f"{plan.seed}/outages")  # noqa: S311 -- to be repeated
    steps = list(plan.steps)
    for _ in range(rng.randint(2, 4)):
        broken, mended = rng.choice(_OUTAGES)
        at = rng.randint(0, len(steps))
        steps.insert(at, _step(rng, broken(rng)))
        if mended:
            steps.insert(rng.randint(at + 1, len(steps)), _step(rng, (mended, {})))
    return replace(plan, steps=tuple(steps), outages=True)


def _step(rng: Random, drawn: Drawn) -> Step:
    return Step(rng.choice((None, 0.0, 0.2)), *drawn)


def _right(rng: Random) -> Drawn:
    group, resource, verb = rng.choice(_RIGHTS)
    return "right taken", {"group": group, "resource": resource, "verb": verb}


_OUTAGES: tuple[tuple[Draw, str], ...] = (
    *((lambda rng: ("api server dies", {"down": rng.choice((0.0, 1.0))}), ""),) * 3,
    *((lambda _: ("compaction", {}), ""),) * 2,
    *((_right, "rights given"),) * 3,
    (lambda _: ("fence removed", {}), "fence restored"),
    (lambda _: ("webhook unanswered", {}), "webhook removed"),
    *((lambda rng: ("crd removed", {"plural": rng.choice(_REMOVABLE)}), "crds restored"),) * 2,
)
"""Outages, each with the step that ends it, as often as they should be drawn."""
