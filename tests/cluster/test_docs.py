"""README and docs on a real API server: objects are valid, commands exist, and the tutorial works.

It needs an API server that accepts each object and command of a page, and renders tables.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from cluster.crds import install_crds
from cluster.operator_process import OperatorProcess
from cluster.shell import Shell, replay
from cluster.world import World
from devcluster import Cluster, DevClusterError
from devcluster.identity import rendered
from devcluster.loopback import HOST
from documents import ROOT, Block, Command, Kind, blocks, commands, kind_of, objects
from replayed import EXAMPLES, README, TUTORIAL, example, is_replayed

MANIFESTS = ("manifests/base", "manifests/monitoring")
# Objects of these groups belong to other operators, and their CRDs are not installed.
FOREIGN: Mapping[str, str] = {
    "monitoring.coreos.com": "of the Prometheus operator",
    "kueue.x-k8s.io": "of Kueue",
}
ABSENT = re.compile(
    rf"\(NotFound\)|no matching resources found|no matches for kind .* in version \"({'|'.join(FOREIGN)})/"
    r"|doesn't have a resource type"
    r"|release: not found|has no deployed releases"
)
_INSTALLED = "kubectl create namespace tidelock-system"  # by the fixture
_WRITES = frozenset({"annotate", "apply", "create", "delete", "label", "patch"})
# Flags for a dry run of Helm, which must also work beside objects of the chart that other tests have applied.
_TAKEN = ("--dry-run=server", "--take-ownership", "--force-conflicts")
_HELM: Mapping[str, tuple[str, ...]] = {"install": _TAKEN, "upgrade": _TAKEN, "uninstall": ("--dry-run",)}


@pytest.fixture(scope="module")
def installed(controlplane: Cluster) -> Cluster:
    """Install the CRDs and the operator's namespace, and return the cluster."""
    install_crds(controlplane)
    (namespace,) = (each for each in rendered(controlplane) if each["kind"] == "Namespace")
    flags = ("--server-side", "--force-conflicts")
    controlplane.kubectl("apply", *flags, "-f", "-", input=yaml.safe_dump(namespace))
    return controlplane


@pytest.fixture
def shell(installed: Cluster, namespace: str, tmp_path: Path, helm: Path) -> Shell:
    """Return a shell with a default namespace that only this test uses."""
    made = Shell(installed, tmp_path, namespace)
    (made.programs / "helm").symlink_to(helm)
    made.run("kubectl config set-context --current --namespace=shop").check_returncode()
    return made


def of_kind(*kinds: Kind) -> Iterator[Block]:
    return (block for block in blocks() if block.language == "yaml" and kind_of(block) in kinds)


def test_the_api_server_accepts_all_objects(installed: Cluster, namespace: str) -> None:
    taken = [
        (block, each)
        for block in of_kind(Kind.OBJECTS)
        for each in objects(block)
        if each["apiVersion"].partition("/")[0] not in FOREIGN
    ]
    for _, each in taken:
        if "namespace" in each["metadata"]:
            each["metadata"]["namespace"] = namespace
    flags = ("--server-side", "--force-conflicts", "--dry-run=server", f"--namespace={namespace}")
    try:
        text = yaml.safe_dump_all([each for _, each in taken])
        done = installed.kubectl("apply", *flags, "-f", "-", input=text)
    except DevClusterError:
        for block, each in taken:  # apply each one alone to find the bad one
            try:
                installed.kubectl("apply", *flags, "-f", "-", input=yaml.safe_dump(each))
            except DevClusterError as error:
                raise AssertionError(f"{block}: {error}") from error
        raise
    assert done.count("(server dry run)") == len(taken)


def test_every_patch_finds_its_target(installed: Cluster, tmp_path: Path) -> None:
    patches = {f"{number}-{block.title}": block for number, block in enumerate(of_kind(Kind.PATCH))}
    for name, block in patches.items():
        (tmp_path / name).write_text(block.text)
    overlay = {
        "resources": [os.path.relpath(ROOT / name, tmp_path) for name in MANIFESTS],
        "patches": [{"path": name, **target(block)} for name, block in patches.items()],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    objects = list(yaml.load_all(installed.kubectl("kustomize", str(tmp_path)), yaml.CSafeLoader))
    known = [each for each in objects if each["apiVersion"].partition("/")[0] not in FOREIGN]
    flags = ("--server-side", "--force-conflicts", "--dry-run=server")
    installed.kubectl("apply", *flags, "-f", "-", input="\n---\n".join(map(json.dumps, known)))


def target(block: Block) -> dict[str, Any]:
    """Return the target of a patch of the arguments. Another patch has its own."""
    named = {"target": {"kind": "Deployment", "name": "tidelock"}}
    return named if isinstance(block.documents[0], list) else {}


def test_kubectl_and_helm_know_the_commands(shell: Shell) -> None:
    """Run commands that write as a dry run.

    An object, a release or a kind of another operator can be absent here, unlike in the reader's cluster.
    """
    wrong = []
    for block in (block for block in blocks() if not is_replayed(block)):
        shell.file(block)
        folder = "."
        for command in commands(block) if block.language in {"sh", "console"} else ():
            if command.words[0] == "cd":
                folder = command.words[1]
            elif command.words[0] == "openssl":
                shell.run(shlex.join(command.words), folder).check_returncode()
            elif command.words[0] == "helm" or (
                command.words[0] == "kubectl" and command.words[1] != "tidelock"
            ):
                done = shell.run(dry(command, shell.namespace), folder)
                absent = ABSENT.search(done.stderr)
                # The answer "no" also makes the command fail. For an unknown kind it would print a warning.
                no = command.words[1:3] == ("auth", "can-i") and (done.stdout, done.stderr) == ("no\n", "")
                wrong += [f"{command}: {done.stderr}"] * bool(done.returncode and not absent and not no)
    assert not wrong, "\n".join(wrong)


def dry(command: Command, namespace: str) -> str:
    """Return a form of a command that changes nothing, in the test's namespace."""
    words = list(command.words)
    for flag in ("-n", "--namespace"):
        if flag in words:
            words[words.index(flag) + 1] = namespace
    if words[0] == "helm":
        words += _HELM[words[1]]
    elif _WRITES.intersection(words[1:4]):  # the option for a namespace can come before the verb
        words.append("--dry-run=server")
    return shlex.join(words)


@pytest.mark.parametrize(("path", "fewest"), [(TUTORIAL, 20), (README, 8)], ids=["tutorial", "README"])
def test_a_page_prints_the_documented_output(
    path: Path, fewest: int, operator: OperatorProcess, world: World, installed: Cluster, tmp_path: Path
) -> None:
    """Run all kubectl commands of the tutorial or of README's quick start, and compare their output.

    The commands that create or delete a control plane, or start the operator, are left out.
    """
    page = Shell(installed, tmp_path, f"{world.namespace}-page")
    replayed = 0
    try:
        for block in (block for block in blocks() if block.page == path and is_replayed(block)):
            page.file(block)
            for command in commands(block) if block.language in {"sh", "console"} else ():
                if command.words[0] == "kubectl" and command.typed != _INSTALLED:
                    replay(page, command)
                    replayed += 1
                if command.words[:3] == ("kubectl", "annotate", "node"):
                    until_nodes_are_known(world, str(replayed))
    finally:
        page.run("kubectl delete namespace shop --ignore-not-found --wait=false")
        page.run("kubectl delete node worker-1 worker-2 quickstart --ignore-not-found --wait=false")
        page.run("kubectl delete waterlevel tutorial --ignore-not-found --wait=false")
    assert replayed >= fewest


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_at_the_beginning_of_a_page_works(
    name: str, world: World, installed: Cluster, tmp_path: Path
) -> None:
    page = Shell(installed, tmp_path, world.namespace)
    page.run("kubectl config set-context --current --namespace=shop").check_returncode()
    for number, cores in enumerate(EXAMPLES[name], start=1):
        hostname = world.node_name(f"worker-{number}")
        world.known_node(f"worker-{number}", cpu=str(cores), labels={"kubernetes.io/hostname": hostname})
    replayed = 0
    for block in (block for block in blocks() if block.page == ROOT / example(name) and is_replayed(block)):
        page.file(block)
        for command in commands(block) if block.language in {"sh", "console"} else ():
            replay(page, command)
            replayed += 1
    assert replayed >= 3


def until_nodes_are_known(world: World, name: str) -> None:
    """Wait until the operator has seen all earlier changes of nodes. Its watches have no common order."""
    node = world.node(f"witness-{name}")
    reservation = world.reservation(f"witness-{name}", "1", node=node)
    reservation.until_phase("Active")
    reservation.delete()


def test_all_metrics_are_described(operator: OperatorProcess) -> None:
    with urlopen(f"http://{HOST}:{operator.port}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    names = {family.name + "_total" * (family.type == "counter") for family in families}
    served = {name for name in names if not name.endswith("_created")}  # the time at which a series began
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert served == set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
