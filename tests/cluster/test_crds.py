"""The CRDs, which the API server must serve with their names, columns, defaults and selectable fields.

It needs an API server that serves custom resources by their schemas.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cluster.api import Api
from cluster.crds import SAMPLES, install_crds
from cluster.plain_reservations import reservation
from cluster.stored import Stored
from devcluster import Cluster, DevClusterError, wait_for
from tidelock.model.api.reservation import BoundPod, Condition, Phase, ReservationStatus

NOON = datetime(2035, 1, 1, 12, tzinfo=UTC)
FULL_STATUS = ReservationStatus(
    observed_generation=1,
    phase=Phase.BOUND,
    node_name="worker-1",
    node_uid="6c1b",
    activated_at=NOON,
    expires_at=NOON,
    finished_at=NOON,
    bound_pod=BoundPod(name="web-0", uid="9f2e"),
    epoch=7,
    resources={"cpu": "1", "memory": "1Gi"},
    owner="pod/web-0",
    conditions=[
        Condition(
            type=type_,
            status="True",
            reason="Locked",
            message="held",
            last_transition_time=NOON,
            observed_generation=1,
        )
        for type_ in ("Active", "Ready")
    ],
)


def as_json(status: ReservationStatus) -> dict[str, Any]:
    return status.model_dump(mode="json", exclude_none=True)


@pytest.fixture(scope="module")
def api(controlplane: Cluster) -> Cluster:
    install_crds(controlplane)
    return controlplane


@pytest.fixture
def stored(api: Cluster, namespace: str) -> Stored:
    return Stored(Api(api.kubeconfig), namespace, reservation())


@pytest.mark.parametrize(
    "plural",
    [
        "reservations",
        "reservationgroups",
        "reservationschedules",
        "reservationquotas",
        "reservationquotes",
        "waterlevels",
    ],
)
def test_the_api_server_accepts_a_definition_and_its_names(api: Cluster, plural: str) -> None:
    definition = json.loads(api.kubectl("get", "crd", f"{plural}.tidelock.dev", "-o", "json"))
    conditions = {condition["type"]: condition["status"] for condition in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_sample_is_accepted(api: Cluster, namespace: str, sample: Path) -> None:
    created = api.kubectl("create", "--dry-run=server", "-n", namespace, "-f", str(sample))
    assert "(server dry run)" in created


def test_kinds_have_short_names_and_only_water_levels_are_cluster_scoped(api: Cluster) -> None:
    listing = api.kubectl("api-resources", "--api-group=tidelock.dev", "--no-headers").splitlines()
    assert [line.split()[:4] for line in listing] == [
        ["reservationgroups", "rsvg", "tidelock.dev/v1alpha1", "true"],
        ["reservationquotas", "rsvq", "tidelock.dev/v1alpha1", "true"],
        ["reservationquotes", "rsvqt", "tidelock.dev/v1alpha1", "true"],
        ["reservations", "rsv", "tidelock.dev/v1alpha1", "true"],
        ["reservationschedules", "rsvs", "tidelock.dev/v1alpha1", "true"],
        ["waterlevels", "wlv", "tidelock.dev/v1alpha1", "false"],
    ]


def test_the_category_tidelock_lists_reservations_and_the_category_all_does_not(
    api: Cluster, namespace: str, stored: Stored
) -> None:
    name = f"reservation.tidelock.dev/{stored.read()['metadata']['name']}"
    assert api.kubectl("get", "tidelock", "-n", namespace, "-o", "name").splitlines() == [name]
    assert name not in api.kubectl("get", "all", "-n", namespace, "-o", "name")


@pytest.mark.usefixtures("stored")
def test_reservations_are_shown_in_columns(api: Cluster, namespace: str) -> None:
    narrow = "NAME READY PHASE NODE OWNER CPU MEMORY EXPIRES AGE"
    more = "ACTIVE REASON LINE POD BORROWERS STARTS PRIORITY RETENTION RENEW-BY COMMIT-BY PLAN MESSAGE"
    for output, columns in (((), narrow), (("-o", "wide"), f"{narrow} {more}")):
        assert api.kubectl("get", "rsv", "-n", namespace, *output).splitlines()[0].split() == columns.split()


def test_columns_show_the_status(api: Cluster, namespace: str, stored: Stored) -> None:
    stored.change_status(**as_json(FULL_STATUS))
    row = api.kubectl("get", "rsv", "-n", namespace, "-o", "wide", "--no-headers").split()
    before_age = ["malformed", "True", "Bound", "worker-1", "pod/web-0", "1", "1Gi", "2035-01-01T12:00:00Z"]
    assert row[:8] == before_age
    assert row[9:] == ["True", "Locked", "web-0", "0", "Delete", "held"]


def test_waterlevels_are_shown_in_columns(api: Cluster, namespace: str) -> None:
    name = namespace  # unique, as the name of a cluster-scoped object must be
    sample = (SAMPLES / "waterlevel.yaml").read_text().replace("name: workers", f"name: {name}")
    api.kubectl("create", "-f", "-", input=sample)
    shown = api.kubectl("get", "wlv", name).splitlines()[0].split()
    api.kubectl("delete", "wlv", name)
    columns = "NAME TARGET MEAN MAX STDDEV NODES STALE TIDE AGE"
    assert shown == columns.split()


def test_kubectl_explain_describes_fields(api: Cluster) -> None:
    def explanation() -> str:
        try:
            return api.kubectl("explain", "rsv.spec.ttlSeconds")
        except DevClusterError:  # the API server has not published the schema yet
            return ""

    text = wait_for(explanation, what="the explanation of ttlSeconds")
    assert "Lifetime in seconds, counted from when the reservation becomes active" in text


def test_a_new_object_has_the_defaults(stored: Stored) -> None:
    created = stored.read()
    assert created["spec"]["pendingDeadlineSeconds"] == 60
    assert created["spec"]["priority"] == 0
    assert created["spec"]["retention"] == "Delete"
    assert created["status"] == {"observedGeneration": -1}


def test_a_full_status_is_stored_without_loss(stored: Stored) -> None:
    stored.change_status(**as_json(FULL_STATUS))
    assert ReservationStatus.model_validate(stored.read()["status"]) == FULL_STATUS


def test_a_change_of_the_spec_leaves_the_status(stored: Stored) -> None:
    stored.change_spec(priority=5)
    created = stored.read()
    assert created["metadata"]["generation"] == 2
    assert created["status"] == {"observedGeneration": -1}


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("spec.nodeName=worker-1", True),
        ("spec.nodeName=worker-2", False),
        ("status.phase=Bound", True),
        ("status.phase!=Bound", False),
        ("status.nodeName=worker-1,status.phase=Bound", True),
    ],
)
def test_reservations_are_selected_by_fields(
    api: Cluster, namespace: str, stored: Stored, selector: str, found: bool
) -> None:
    stored.change_status(**as_json(FULL_STATUS))
    names = api.kubectl("get", "rsv", "-n", namespace, f"--field-selector={selector}", "-o", "name")
    assert bool(names) is found
