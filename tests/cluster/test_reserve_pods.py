"""Reserve pods: a reservation with a template is placed, and affects other pods, as its pod would.

It needs an API server that fills in the defaults of pod templates.
"""

from typing import Any

from cluster.api import Manifest
from cluster.live import Lock
from cluster.operator_process import Launch
from cluster.world import World

HOSTNAME = "kubernetes.io/hostname"
WEB = {"app": "web"}
IN_USE = "node(s) didn't have free ports for the requested pod ports"
SHUNNED = "node(s) didn't satisfy existing pods anti-affinity rules"


def shunning(labels: Manifest) -> Manifest:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def web(world: World, name: str = "web-0") -> Manifest:
    """Build the pod of a web server, with a host port and anti-affinity to its like."""
    spec: Manifest = world.pod_spec("1") | {"affinity": shunning(WEB)}
    spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return {"metadata": {"name": name, "namespace": world.namespace, "labels": WEB}, "spec": spec}


def reservation(world: World, name: str = "web-0", **more: Any) -> Lock:
    """Create a reservation with a web server's pod as template, for any node of the test."""
    pod = web(world, name)
    annotations = {"tidelock.dev/require-reservation": "true"}
    template = {"metadata": {"labels": WEB, "annotations": annotations}, "spec": pod["spec"]}
    manifest = world.manifest(name, template=template, **more)
    del manifest["spec"]["nodeSelector"]  # the template has it
    return world.store(manifest)


def test_an_owner_runs_where_the_reservation_of_its_template_is_active(world: World) -> None:
    """The reservation was active on a node with a pod that had anti-affinity to its owner.

    Other pods also took the owner's host port.
    """
    crowded, quiet = world.node("a", cpu="64"), world.node("b", cpu="4")
    for node in (crowded, quiet):
        node.merge({"metadata": {"labels": {HOSTNAME: node.name}}})
    world.bound_pod(crowded, "loner", affinity=shunning(WEB))

    held = reservation(world)
    assert held.until_phase("Active")["nodeName"] == quiet.name
    stored = held.read()
    assert stored is not None
    assert stored["spec"]["template"]["metadata"]["labels"] == WEB
    assert stored["spec"]["template"]["spec"]["affinity"] == shunning(WEB)

    second = reservation(world, "web-1")
    second.until_condition("Active", "False", "NoMatchingNode")
    thief = world.pod(
        "thief", containers=web(world)["spec"]["containers"], nodeSelector={HOSTNAME: quiet.name}
    )
    thief.until_refused(IN_USE)
    world.pod("web-9", metadata={"labels": WEB}, nodeSelector={HOSTNAME: quiet.name}).until_refused(SHUNNED)

    owner = world.pod(metadata={"labels": WEB}, **web(world)["spec"])
    assert owner.until_bound() == quiet.name
    held.until_gone()


def test_a_restarted_operator_restores_the_reserve_pods(private_world: World, launch: Launch) -> None:
    world, operator = private_world, launch()
    node = world.node()
    node.merge({"metadata": {"labels": {HOSTNAME: node.name}}})
    reservation(world).until_phase("Active")
    operator.kill()
    thief = world.pod("thief", containers=web(world)["spec"]["containers"])
    operator.start()
    operator.ready()

    thief.until_refused(IN_USE)
    assert world.pod(metadata={"labels": WEB}, **web(world)["spec"]).until_bound() == node.name
