import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from tidelock.model.api.owners import ControllerOwner, Owner, PodOwner, ProvisioningRequestOwner, owner_text
from tidelock.model.api.reservation import (
    BoundPod,
    Condition,
    LabelSelector,
    Phase,
    ReservationSpec,
    ReservationStatus,
    spec_problems,
)

NOON = datetime(2035, 1, 1, 12, tzinfo=UTC)


def read(**changes: Any) -> ReservationSpec:
    """Parse a valid spec with some fields replaced."""
    spec = {"resources": {"cpu": "2"}, "owners": [{"pod": {"name": "web-0"}}], "ttlSeconds": 600} | changes
    return ReservationSpec.model_validate_json(json.dumps(spec))


def problems(**changes: Any) -> str:
    """Return the problems of an invalid spec."""
    with pytest.raises(ValidationError) as caught:
        read(**changes)
    return spec_problems(caught.value)


def pod_owner(name: str) -> Owner:
    return Owner(pod=PodOwner(name=name))


def test_a_spec_has_the_defaults_of_the_contract() -> None:
    spec = read()
    assert spec.pending_deadline_seconds == 60
    assert spec.priority == 0
    assert spec.retention == "Delete"
    assert spec.node_name is None


def test_names_are_camel_case_on_the_wire() -> None:
    spec = read(nodeName="worker-1", pendingDeadlineSeconds=0)
    assert (spec.node_name, spec.pending_deadline_seconds) == ("worker-1", 0)
    assert json.loads(spec.model_dump_json(exclude_none=True))["pendingDeadlineSeconds"] == 0


def test_a_spec_is_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        read().priority = 5  # type: ignore[misc]


def test_quantities_are_kept_as_they_were_written() -> None:
    assert read(resources={"cpu": 2, "memory": "4Gi"}).resources == {"cpu": 2, "memory": "4Gi"}


@pytest.mark.parametrize("value", [True, 1.5, None, ["1"], {}])
def test_a_quantity_is_a_text_or_a_whole_number(value: object) -> None:
    assert problems(resources={"cpu": value}).startswith("spec.resources.cpu: a quantity is a text")


def test_a_text_that_is_no_quantity_is_named_with_its_resource() -> None:
    assert problems(resources={"nvidia.com/gpu": "one"}).startswith(
        "spec.resources: nvidia.com/gpu: 'one' is not"
    )


def test_a_bad_quantity_in_a_template_is_named_with_its_container() -> None:
    container = {"name": "web", "resources": {"requests": {"cpu": "NaN"}}}
    found = problems(resources=None, template={"spec": {"containers": [container]}})
    assert found.startswith("spec.template.spec.containers[0].resources.requests: cpu: 'NaN' is not")


def test_a_template_keeps_undeclared_fields() -> None:
    container = {"name": "web", "image": "example.org/web:1", "resources": {"claims": [{"name": "gpu"}]}}
    affinity = {"podAntiAffinity": {"x": 1}, "nodeAffinity": {}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container], "affinity": affinity},
    }
    spec = read(resources=None, template=template)
    assert spec.template is not None
    assert spec.template.model_dump(mode="json", exclude_none=True) == template


def test_an_instant_is_read_as_utc() -> None:
    spec = read(ttlSeconds=None, expireAt="2035-01-01T14:00:00+02:00")
    assert spec.expire_at == NOON
    assert spec.expire_at is not None
    assert spec.expire_at.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["2035-01-01T12:00:00", "tomorrow", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"],
)
def test_an_invalid_instant_is_named(text: str) -> None:
    assert problems(ttlSeconds=None, expireAt=text).startswith("spec.expireAt: ")


@pytest.mark.parametrize("field", ["expireAt", "startAt"])
@pytest.mark.parametrize(
    "text",
    [
        "2035-01-01T12:00:00+24:00",
        "2035-01-01T12:00:00-12:60",
        "2035-01-01t12:00:00Z",
        "2035-01-01T12:00:00z",
    ],
)
def test_an_instant_in_another_notation_is_refused_with_the_expected_notation(field: str, text: str) -> None:
    """Guard against misleading errors.

    An offset of a day had "extra characters", and a lower-case t broke the rules of other fields.
    """
    assert problems(**{"ttlSeconds": None, field: text}) == (
        f"spec.{field}: should be a date-time such as 2026-12-01T00:00:00Z or 2026-12-01T02:00:00+02:00, "
        "with an upper-case T and Z, or an offset of less than 24 hours"
    )


def test_an_owner_in_another_namespace_is_named() -> None:
    found = problems(owners=[{"pod": {"name": "web-0", "namespace": "other"}}])
    assert found.startswith("spec.owners[0].pod.namespace: ")


def test_the_number_of_labels_and_expressions_of_all_owners_is_limited() -> None:
    """Guard against a comparison of each pod with 256 expressions of each reservation of its namespace."""
    selector = {
        "matchLabels": {"app": "web", "tier": "x"},
        "matchExpressions": 2 * [{"key": "app", "operator": "Exists"}],
    }
    assert read(owners=16 * [{"selector": selector}]).owners
    more = {**selector, "matchExpressions": 3 * [{"key": "app", "operator": "Exists"}]}
    assert problems(owners=[*(15 * [{"selector": selector}]), {"selector": more}]) == (
        "spec.owners: has 65 labels and expressions in its selectors: all owners together have at most 64"
        " labels and expressions"
    )


def test_all_problems_are_reported_in_one_message_without_a_newline() -> None:
    found = problems(owners=[{"pod": {"name": "Web"}}], retention="Keep")
    assert "spec.owners[0].pod.name: " in found
    assert "; spec.retention: " in found
    assert "\n" not in found


def test_a_key_that_is_no_name_is_shown_in_brackets() -> None:
    assert problems(nodeSelector={"example.com/disk": "a b"}).startswith(
        "spec.nodeSelector[example.com/disk]: "
    )


def test_long_problems_are_cut() -> None:
    found = problems(owners=16 * [{"pod": {"name": "Web"}}])
    assert len(found) == 1024
    assert found.endswith("…")


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        (pod_owner("web-0"), "pod/web-0"),
        (
            Owner(controller=ControllerOwner(api_version="apps/v1", kind="Deployment", name="web")),
            "Deployment/web",
        ),
        (Owner(selector=LabelSelector(match_labels={"app": "web", "tier": "x"})), "app=web,tier=x"),
        (
            Owner(pod=PodOwner(name="web-0"), selector=LabelSelector(match_labels={"app": "web"})),
            "pod/web-0,app=web",
        ),
        (Owner(service_account_name="robot"), "serviceaccount/robot"),
        (
            Owner(provisioning_request=ProvisioningRequestOwner(name="job-1")),
            "provisioningrequest/job-1",
        ),
    ],
)
def test_an_owner_is_shown_in_short_form(owner: Owner, text: str) -> None:
    assert owner_text([owner]) == text


def test_expressions_of_a_selector_are_shown_in_short_form() -> None:
    selector = LabelSelector.model_validate(
        {
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "zone", "operator": "NotIn", "values": ["c"]},
                {"key": "gpu", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist"},
            ]
        }
    )
    assert owner_text([Owner(selector=selector)]) == "tier in (a,b),zone notin (c),gpu,!old"


def test_further_owners_are_counted() -> None:
    assert owner_text([pod_owner("web-0"), pod_owner("web-1"), pod_owner("web-2")]) == "pod/web-0 +2"


def test_a_long_owner_is_cut_to_the_limit_of_the_status() -> None:
    labels = {f"key-{number}": "value" * 10 for number in range(20)}
    text = owner_text([Owner(selector=LabelSelector(match_labels=labels)), pod_owner("web-0")])
    assert text.endswith("… +1")
    assert ReservationStatus(owner=text).owner == text


def test_an_empty_status_has_no_phase_and_no_conditions() -> None:
    status = ReservationStatus.model_validate({"observedGeneration": -1})
    assert (status.observed_generation, status.phase, status.conditions) == (-1, None, [])


def test_a_status_is_read_as_it_was_written() -> None:
    status = ReservationStatus(
        observed_generation=2,
        phase=Phase.BOUND,
        node_name="worker-1",
        node_uid="6c1b",
        activated_at=NOON,
        bound_pod=BoundPod(name="web-0", uid="9f2e"),
        epoch=7,
        resources={"cpu": "2"},
        conditions=[
            Condition(
                type="Active", status="True", reason="Locked", message="2 cpu", last_transition_time=NOON
            )
        ],
    )
    written = status.model_dump_json(exclude_none=True)
    assert ReservationStatus.model_validate_json(written) == status
    plain = json.loads(written)
    assert plain["nodeUID"] == "6c1b"
    assert plain["activatedAt"] == "2035-01-01T12:00:00Z"
    assert plain["phase"] == "Bound"


def test_a_field_of_a_newer_version_in_a_status_is_no_error() -> None:
    status = ReservationStatus.model_validate({"phase": "Active", "quote": {"price": 3}})
    assert status.phase is Phase.ACTIVE


LONG_LABEL = "a" * 200


def test_a_name_can_have_parts_as_long_as_kubernetes_allows() -> None:
    """Guard against a limit of 63 characters for the parts of a pod's name.

    Kubernetes limits only the whole name, to 253 characters. The name of a pod with a longer part could not
    be written into the status of its reservation, and the operator ended.
    """
    assert read(owners=[{"pod": {"name": LONG_LABEL}}]).owners[0].pod == PodOwner(name=LONG_LABEL)
    assert BoundPod(name=f"{LONG_LABEL}.b", uid="1").name == f"{LONG_LABEL}.b"


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a..b", "a" * 254, ""])
def test_a_name_that_kubernetes_refuses_is_refused(name: str) -> None:
    assert problems(owners=[{"pod": {"name": name}}]).startswith("spec.owners[0].pod.name: ")
