"""An installation by kustomize works as README and the pages on other binders and answers say."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from devcluster import DevClusterError, wait_for
from devcluster.cluster import ATTACH_VARIABLE
from devcluster.identity import COMPONENTS, SYSTEM_NAMESPACE
from e2e.site import OPERATOR, PATIENCE_SECONDS, ROOT, Image, Json, Site
from e2e.stream import STOCK, pod, reservation

pytestmark = pytest.mark.timeout(900)

_IN_SYSTEM = f"--namespace={SYSTEM_NAMESPACE}"
_NAMESPACE = "e2e-install"
_IN = f"--namespace={_NAMESPACE}"
_CLIENTS = "tidelock-extender-clients"
_CERTIFICATE = (
    *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
    *("-nodes", "-days", "3650", "-subj", "/CN=kube-scheduler"),
)
_MILLI = 1000


@pytest.fixture(autouse=True)
def namespace(installed: Site) -> Iterator[str]:
    with installed.namespace(_NAMESPACE):
        yield _NAMESPACE


@pytest.fixture
def worker(installed: Site) -> str:
    return installed.workers()[0]


def create(site: Site, *objects: Json) -> Json:
    """Create objects in the namespace, and return the last one as the response has it."""
    made: Json = {}
    for each in objects:
        body = {"apiVersion": "v1", "kind": "Pod"} | each
        made = json.loads(site.kubectl("create", _IN, "--output=json", "--filename=-", text=json.dumps(body)))
    return made


def wait(site: Site, name: str, condition: str) -> None:
    site.kubectl("wait", _IN, name, f"--for=condition={condition}", "--timeout=100s")


def node_of(site: Site, name: str) -> str:
    return str(site.read("pod", name, _IN)["spec"].get("nodeName", ""))


def free(site: Site, node: str) -> int:
    """Return the millicores of a node that no pod has requested."""
    described = site.kubectl("describe", "node", node)
    (used,) = (line.split()[1] for line in described.splitlines() if line.startswith("  cpu  "))
    cores = int(site.read("node", node)["status"]["allocatable"]["cpu"]) * _MILLI
    return cores - (int(used[:-1]) if used.endswith("m") else int(used) * _MILLI)


def test_two_replicas_run_on_two_nodes(installed: Site) -> None:
    pods = installed.operators()
    assert len(pods) == 2
    assert len({each["spec"]["nodeName"] for each in pods}) == 2
    assert installed.until("a leader", installed.leader) in {each["metadata"]["name"] for each in pods}


def test_the_quick_start_on_real_pods(installed: Site, image: Image, worker: str) -> None:
    """The README's commands, on a worker instead of the made-up node. Its cores scale the requests."""
    folder = ROOT / "docs" / "examples" / "quickstart"
    text = "---\n".join((folder / name).read_text() for name in ("node-and-reservation.yaml", "pods.yaml"))
    core = free(installed, worker) / 4
    for cores in (3, 2):
        text = text.replace(f'cpu: "{cores}"', f"cpu: {int(core * cores)}m")
    text = text.replace("quickstart", worker).replace("memory: 4Gi", "memory: 64Mi")
    objects = [each for each in yaml.safe_load_all(text) if each["kind"] != "Node"]
    for each in objects:
        for container in each["spec"].get("containers", ()):
            container |= {"image": image.name, "command": ["sleep", "1h"]}
    kept, *pods = objects
    create(installed, kept)
    wait(installed, "reservation/web-0", "Active")
    create(installed, *pods)
    wait(installed, "pod/web-0", "PodScheduled")
    wait(installed, "pod/web-0", "Ready")
    assert node_of(installed, "web-0") == worker
    assert not node_of(installed, "stranger")
    print("\n" + installed.kubectl("get", "pods", _IN, "--output=wide"))  # noqa: T201 -- the evidence


def test_the_demo_on_the_installed_operator(installed: Site) -> None:
    environment = os.environ | {ATTACH_VARIABLE: str(installed.cluster.kubeconfig)}
    command = [sys.executable, "-m", "demo"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print("\n" + "\n".join(done.stdout.splitlines()[-6:]))  # noqa: T201


def test_the_response_to_a_creation_has_the_answer(installed: Site) -> None:
    made = create(installed, reservation("answered", "20m", answer="Immediate"))
    answer = json.loads(made["metadata"]["annotations"]["tidelock.dev/answer"])
    assert answer["status"]["phase"] == "Active"
    assert answer["status"]["nodeName"] in installed.workers()
    wait(installed, "reservation/answered", "Active")
    status = installed.read("reservation", "answered", _IN)["status"]
    assert status["nodeName"] == answer["status"]["nodeName"]


def test_kube_scheduler_is_refused_reserved_capacity(installed: Site, worker: str) -> None:
    """kube-scheduler knows of no reservation, so only the webhook behind the Service keeps it out."""
    core = free(installed, worker)
    create(installed, reservation("mine", f"{core * 3 // 4}m", nodeName=worker))
    wait(installed, "reservation/mine", "Active")
    there = {"nodeSelector": {"kubernetes.io/hostname": worker}}
    create(installed, pod("foreign", f"{core // 2}m", STOCK, **there))

    def told() -> str:
        events = installed.read("events", _IN, "--field-selector=involvedObject.name=foreign")["items"]
        return " ".join(each["message"] for each in events if "denied the request" in each["message"])

    message = installed.until("a refusal by admission", told)
    assert 'admission webhook "bindings.tidelock.dev" denied the request' in message
    assert f"reserved by {_NAMESPACE}/mine" in message
    assert not node_of(installed, "foreign")
    print(f"\n{message}")  # noqa: T201
    create(installed, pod("small", "10m", STOCK, **there))
    wait(installed, "pod/small", "PodScheduled")
    create(installed, pod("mine", f"{core // 2}m", STOCK, **there))
    wait(installed, "pod/mine", "PodScheduled")


def test_a_pod_with_a_node_is_refused_reserved_capacity(installed: Site, worker: str) -> None:
    core = free(installed, worker)
    create(installed, reservation("mine", f"{core * 3 // 4}m", nodeName=worker))
    wait(installed, "reservation/mine", "Active")
    with pytest.raises(DevClusterError, match=r'"pods.tidelock.dev" denied the request'):
        create(installed, pod("assigned", f"{core // 2}m", nodeName=worker))


def test_kube_scheduler_asks_the_extender_through_its_service(
    installed: Site, worker: str, cleanup: ExitStack
) -> None:
    """The steps of docs/other-binders.md, for a second kube-scheduler with the image of the cluster's own."""
    with tempfile.TemporaryDirectory() as name:
        _set_up_the_extender(installed, Path(name), cleanup)
    _run_scheduler(installed, cleanup)
    core = free(installed, worker)
    create(installed, reservation("mine", f"{core * 3 // 4}m", nodeName=worker))
    wait(installed, "reservation/mine", "Active")
    there = {"nodeSelector": {"kubernetes.io/hostname": worker}}
    create(installed, pod("asking", f"{core // 2}m", "asking-scheduler", **there))

    def refused() -> str:
        conditions = installed.read("pod", "asking", _IN)["status"].get("conditions", [])
        return " ".join(str(each.get("message")) for each in conditions if each["type"] == "PodScheduled")

    message = installed.until(
        "a refusal by the extender", refused, lambda text: "beside reservations" in text
    )
    events = installed.read("events", _IN, "--field-selector=involvedObject.name=asking")["items"]
    assert not [each for each in events if "denied the request" in each["message"]]
    print(f"\n{message}")  # noqa: T201
    create(installed, pod("mine", f"{core // 2}m", "asking-scheduler"))
    wait(installed, "pod/mine", "PodScheduled")
    assert node_of(installed, "mine") == worker


def _set_up_the_extender(site: Site, folder: Path, cleanup: ExitStack) -> None:
    """Make a client's certificate, let the operator know it, and store the scheduler's configuration."""
    key, certificate = folder / "client.key", folder / "client.crt"
    subprocess.run(
        ["openssl", *_CERTIFICATE, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    known = ("create", "secret", "generic", _CLIENTS, _IN_SYSTEM, f"--from-file=clients.crt={certificate}")
    cleanup.callback(site.kubectl, "delete", "secret", _CLIENTS, _IN_SYSTEM)
    site.kubectl(*known)
    site.kubectl("rollout", "restart", OPERATOR, _IN_SYSTEM)
    site.rolled_out()
    site.kubectl("get", "secret", "tidelock-tls", _IN_SYSTEM)
    authority = folder / "ca.crt"
    path = '--output=go-template={{index .data "ca.crt" | base64decode}}'
    authority.write_text(site.kubectl("get", "secret", "tidelock-tls", _IN_SYSTEM, path))
    address = site.read("service", "tidelock-binders", _IN_SYSTEM)["spec"]["clusterIP"]
    shipped = (COMPONENTS / "extender" / "kube-scheduler.yaml").read_text()
    configuration = yaml.safe_load(shipped.replace("10.96.0.100", address))
    assert address in json.dumps(configuration)
    configuration["clientConnection"] = {"kubeconfig": ""}  # the ServiceAccount of its pod
    configuration["leaderElection"] = {"leaderElect": False}
    configuration["profiles"] = [{"schedulerName": "asking-scheduler"}]
    (folder / "kube-scheduler.yaml").write_text(yaml.safe_dump(configuration))
    site.kubectl("create", "secret", "generic", "asking", _IN, f"--from-file={folder}")


def _run_scheduler(site: Site, cleanup: ExitStack) -> None:
    """Run another kube-scheduler as a pod in the network of its host, with the rights of the stock one."""
    own = site.read("pods", "--namespace=kube-system", "--selector=component=kube-scheduler")["items"][0]
    image = own["spec"]["containers"][0]["image"]
    subject = f"--serviceaccount={_NAMESPACE}:default"
    for role in ("system:kube-scheduler", "system:volume-scheduler"):
        binding = f"e2e-{role.rpartition(':')[2]}"
        cleanup.callback(site.kubectl, "delete", "clusterrolebinding", binding)
        site.kubectl("create", "clusterrolebinding", binding, f"--clusterrole={role}", subject)
    mount = {"name": "files", "mountPath": "/etc/kubernetes/tidelock"}
    command = [
        "kube-scheduler",
        "--config=/etc/kubernetes/tidelock/kube-scheduler.yaml",
        "--secure-port=10269",
    ]
    container = {"name": "main", "image": image, "command": command, "volumeMounts": [mount]}
    create(
        site,
        {
            "metadata": {"name": "asking-scheduler"},
            "spec": {
                "hostNetwork": True,
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                "volumes": [{"name": "files", "secret": {"secretName": "asking"}}],
            },
        },
    )
    wait_for(
        lambda: (
            "asking-scheduler" in site.kubectl("get", "pods", _IN, "--field-selector=status.phase=Running")
        ),
        what="the second kube-scheduler",
        timeout=PATIENCE_SECONDS,
    )
