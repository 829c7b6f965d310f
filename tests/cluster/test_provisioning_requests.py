"""ProvisioningRequests on a real API server, with the garbage collector. The test plays Kueue.

It needs an API server that collects the groups of requests that are gone.
"""

from collections.abc import Iterator

import pytest

from cluster.crds import install_crds
from cluster.operator_process import OperatorProcess
from cluster.requests import Jobs, install_provisioning_requests
from cluster.world import World
from devcluster import Cluster, wait_for
from devcluster.identity import operator_kubeconfig
from tidelock.model.pods import BORROWS

RIGHTS = "tidelock-provisioning-requests"


@pytest.fixture(scope="module")
def operator(controlplane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Run the operator with the rights of the component. The CRD is installed later, as a user might do it.

    Both end with the module, because the operator of other modules must not have these rights.
    """
    install_crds(controlplane)
    directory = tmp_path_factory.mktemp("operator")
    kubeconfig = operator_kubeconfig(controlplane, directory, "components/provisioning-requests")
    try:
        with OperatorProcess(kubeconfig, directory, "--provisioning-requests") as process:
            wait_for(
                lambda: "install the CRD of ProvisioningRequests: docs/kueue.md" in process.log,
                what="advice about the absent CRD",
            )
            install_provisioning_requests(controlplane)
            yield process
            assert process.stop() == 0
        assert "Traceback" not in process.log
        assert "forbidden: User" not in process.log  # a binding may meet a namespace that is being deleted
    finally:
        controlplane.kubectl("delete", "clusterrole,clusterrolebinding", RIGHTS)
        controlplane.kubectl(
            "delete", "crd", "provisioningrequests.autoscaling.x-k8s.io", "--ignore-not-found"
        )


@pytest.fixture
def jobs(world: World) -> Jobs:
    return Jobs(world)


def test_pods_of_two_sizes_consume_a_request_and_no_other_pod_does(
    world: World, other_world: World, jobs: Jobs
) -> None:
    world.node(cpu="4")
    jobs.template("worker", "1500m")
    jobs.template("driver", "500m")
    request = jobs.request("job-1", {"worker": 2, "driver": 1})
    provisioned = request.until_true("Provisioned")
    assert "3 of 3 reservations held" in provisioned["message"]
    assert request.conditions() == {"Accepted": "True", "Provisioned": "True"}

    jobs.pod("stranger", "600m").until_refused("Insufficient cpu beside reservations")
    jobs.pod("of-another-request", "600m", request="job-2").until_refused("beside reservations")
    foreign = other_world.pod(
        "of-another-tenant",
        "600m",
        metadata={"name": "of-another-tenant", "annotations": jobs.consumes("job-1")},
        nodeSelector=world.selector,
    )
    foreign.until_refused("Insufficient cpu beside reservations")

    jobs.pod("driver", "500m", request="job-1").until_bound()
    for number in range(2):
        jobs.pod(f"worker-{number}", "1500m", request="job-1").until_bound()
    expired = request.until_true("BookingExpired")
    assert (expired["reason"], expired["message"]) == (
        "Consumed",
        "3 of 3 reservations taken by their pods",
    )
    wait_for(request.groups, until=lambda found: not found, what="the group to be deleted")


def test_of_two_requests_the_second_waits_until_the_first_is_deleted(world: World, jobs: Jobs) -> None:
    world.node(cpu="4")
    jobs.template("worker", "2")
    first = jobs.request("first", {"worker": 2})
    first.until_true("Provisioned")
    second = jobs.request("second", {"worker": 2})
    second.until_waiting("cpu")
    first.delete()
    second.until_true("Provisioned")
    jobs.pod("late", "2", request="first").until_refused("Insufficient cpu beside reservations")


def test_capacity_that_no_pod_takes_in_time_is_free_again(world: World, jobs: Jobs) -> None:
    world.node(cpu="2")
    jobs.template("worker", "1")
    request = jobs.request("job-1", {"worker": 2}, {"ttlSeconds": "1"})
    expired = request.until_true("BookingExpired")
    assert expired["reason"] == "CapacityReservationTimeExpired"
    assert request.conditions()["Provisioned"] == "True"
    jobs.pod("stranger", "2").until_bound()


def test_lent_capacity_of_a_request_is_evicted_for_its_pods(world: World, jobs: Jobs) -> None:
    world.node(cpu="2")
    jobs.template("worker", "1")
    request = jobs.request("job-1", {"worker": 2}, {"borrowable": "true"})
    request.until_true("Provisioned")
    borrower = world.pod("borrower", "2", metadata={"name": "borrower", "annotations": {BORROWS: "true"}})
    borrower.until_bound()
    for number in range(2):
        jobs.pod(f"worker-{number}", request="job-1").until_bound()
    borrower.until_gone()
    assert request.until_true("BookingExpired")["reason"] == "Consumed"


def test_a_request_that_does_not_fit_in_time_has_failed(world: World, jobs: Jobs) -> None:
    world.node(cpu="2")
    jobs.template("worker", "1")
    request = jobs.request("job-1", {"worker": 3}, {"pendingDeadlineSeconds": "0"})
    assert request.until_true("Failed")["message"]
    assert request.conditions() == {"Accepted": "True", "Provisioned": "False", "Failed": "True"}
    assert jobs.request("job-2", {"worker": 2}).until_true("Provisioned")


def test_capacity_on_a_lost_node_is_revoked(world: World, jobs: Jobs) -> None:
    node = world.node(cpu="2")
    jobs.template("worker", "1")
    request = jobs.request("job-1", {"worker": 2})
    request.until_true("Provisioned")
    node.delete()
    assert request.until_true("CapacityRevoked")["message"]
    wait_for(request.groups, until=lambda found: not found, what="the group to be deleted")


def test_a_group_that_is_deleted_by_hand_is_revoked(world: World, jobs: Jobs) -> None:
    world.node(cpu="2")
    jobs.template("worker", "1")
    request = jobs.request("job-1", {"worker": 2})
    request.until_true("Provisioned")
    (name,) = request.groups()
    world.api.delete(f"/apis/tidelock.dev/v1alpha1/namespaces/{world.namespace}/reservationgroups/{name}")
    assert request.until_true("CapacityRevoked")


@pytest.mark.parametrize(
    ("pods", "parameters", "text"),
    [
        (
            {"worker": 1},
            {"ttlSeconds": "soon"},
            'spec.parameters.ttlSeconds: "soon": should be a whole number',
        ),
        ({"worker": 1}, {"ttl": "1"}, 'spec.parameters.ttl: "1": is no parameter of hold.tidelock.dev'),
        ({"absent": 1}, {}, 'spec.podSets[0].podTemplateRef.name: "absent": should name a PodTemplate'),
        ({"worker": 257}, {}, "the ReservationGroup is refused: "),
    ],
    ids=["bad value", "unknown parameter", "no template", "too many pods"],
)
def test_a_request_that_can_not_be_served_says_why(
    jobs: Jobs, pods: dict[str, int], parameters: dict[str, str], text: str
) -> None:
    jobs.template("worker", "1")
    request = jobs.request("job-1", pods, parameters)
    assert text in request.until_true("Failed")["message"]
    assert request.groups() == []


def test_a_restarted_operator_goes_on(world: World, jobs: Jobs, operator: OperatorProcess) -> None:
    world.node(cpu="2")
    jobs.template("worker", "1")
    held = jobs.request("held", {"worker": 2})
    held.until_true("Provisioned")
    operator.kill()
    waiting = jobs.request("waiting", {"worker": 2})
    operator.start()
    operator.ready()
    waiting.until_waiting("cpu")
    assert held.conditions() == {"Accepted": "True", "Provisioned": "True"}
    held.delete()
    waiting.until_true("Provisioned")
