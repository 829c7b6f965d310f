"""Secrets that the operator gets or creates, which appear in none of its outputs.

It needs an API server that gives Secrets to the operator alone.
"""

import base64
import json
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from cluster.api import Api, Manifest
from cluster.binder_server import SECRET, addresses
from cluster.live import Live, condition
from cluster.operator_process import OperatorProcess
from cluster.water_level import water_level
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import EXTENDER, SERVICE_ACCOUNT, SYSTEM_NAMESPACE, operator_kubeconfig
from devcluster.loopback import HOST, free_ports, running
from tidelock.kube.client import EVENTS, SECRETS, ApiResource

ROLES = ApiResource("rbac.authorization.k8s.io", "v1", "roles", "Role")
BINDINGS = ApiResource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
LOGIN = "prometheus-login"


@dataclass
class Refusing:
    """A Prometheus that refuses every request, and repeats the login of the request in its answer."""

    url: str
    logins: set[str] = field(default_factory=set)


@contextmanager
def refusing() -> Iterator[Refusing]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            login = self.headers.get("Authorization", "")
            server.logins.add(login)
            body = json.dumps({"status": "error", "errorType": "auth", "error": f"not you: {login}"}).encode()
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    listener = ThreadingHTTPServer((HOST, 0), Handler)
    server = Refusing(f"http://{HOST}:{listener.server_port}")
    with running(listener):
        yield server


@pytest.fixture
def world(private_world: World) -> World:
    """Return a world with a login, in a Secret that the operator may read."""
    namespace = private_world.namespace
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [LOGIN], "verbs": ["get"]}
    private_world.api.create(ROLES.collection(namespace), {"metadata": {"name": LOGIN}, "rules": [rule]})
    binding = {
        "metadata": {"name": LOGIN},
        "roleRef": {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": LOGIN},
        "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": SYSTEM_NAMESPACE}],
    }
    private_world.api.create(BINDINGS.collection(namespace), binding)
    return private_world


def login(world: World, **keys: str) -> Manifest:
    """Build the Secret with a login that the operator reads."""
    metadata = {"name": LOGIN, "namespace": world.namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": keys}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def scrape(operator: OperatorProcess, token: str) -> int:
    """Scrape the metrics with a token, and return the HTTP status."""
    request = Request(f"http://{HOST}:{operator.port}/metrics", headers={"Authorization": f"Bearer {token}"})
    try:
        with urlopen(request, timeout=60) as answer:  # noqa: S310 -- loopback
            return int(answer.status)
    except HTTPError as error:
        with closing(error):
            return error.code


def refused(level: Live) -> str:
    """Wait until a WaterLevel reports a refusal by its source, and return the message."""
    found = level.until(
        lambda seen: condition(seen.get("status", {}), "Ready").get("reason") == "SourceRefused",
        "tell that it is refused",
    )
    return str(condition(found["status"], "Ready")["message"])


def test_no_secret_appears_in_logs_statuses_or_events(
    private_cluster: LocalCluster, world: World, tmp_path: Path
) -> None:
    kubeconfig = operator_kubeconfig(private_cluster, tmp_path, EXTENDER)
    (own,) = (user["user"]["token"] for user in json.loads(kubeconfig.read_text())["users"])
    password, token, metrics_token = (secrets.token_urlsafe(20) for _ in range(3))
    (tmp_path / "metrics-token").write_text(metrics_token)
    path, node = SECRETS.item(LOGIN, world.namespace), world.node()
    world.api.create(SECRETS.collection(world.namespace), login(world, username="ann", password=password))
    (port,) = free_ports(1)
    options = (
        "--log-level=debug",
        "--extender",
        *addresses(port),
        f"--metrics-token-file={tmp_path / 'metrics-token'}",
    )
    with refusing() as prometheus, OperatorProcess(kubeconfig, tmp_path, *options) as operator:
        source = {"address": prometheus.url, "authSecretRef": {"namespace": world.namespace, "name": LOGIN}}
        level = water_level(world, prometheus.url, source={"prometheus": source})
        basic = encoded(f"ann:{password}")
        wait_for(lambda: f"Basic {basic}" in prometheus.logins, what="a login by password")
        world.api.replace(path, login(world, token=token))
        wait_for(lambda: f"Bearer {token}" in prometheus.logins, what="a login by token")
        told = [refused(level), json.dumps(level.read())]
        made = wait_for(lambda: _made(world.api), what="the Secret with the certificate")
        world.active_reservation(node=node)
        assert (scrape(operator, metrics_token), scrape(operator, password)) == (200, 401)
        assert operator.stop() == 0
        level.delete()
        told += [operator.log, json.dumps(world.api.get(EVENTS.collection("default")))]

    assert "not you: " in told[0]
    assert " DEBUG " in operator.log
    keys = [base64.b64decode(made["data"][name]).decode() for name in ("tls.key",)]
    lines = [line for key in keys for line in key.splitlines() if len(line) > 40]
    hidden = [own, password, token, metrics_token, basic, *lines]
    hidden += [encoded(each) for each in (password, token, metrics_token)]
    assert len(lines) > 1
    assert [each for each in hidden for text in told if each in text] == []


def _made(api: Api) -> Manifest:
    """Return the Secret with the operator's keys, or an empty one if it has none yet."""
    found = api.get(SECRET)
    return found if found.get("data") else {}
