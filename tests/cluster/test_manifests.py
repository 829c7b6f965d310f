"""manifests/: the objects that kustomize and Helm install, and the samples.

It needs an API server that accepts all objects of the manifests and the chart, and applies them together.
"""

import json
import re
import secrets
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api import Manifest
from cluster.crds import SAMPLES, install_crds
from cluster.live import Pod
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import Cluster, DevClusterError, wait_for
from devcluster.identity import EXTENDER, MANIFESTS, SYSTEM_NAMESPACE, rendered
from devcluster.loopback import Health
from installation.rendering import EVERYTHING, FOREIGN, PARTS, PLATFORM, Charted
from tidelock import __version__
from tidelock.binders.endpoint import SERVICE
from tidelock.binders.webhooks import CONFIGURATION, WEBHOOK_NAMES
from tidelock.kube.client import PODS
from tidelock.model.quantities import parse_resources
from tidelock.settings import Settings

_PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
KINDS = [
    "ClusterRole",
    "ClusterRole",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "CustomResourceDefinition",
    "CustomResourceDefinition",
    "CustomResourceDefinition",
    "CustomResourceDefinition",
    "CustomResourceDefinition",
    "Deployment",
    "FlowSchema",
    "FlowSchema",
    "Namespace",
    "NetworkPolicy",
    "NetworkPolicy",
    "NetworkPolicy",
    "PriorityLevelConfiguration",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "Service",
    "ServiceAccount",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBinding",
]
RESERVATIONS = [
    path
    for path in sorted(SAMPLES.glob("*.yaml"))
    if yaml.safe_load(path.read_text())["kind"] == "Reservation"
]
# Labels that the samples require of a node.
LABELS = {"topology.kubernetes.io/zone": "zone-a", "kubernetes.io/os": "linux", "accelerator": "a100"}


_rendered = cache(rendered)


def of_kind(cluster: Cluster, kind: str, name: str = "", *parts: str) -> Manifest:
    """Return the only manifest of a kind, or the only one of its name."""
    (found,) = [
        deepcopy(manifest)
        for manifest in _rendered(cluster, *parts)
        if manifest["kind"] == kind and name in {"", manifest["metadata"]["name"]}
    ]
    return found


def container(deployment: Manifest) -> Manifest:
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    found: Manifest = only
    return found


def sample(path: Path, world: World) -> Manifest:
    """Read a sample, and put the world's namespace and node in the place of its own."""
    manifest: Manifest = yaml.safe_load(path.read_text())
    manifest["metadata"]["namespace"] = world.namespace
    if "nodeName" in manifest["spec"]:
        manifest["spec"]["nodeName"] = world.node_name("a")
    return manifest


@pytest.fixture(scope="module")
def installed(controlplane: Cluster) -> Cluster:
    """Install the CRDs and the namespace, which dry runs of their objects need, and return the cluster."""
    install_crds(controlplane)
    namespace = yaml.safe_dump(of_kind(controlplane, "Namespace"))
    controlplane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=namespace)
    return controlplane


@pytest.fixture
def pod(installed: Cluster) -> Iterator[Manifest]:
    """Yield the manifest of the Deployment's pod, with a unique name."""
    template = of_kind(installed, "Deployment")["spec"]["template"]
    name = f"test-{secrets.token_hex(4)}"
    metadata = template["metadata"] | {"name": name, "namespace": SYSTEM_NAMESPACE}
    yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    installed.kubectl("delete", "pod", name, "-n", SYSTEM_NAMESPACE, "--ignore-not-found", "--wait=false")


def test_an_installation_has_exactly_these_kinds_of_objects(controlplane: Cluster) -> None:
    assert sorted(manifest["kind"] for manifest in rendered(controlplane)) == KINDS


def test_everything_is_accepted_without_a_warning(installed: Cluster, charted: Charted) -> None:
    """Apply each object of base, its parts, chart, samples and gitops once."""
    made = rendered(installed) + [each for part in PARTS for each in rendered(installed, part)]
    made += charted.objects(EVERYTHING) + charted.objects(PLATFORM)
    for path in (*SAMPLES.glob("*.yaml"), *(MANIFESTS / "gitops").glob("*.yaml")):
        made += yaml.safe_load_all(path.read_text())
    accepted = [manifest for manifest in made if manifest["kind"] not in FOREIGN]
    texts = {json.dumps(manifest, sort_keys=True) for manifest in accepted}
    # Forced, because other tests also apply this role.
    flags = ("--server-side", "--force-conflicts", "--dry-run=server", "--warnings-as-errors")
    applied = installed.kubectl("apply", *flags, "-f", "-", input="\n---\n".join(sorted(texts)))
    assert applied.count("serverside-applied (server dry run)") == len(texts)


def test_the_webhooks_call_the_operator_and_exclude_the_namespaces_that_it_needs_to_start(
    controlplane: Cluster,
) -> None:
    objects = rendered(controlplane, EXTENDER)
    (configuration,) = (each for each in objects if each["kind"] == "ValidatingWebhookConfiguration")
    (service,) = (
        each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Service", SERVICE)
    )
    assert "selector" not in service["spec"]
    (port,) = service["spec"]["ports"]
    assert configuration["metadata"]["name"] == CONFIGURATION
    assert [each["name"] for each in configuration["webhooks"]] == list(WEBHOOK_NAMES)
    for webhook in configuration["webhooks"]:
        target = webhook["clientConfig"]["service"]
        assert f"{target['name']}.{target['namespace']}.svc" in Settings().tls_names
        assert (target["name"], target["port"]) == (SERVICE, port["port"])
        (left_out,) = webhook["namespaceSelector"]["matchExpressions"]
        assert (left_out["operator"], set(left_out["values"])) == ("NotIn", {"kube-system", SYSTEM_NAMESPACE})


def test_the_pod_passes_the_restricted_standard(installed: Cluster, pod: Manifest) -> None:
    created = installed.kubectl("create", "-f", "-", "-o", "name", input=yaml.safe_dump(pod))
    assert created.strip() == f"pod/{pod['metadata']['name']}"


@pytest.mark.parametrize(
    "weaker", [{"runAsUser": 0}, {"allowPrivilegeEscalation": True}, {"capabilities": {"add": ["NET_ADMIN"]}}]
)
def test_a_weaker_pod_violates_the_restricted_standard(
    installed: Cluster, pod: Manifest, weaker: dict[str, Any]
) -> None:
    pod["spec"]["containers"][0]["securityContext"] |= weaker
    with pytest.raises(DevClusterError, match='violates PodSecurity "restricted'):
        installed.kubectl("create", "-f", "-", input=yaml.safe_dump(pod))


def test_the_root_file_system_is_read_only(controlplane: Cluster) -> None:
    """The restricted standard does not require it."""
    assert container(of_kind(controlplane, "Deployment"))["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_memory_has_a_limit(controlplane: Cluster) -> None:
    """Six endless request bodies used 950 MiB of the node, at the expense of all pods on it."""
    limits = container(of_kind(controlplane, "Deployment"))["resources"]["limits"]
    assert parse_resources(limits)["memory"] <= 2 * 1024**3


@pytest.mark.parametrize("parts", [(), (EXTENDER,)], ids=["base", "extender"])
def test_the_network_policies_admit_traffic_only_to_the_ports_of_the_pod(
    controlplane: Cluster, parts: tuple[str, ...]
) -> None:
    objects = rendered(controlplane, *parts)
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    policies = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in container(deployment)["ports"]}
    chosen = [policy for policy in policies if policy["podSelector"]]
    assert {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} in policies
    assert all(policy["podSelector"]["matchLabels"].items() <= labels.items() for policy in chosen)
    reached = [
        port["port"] for policy in chosen for rule in policy.get("ingress", ()) for port in rule["ports"]
    ]
    assert sorted(reached) == sorted(ports)


def test_one_operator_leads_and_one_stands_by(controlplane: Cluster) -> None:
    """Check that the Role and the fence use the operator's default name of the Lease."""
    name, account = Settings().lease_name, f"system:serviceaccount:{SYSTEM_NAMESPACE}:tidelock"
    assert of_kind(controlplane, "Deployment", "tidelock", "components/ha")["spec"]["replicas"] == 2
    assert "--no-leader-elect" not in container(of_kind(controlplane, "Deployment"))["args"]
    assert of_kind(controlplane, "Role")["rules"][0]["resourceNames"] == [name]
    rules = of_kind(controlplane, "ClusterRole", "tidelock")["rules"]
    assert [each["resourceNames"] for each in rules if each["resources"] == ["leases"]] == [[name]]
    binding = of_kind(controlplane, "ValidatingAdmissionPolicyBinding", "tidelock-fence")["spec"]
    assert binding["paramRef"].items() >= {"name": name, "namespace": SYSTEM_NAMESPACE}.items()
    for policy in ("tidelock-fence", "tidelock-annotations-only"):
        (condition,) = of_kind(controlplane, "ValidatingAdmissionPolicy", policy)["spec"]["matchConditions"]
        assert condition["expression"] == f"request.userInfo.username == '{account}'"


def test_the_image_is_this_version(controlplane: Cluster) -> None:
    assert container(of_kind(controlplane, "Deployment"))["image"] == f"tidelock:{__version__}"


def test_probes_and_scrapes_reach_the_port_that_is_served(
    controlplane: Cluster, operator: OperatorProcess
) -> None:
    running = container(of_kind(controlplane, "Deployment"))
    (port,) = running["ports"]
    (metrics,) = of_kind(controlplane, "Service")["spec"]["ports"]
    targets = [running[probe]["httpGet"]["port"] for probe in _PROBES]
    assert {port["name"], metrics["targetPort"], *targets} == {"http"}
    assert re.search(rf"EXPOSE {port['containerPort']}\b", (SAMPLES.parents[1] / "Dockerfile").read_text())
    for probe in _PROBES:
        wait_for(Health(operator.port, running[probe]["httpGet"]["path"], None).ok, what=probe)


@pytest.mark.parametrize("path", RESERVATIONS, ids=lambda path: path.stem)
def test_a_sample_reservation_becomes_active(world: World, path: Path) -> None:
    world.known_node(cpu="64", labels=LABELS, extended={"memory": "256Gi", "nvidia.com/gpu": "1"})
    world.store(sample(path, world)).until_phase("Active")


def test_the_sample_pod_consumes_the_sample_reservation(world: World) -> None:
    world.node("b", cpu="64")  # as good as the other node without the reservation
    node = world.node()
    reservation = world.store(sample(SAMPLES / "pod-on-node.yaml", world))
    reservation.until_phase("Active")
    created = world.api.create(PODS.collection(world.namespace), sample(SAMPLES / "pod.yaml", world))
    assert Pod(world.api, PODS, created).until_bound() == node.name
    reservation.until_gone()
