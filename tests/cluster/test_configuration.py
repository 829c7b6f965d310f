"""The operator with a configuration file: several profiles, and an extender, in one process.

It needs an API server that stores the bindings of pods of several schedulers.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cluster.operator_process import Launch
from cluster.world import World
from devcluster.loopback import HOST, running

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
FOO = "example.com/foo"


def write(folder: Path, **fields: Any) -> str:
    """Write a configuration file, and return the option for it."""
    file = folder / "scheduler.yaml"
    file.write_text(json.dumps({**HEAD, **fields}))
    return f"--config={file}"


class Extender(ThreadingHTTPServer):
    """An extender that accepts only the node named in `allowed`, and records its calls."""

    allowed = ""

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Handler)
        self.asked: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Extender

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        names = [node["metadata"]["name"] for node in asked["Nodes"]["items"]]
        left = [node for node in asked["Nodes"]["items"] if node["metadata"]["name"] == self.server.allowed]
        failed = dict.fromkeys(set(names) - {self.server.allowed}, "no devices left")
        body = json.dumps({"Nodes": {"items": left}, "FailedNodes": failed}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


@contextmanager
def extending() -> Iterator[Extender]:
    extender = Extender()
    with running(extender):
        yield extender


def test_one_process_serves_several_schedulers_with_their_own_plugins(
    launch: Launch, private_world: World, tmp_path: Path
) -> None:
    profiles = [
        {"schedulerName": "tidelock-scheduler"},
        {"schedulerName": "careless", "plugins": {"filter": {"disabled": [{"name": "NodeUnschedulable"}]}}},
    ]
    operator = launch(write(tmp_path, parallelism=4, profiles=profiles))
    node = private_world.node()
    node.cordon()
    refused = private_world.pod("web-0")
    placed = private_world.pod("web-1", schedulerName="careless")
    stranger = private_world.pod("web-2", schedulerName="somebody-else")

    assert placed.until_bound() == node.name
    refused.until_refused("node(s) were unschedulable")
    assert "nodeName" not in (stranger.read() or {})["spec"]
    assert "configured without effect" in operator.log
    assert "fields=parallelism" in operator.log


def test_an_extender_filters_nodes_only_for_pods_with_its_managed_resources(
    launch: Launch, private_world: World, tmp_path: Path
) -> None:
    with extending() as extender:
        settings = {
            "urlPrefix": f"http://{HOST}:{extender.server_port}/scheduler",
            "filterVerb": "filter",
            "managedResources": [{"name": FOO}],
        }
        launch(write(tmp_path, profiles=[{"schedulerName": "tidelock-scheduler"}], extenders=[settings]))
        sizes = {"a": "9", "b": "3"}
        nodes = [private_world.node(name, cpu=cpu, extended={FOO: "4"}) for name, cpu in sizes.items()]
        extender.allowed = nodes[1].name
        amounts = {"cpu": "1", FOO: "1"}
        resources = {"requests": amounts, "limits": amounts}
        container = {"name": "main", "image": "example.org/none", "resources": resources}

        ordinary = private_world.pod("web-0")
        assert ordinary.until_bound() == nodes[0].name
        assert extender.asked == []

        special = private_world.pod("web-1", containers=[container])
        assert special.until_bound() == nodes[1].name
        *_, asked = extender.asked
        assert asked["Pod"]["metadata"]["uid"] == special.uid
        assert asked["Pod"]["spec"]["containers"][0]["image"] == "example.org/none"
        sent = {node["metadata"]["name"]: node for node in asked["Nodes"]["items"]}
        assert set(sent) == {node.name for node in nodes}
        assert sent[nodes[0].name]["status"]["capacity"]["cpu"] == "9"

        extender.allowed = "nobody"
        refused = private_world.pod("web-2", containers=[container])
        assert refused.until_refused().startswith("0/2 nodes are available: 2 no devices left. preemption: ")
