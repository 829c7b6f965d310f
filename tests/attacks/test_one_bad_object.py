"""Faults of the operator's own code that affect one object. It reports them, and all others are served.

A plugin plants the faults in the operator's process, each for objects of a name (`attacks/planted.py`).
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from attacks.operators import AS_INSTALLED, until_led
from attacks.planted import offer
from attacks.tenant import LatencyProbe, Tenant
from cluster.api import Api, Manifest
from cluster.leases import forget_lease
from cluster.live import Live, condition
from cluster.operator_process import OperatorProcess
from devcluster import LocalCluster, wait_for
from tidelock.kube.client import EVENTS

TESTS = Path(__file__).parents[1]

_CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "tidelock-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "Planted"}]}},
        }
    ],
}


class Case(NamedTuple):
    """A step that fails, the object for which it fails, and the condition that this object gets.

    The condition is given by type, status and reason. If `again` is set the step is retried automatically.
    """

    step: str
    resource: str
    make: Callable[[Tenant], Live]
    told: tuple[str, str, str] | None = None
    again: bool = True


_AT_A_TIME = 8
_READY = ("Ready", "False", "InternalError")
_STALLED = ("Stalled", "True", "InternalError")
_ROOMY: dict[str, Any] = {"pendingDeadlineSeconds": 3600}


def _bound_by_others(tenant: Tenant) -> Live:
    node = tenant.node("look-up")
    tenant.active_reservation("fails-look-up", "1", node)
    tenant.api = tenant.admin  # only an administrator may set the node of a pod
    return tenant.pod("fails-look-up", nodeName=node.name)


def _removed(tenant: Tenant) -> Live:
    reservation = tenant.active_reservation("fails-removal", "1", tenant.node("removal", cpu="1"))
    reservation.delete()
    return reservation


CASES = {
    "a lock's decision": Case(
        "decision",
        "reservations",
        lambda tenant: tenant.reservation("fails-decision", **_ROOMY),
        ("Active", "False", "PluginFailed"),
    ),
    "a group's decision": Case(
        "decision",
        "reservationgroups",
        lambda tenant: tenant.group("fails-decision-all", **_ROOMY),
        ("Active", "False", "PluginFailed"),
    ),
    "a pod's decision": Case(
        "decision",
        "pods",
        lambda tenant: tenant.pod("fails-decision"),
        ("PodScheduled", "False", "SchedulerError"),
    ),
    "a lock's event": Case(
        "event", "reservations", lambda tenant: tenant.reservation("fails-event"), _STALLED
    ),
    "a pod's event": Case(
        "event",
        "pods",
        lambda tenant: tenant.pod("fails-event"),
        ("PodScheduled", "False", "Unschedulable"),
    ),
    "a node's event": Case("event", "nodes", lambda tenant: tenant.node("fails-event")),
    "a lock that can't be decoded": Case(
        "decoding", "reservations", lambda tenant: tenant.reservation("fails-decoding"), again=False
    ),
    "a lock's removal": Case("removal", "reservations", _removed, again=False),
    "a lock's end": Case(
        "due",
        "reservations",
        lambda tenant: tenant.active_reservation("fails-due", ttlSeconds=1),
        _STALLED,
    ),
    "a lock's status": Case("status", "reservations", lambda tenant: tenant.reservation("fails-status")),
    "what is told of a lock": Case(
        "telling", "reservations", lambda tenant: tenant.active_reservation("fails-telling"), again=False
    ),
    "the record of a lock": Case(
        "audit",
        "reservations",
        lambda tenant: tenant.active_reservation("fails-audit", ttlSeconds=1),
        again=False,
    ),
    "a group": Case("keeping", "reservationgroups", lambda tenant: tenant.group("fails-keeping"), _READY),
    "a schedule": Case(
        "keeping", "reservationschedules", lambda tenant: tenant.schedule("fails-keeping"), _READY
    ),
    "a quote": Case(
        "quote",
        "reservationquotes",
        lambda tenant: tenant.quote("fails-quote", resources={"cpu": "1"}),
        _READY,
    ),
    "a plugin's part in a quote": Case(
        "quote",
        "reservationquotes",
        lambda tenant: tenant.quote("fails-decision", resources={"cpu": "1"}),
        ("Feasible", "Unknown", "PluginFailed"),
        again=False,
    ),
    "a quota": Case(
        "status",
        "reservationquotas",
        lambda tenant: tenant.quota("fails-status"),
        _READY,
    ),
    "a pod's gate": Case(
        "gate",
        "pods",
        lambda tenant: tenant.pod("fails-gate"),
        ("PodScheduled", "False", "SchedulingGated"),
    ),
    "a pod's queueing hint": Case(
        "hint",
        "pods",
        lambda tenant: tenant.pod("fails-hint"),
        ("PodScheduled", "False", "Unschedulable"),
    ),
    "a pod's binding": Case(
        "binding",
        "pods",
        lambda tenant: tenant.pod("fails-binding"),
        ("PodScheduled", "False", "SchedulerError"),
    ),
    "what is taken back after it": Case("unreserve", "pods", lambda tenant: tenant.pod("fails-binding-too")),
    "a look-up of a pod that others have bound": Case("look-up", "pods", _bound_by_others),
    "a pod's condition": Case(
        "condition", "pods", lambda tenant: tenant.pod("fails-condition", cpu="1000"), again=False
    ),
}


class Affected(NamedTuple):
    """An object for which a step fails, with its tenant."""

    tenant: Tenant
    about: Live


class Failing(OperatorProcess):
    """An operator in which faults are planted."""

    def faults(self, step: str, about: str) -> list[dict[str, Any]]:
        """Return the log's lines about faults of an object in a step."""
        return [line for line in self.lines if (line.get("step"), line.get("object")) == (step, about)]

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The log's lines that are JSON."""
        return [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def failing(
    attacked_cluster: LocalCluster, operator_identity: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Failing]:
    """Start an operator as installed, with the plugin that plants faults. It must outlive the tests."""
    folder, site = tmp_path_factory.mktemp("failing"), tmp_path_factory.mktemp("site")
    offer(site)
    config = folder / "scheduler.yaml"
    config.write_text(json.dumps(_CONFIGURATION))
    path = os.pathsep.join((str(site), str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    options = (*AS_INSTALLED, f"--config={config}", "--log-format=json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        with Failing(operator_identity, folder, *options) as process:
            until_led(process)
            begun = process.pid
            yield process
            assert process.running
            assert process.pid == begun
            assert process.healthy()
            assert process.stop() == 0
    forget_lease(Api(attacked_cluster.kubeconfig))


@pytest.fixture(scope="module")
def affected(
    failing: Failing, attacked_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Affected]]:
    """Create the objects of all cases, each in a namespace of its own with enough capacity."""
    folders = {name: tmp_path_factory.mktemp("tenant") for name in CASES}
    with ExitStack() as tenants:

        def affect(name: str) -> Affected:
            tenant = tenants.enter_context(closing(Tenant(attacked_cluster, folders[name])))
            tenant.node()
            return Affected(tenant, CASES[name].make(tenant))

        with ThreadPoolExecutor(_AT_A_TIME) as pool:  # a tenant waits for its rights
            made = dict(zip(CASES, pool.map(affect, CASES), strict=True))
        yield made


@pytest.mark.parametrize("name", CASES)
def test_a_fault_affects_only_its_object(
    failing: Failing, affected: dict[str, Affected], latency_probe: LatencyProbe, name: str
) -> None:
    case, (tenant, about) = CASES[name], affected[name]
    key = f"{about.namespace}/{about.name}" if about.namespace else about.name
    faults = partial(failing.faults, case.step, f"{case.resource} {key}")

    told = wait_for(
        faults, until=lambda lines: len(lines) >= (3 if case.again else 1), what=f"faults of {key}"
    )
    if case.again:
        pauses = [line["again_in"] for line in told]
        assert pauses[:3] == [1, 2, 4]
    series = f'tidelock_object_errors_total{{resource="{case.resource}",step="{case.step}"}}'
    assert failing.metrics()[series] >= len(told)
    wait_for(lambda: "InternalError" in event_reasons(tenant, about), what=f"an event of {key}")
    if case.told is not None:
        kind, status, reason = case.told

        def says(found: Manifest) -> bool:
            known = condition(found.get("status", {}), kind)
            return (known.get("status"), known.get("reason")) == (status, reason)

        about.until(says, f"have {kind}={status} with reason {reason}")
    latency_probe.check()


def test_the_capacity_of_a_reservation_is_freed_although_its_removal_failed(
    affected: dict[str, Affected],
) -> None:
    tenant, _ = affected["a lock's removal"]
    tenant.active_reservation("next", "1", tenant.node_name("removal"), pendingDeadlineSeconds=600)


def test_each_step_and_type_of_error_has_one_traceback(
    failing: Failing, affected: dict[str, Affected]
) -> None:
    assert affected
    faults = [line for line in failing.lines if line["message"] == "a step failed"]
    places = {(line["step"], line["error"].partition(":")[0]) for line in faults}
    tracebacks = Counter(
        (line["step"], line["error"].partition(":")[0]) for line in faults if "exception" in line
    )
    assert tracebacks == dict.fromkeys(places, 1)
    others = [line for line in failing.lines if "exception" in line and line["message"] != "a step failed"]
    assert not others
    assert not [line for line in failing.log.splitlines() if not line.startswith("{")]


def event_reasons(tenant: Tenant, about: Live) -> set[str]:
    """Return the reasons of the events about an object, which may have no namespace."""
    path = f"{EVENTS.collection()}?fieldSelector=regarding.name={about.name}"
    events = tenant.admin.get(path)["items"]
    return {event["reason"] for event in events if event["regarding"].get("uid") == about.uid}
