"""The real Kueue asks Tidelock for the capacity of its jobs, as docs/kueue.md describes it."""

import time
from collections.abc import Iterator

import pytest

from cluster.api import Api, Manifest
from cluster.live import Live, condition
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import Component, LocalCluster, wait_for
from documents import ROOT, page_block
from peers.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    PRIORITIES,
    Job,
    Team,
    approve,
    check_state,
    cluster_queue,
    running_kueue,
)
from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.model.api.owners import CONSUMED_REQUEST
from tidelock.model.instants import format_instant

PAGE = ROOT / "docs" / "kueue.md"
MANUAL = "manual"


@pytest.fixture(scope="module")
def kueue(peer_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Component]:
    """Run Kueue with the queue of the page, and one with another check, which tests approve."""
    with running_kueue(peer_cluster, tmp_path_factory.mktemp("kueue")) as component:
        peer_cluster.kubectl("create", "namespace", "shop")
        apply(peer_cluster, "queue.yaml")
        api = Api(peer_cluster.kubeconfig)
        check = {
            "apiVersion": ADMISSION_CHECKS.api_version,
            "kind": ADMISSION_CHECKS.kind,
            "metadata": {"name": MANUAL},
            "spec": {"controllerName": "example.org/manual"},
        }
        made = Live(api, ADMISSION_CHECKS, api.create(ADMISSION_CHECKS.collection(), check))
        active = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "it is approved by hand",
            "lastTransitionTime": format_instant(int(time.time())),
        }
        made.merge({"status": {"conditions": [active]}}, "status")
        for queue in (cluster_queue("approved", "100", ("hold", MANUAL)), cluster_queue("small", "4")):
            api.create(CLUSTER_QUEUES.collection(), queue)
        for name, value in (("low", 1), ("high", 2)):
            priority = {
                "apiVersion": PRIORITIES.api_version,
                "kind": PRIORITIES.kind,
                "metadata": {"name": name},
                "value": value,
            }
            api.create(PRIORITIES.collection(), priority)
        yield component


def apply(cluster: LocalCluster, title: str) -> None:
    """Apply a file of the page."""
    cluster.kubectl("apply", "--server-side", "-f", "-", input=page_block(PAGE, title).text)


def groups(world: World, namespace: str) -> list[Manifest]:
    found: list[Manifest] = world.api.get(RESERVATIONGROUPS.collection(namespace))["items"]
    return found


def test_the_job_of_the_page_starts_when_its_capacity_is_held(
    kueue: Component, peer_cluster: LocalCluster, world: World
) -> None:
    world.node("small", cpu="1")
    apply(peer_cluster, "job.yaml")
    job = Job(world.api, JOBS, world.api.get(JOBS.item("train", "shop")))
    request = job.request()
    request.until_waiting("cpu")
    job.workload().until(
        lambda each: "cpu" in check_state(each, "hold").get("message", ""), "say what it lacks"
    )
    assert job.suspended

    world.node(cpu="5")
    request.until_true("Provisioned")
    stranger = world.pod("stranger", "2")
    job.until_started()
    bound = job.pods(2)
    for pod in bound:
        annotations = world.api.get(pod.path)["metadata"]["annotations"]
        assert annotations[CONSUMED_REQUEST] == request.name
        assert annotations["tidelock.dev/claimed-locks"]
    assert request.until_true("BookingExpired")["reason"] == "Consumed"
    stranger.until_refused("Insufficient cpu")
    assert not job.suspended
    job.finish(2)
    request.until_gone()
    wait_for(lambda: groups(world, "shop"), until=lambda found: not found, what="the group to go")
    stranger.until_bound()


def test_of_two_jobs_one_starts_and_the_other_waits_with_nothing(kueue: Component, world: World) -> None:
    world.node(cpu="4")
    team = Team(world, "gpus")
    jobs = {name: team.job(name) for name in ("a", "b")}

    def provisioned() -> list[str]:
        return [name for name, job in jobs.items() if job.request().conditions().get("Provisioned") == "True"]

    (first,) = wait_for(provisioned, what="one of two jobs to get its capacity")
    winner, loser = jobs[first], jobs["b" if first == "a" else "a"]
    loser.request().until_waiting("cpu")
    winner.pods(2)
    assert loser.suspended
    winner.finish(2)
    loser.until_started()
    loser.pods(2)


def test_a_hold_that_expires_before_admission_is_asked_for_again(kueue: Component, world: World) -> None:
    world.node(cpu="4")
    team = Team(world, "approved")
    job = team.job("slow", annotations={"provreq.kueue.x-k8s.io/ttlSeconds": "2"})
    job.request(1).until_true("Provisioned")
    second = job.request(2)
    second.until_true("Provisioned")
    assert job.suspended
    approve(job.workload(), MANUAL)
    job.until_started()
    job.pods(2)


def test_lost_capacity_deactivates_a_job_that_is_not_started(kueue: Component, world: World) -> None:
    node = world.node(cpu="4")
    job = Team(world, "approved").job("unlucky")
    request = job.request()
    request.until_true("Provisioned")
    node.delete()
    revoked = request.until_true("CapacityRevoked")

    def deactivated(workload: Manifest) -> bool:
        evicted = condition(workload["status"], "Evicted").get("reason", "")
        return workload["spec"].get("active") is False and evicted.startswith("Deactivated")

    job.workload().until(deactivated, "be deactivated")
    assert revoked["message"]
    assert job.suspended


def test_a_preempted_job_gives_its_capacity_to_the_one_that_preempts_it(
    kueue: Component, world: World
) -> None:
    world.node(cpu="4")
    team = Team(world, "small")
    low = team.job("low", priority="low")
    low.pods(2)
    of_low = low.request()
    high = team.job("high", priority="high")
    high.until_started()
    assert low.suspended
    of_low.until_gone()
    high.pods(2)
    assert low.suspended


def test_a_wrong_parameter_of_a_job_is_shown_in_its_workload(kueue: Component, world: World) -> None:
    job = Team(world, "gpus").job("typo", annotations={"provreq.kueue.x-k8s.io/ttlSeconds": "soon"})
    text = 'spec.parameters.ttlSeconds: "soon": should be a whole number of seconds'

    def shown(workload: Manifest) -> bool:
        return text in check_state(workload, "hold").get("message", "")

    job.workload().until(shown, "show the wrong parameter")
    assert job.suspended


def test_an_operator_that_was_away_serves_requests_and_holds_when_it_is_back(
    kueue: Component, world: World, peer_operator: OperatorProcess
) -> None:
    world.node(cpu="4")
    team = Team(world, "approved")
    held = team.job("held")
    held.request().until_true("Provisioned")
    peer_operator.kill()
    waiting = team.job("waiting").request()
    approve(held.workload(), MANUAL)
    held.until_started()
    peer_operator.start()
    peer_operator.ready()
    held.pods(2)
    waiting.until_waiting("cpu")


def test_capacity_stays_held_while_kueue_is_away(kueue: Component, world: World) -> None:
    world.node(cpu="4")
    job = Team(world, "approved").job("held")
    job.request().until_true("Provisioned")
    kueue.stop()
    approve(job.workload(), MANUAL)
    world.pod("stranger", "2").until_refused("Insufficient cpu beside reservations")
    assert job.suspended
    kueue.start()
    job.until_started()
    job.pods(2)
