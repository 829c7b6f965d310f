"""A benchmark of a start without an API server: python -m bench.start [--quick] [--profile].

Nodes, placed pods and active reservations are encoded as the API server lists them. The reflectors and event
handlers of `tidelock run` read these lists, and a first pod is decided. The figures are the processor time of
each part, the time of the whole, and the memory that it takes. Imports, HTTP and TLS are not included.
"""

import argparse
import asyncio
import cProfile
import gc
import pstats
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import cast

import msgspec
import uvloop

from bench.command import add_counts, add_json, is_quick
from bench.decisions import (
    DEFAULT,
    NAMESPACE,
    NOW,
    SCHEDULER,
    DecisionError,
    Stopped,
    encoded_reservation,
    furnished,
    pods,
)
from bench.figures import Figure, table
from bench.nodes import Json
from bench.record import Record
from bench.scenarios import node_name, plain_node, plain_pod, pod_object
from devcluster.output import say
from tidelock.framework.config import default_configuration
from tidelock.kube.client import NODES, PODS, RESERVATIONS, ApiResource, KubeClient
from tidelock.kube.watch import Reflector
from tidelock.ledger.output.status import render_reservation
from tidelock.plugins.registry import BUILTINS
from tidelock.running import collect_seldom, keeping_nearly_all
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.decider import Decider
from tidelock.scheduler.core.driver import due_steps
from tidelock.scheduler.informers.event_handlers import EventHandlers
from tidelock.scheduler.informers.informers import reflectors
from tidelock.scheduler.scheduler_core import assemble_core

_CREATED = "2027-01-01T00:00:00Z"
_TOP = 45  # functions of a profile
_KIBI = 1024
_WHOLE = "in all"
_FIELDS = tuple(f"f:field{number}" for number in range(20))  # of the spec, with a manager

Lists = Mapping[ApiResource, Sequence[bytes]]
"""The encoded objects of each resource."""


@dataclass
class Recorded:
    """A client for reflectors that answers lists from memory, and watches with no event."""

    lists: Lists

    async def get(self, path: str, params: Mapping[str, str]) -> bytes:
        """Return a page of a list. The token of the next page is its first number."""
        found = (objects for resource, objects in self.lists.items() if resource.collection() == path)
        objects: Sequence[bytes] = next(found, ())
        start = int(params.get("continue", 0))
        end = start + int(params["limit"])
        token = str(end) if end < len(objects) else ""
        head = _encode({"resourceVersion": "2", "continue": token})
        return b'{"metadata":%b,"items":[%b]}' % (head, b",".join(objects[start:end]))

    @asynccontextmanager
    async def stream(self, _path: str, _params: object, **_settings: object) -> AsyncIterator["Recorded"]:
        """Open a watch."""
        yield self

    async def read(self) -> bytes:
        """Wait forever."""
        await asyncio.get_running_loop().create_future()
        return b""


@dataclass
class Parts:
    """The figures of a start, by the name of the part."""

    figures: dict[str, Figure] = field(default_factory=dict)

    def add(self, name: str, unit: str, value: float) -> None:
        """Add a value of a round."""
        self.figures.setdefault(name, Figure(name, unit, headline=name == _WHOLE)).add(value)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the processor time of a block."""
        begin = time.process_time()
        yield
        self.add(name, "s", time.process_time() - begin)


async def start(lists: Lists, parts: Parts) -> None:
    """Read the lists and decide a pod.

    Raises:
        DecisionError: the first pod fitted no node.

    """
    before = _resident()
    with parts.timed(_WHOLE), keeping_nearly_all():
        core = assemble_core(default_configuration(SCHEDULER, BUILTINS), Stopped())
        decider, handlers = core.decider, core.event_handlers
        all_listed = handlers.await_resource("all")
        client = cast(KubeClient, Recorded(lists))
        make = partial(Reflector, client, rng=Random(0))  # noqa: S311 -- for jitter
        followed = list(reflectors(make, handlers, handlers.pods, whole=False))
        for reflector in followed:
            name = f"list of {reflector.resource.plural}"
            with parts.timed(name) if reflector.resource in lists else nullcontext():
                task = asyncio.create_task(reflector.run())
                await reflector.synced.wait()
                task.cancel()
        with parts.timed("ledger in line"):
            all_listed()
        with parts.timed("first decision"):
            _decide(decider, handlers)
    parts.add("resident, more", "MiB", (_resident() - before) / _KIBI)


def _decide(decider: Decider, handlers: EventHandlers) -> None:
    handlers.pods.upsert(None, pods(DEFAULT, 1, alike=True)[0])
    if not any(isinstance(step.outcome, AssumedPod) for step in due_steps(decider, lambda: NOW)):
        raise DecisionError("the first pod fitted no node")


def make_lists(options: argparse.Namespace) -> Lists:
    """Make all objects in the form in which the API server returns them."""
    templates = options.templates or options.placed
    return {
        NODES: [_stored(plain_node(number)) for number in range(options.nodes)],
        PODS: [_stored(_placed(number, options.nodes, templates)) for number in range(options.placed)],
        RESERVATIONS: list(_reservations(options.locks, options.nodes)),
    }


def _placed(number: int, nodes: int, templates: int) -> Json:
    """Return a running pod of a workload, one of so many templates."""
    template = number % templates
    app = f"app-{template}"
    shape = plain_pod(number)
    (container,) = shape["spec"]["containers"]
    container = {
        **container,
        "resources": {"requests": {"cpu": "100m", "memory": f"{(256 << 10) + template}Ki"}},
        "env": [{"name": f"SETTING_{index}", "value": f"{app}-{index}"} for index in range(5)],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
        "imagePullPolicy": "IfNotPresent",
    }
    node = node_name(number % nodes)
    body = pod_object(f"placed-{number:06}", SCHEDULER, {"labels": {"app": app}, "spec": {}})
    body["metadata"] |= {
        "namespace": NAMESPACE,
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
        ],
    }
    body["spec"] |= {
        "nodeName": node,
        "containers": [container],
        "serviceAccountName": "default",
        "priority": 0,
        "volumes": [{"name": "token", "projected": {"sources": []}}],
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{key}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for key in ("not-ready", "unreachable")
        ],
    }
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    body["status"] = {
        "phase": "Running",
        "startTime": _CREATED,
        "podIP": "10.0.0.1",
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _CREATED} for kind in kinds],
        "containerStatuses": [
            {
                "name": container["name"],
                "ready": True,
                "image": container["image"],
                "resources": container["resources"],
                "allocatedResources": container["resources"]["requests"],
                "state": {"running": {"startedAt": _CREATED}},
            }
        ],
    }
    return body


def _reservations(count: int, nodes: int) -> Iterator[bytes]:
    """Yield active reservations, spread over the nodes in turn."""
    decider, _ = furnished(replace(DEFAULT, reservations=1), 1, 0)
    (entry,) = decider.ledger.entries.values()
    status = render_reservation(entry, NOW)
    for number in range(count):
        body: Json = msgspec.json.decode(encoded_reservation(number))
        node = node_name(number % nodes)
        yield _stored({**body, "status": {**status, "nodeName": node, "nodeUID": node}})


def _stored(body: Json) -> bytes:
    """Encode an object as the API server stores it: with its identity, and the managers of its fields."""
    fields = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {name: {} for name in _FIELDS}}
    managed = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": _CREATED,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        | ({"subresource": "status"} if manager == "kubelet" else {})
        for manager in ("kube-controller-manager", "kubelet")
    ]
    metadata = {
        "uid": body["metadata"]["name"],
        **body["metadata"],
        "resourceVersion": "1",
        "creationTimestamp": _CREATED,
        "managedFields": managed,
    }
    return _encode({**body, "metadata": metadata})


def _resident() -> int:
    """Return this process's resident memory in KiB."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:"))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line. --quick changes the defaults, and given options take precedence."""
    parser = argparse.ArgumentParser(prog="bench.start", description="Measure a start without HTTP.")
    quick = is_quick(parser, arguments, "a smaller cluster, for a first look")
    counts = (
        ("nodes", 5_000, 500, "nodes"),
        ("placed", 30_000, 3_000, "pods that are already placed"),
        ("templates", 50, 50, "templates of these pods. With 0 all pods differ"),
        ("locks", 10_000, 1_000, "active reservations"),
    )
    add_counts(parser, counts, quick=quick)
    parser.add_argument("--profile", action="store_true", help="print where the time goes, and slow it down")
    add_json(parser, arguments)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark. The exit status is 0 with any figures."""
    options = parse(arguments)
    record = Record.begin(options)
    say(f"{options.nodes} nodes, {options.placed} placed pods, {options.locks} locks.")
    lists = make_lists(options)
    collect_seldom()
    gc.collect()
    parts, profile = Parts(), cProfile.Profile()
    if options.profile:
        profile.enable()
    uvloop.run(start(lists, parts))
    if options.profile:
        profile.disable()
        pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(_TOP)
    print(table(list(parts.figures.values())))
    record.add(list(parts.figures.values()))
    record.write(options.json)
    return 0


_encode = msgspec.json.Encoder().encode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
