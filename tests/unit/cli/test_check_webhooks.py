"""`kubectl tidelock check` compares the webhooks that exist with the options of the operator."""

from collections.abc import Mapping

import msgspec
import pytest

from builders import NOW, Json
from tidelock.binders.webhooks import BINDINGS, CREATIONS
from tidelock.cli.finding import CheckFinding, Severity
from tidelock.cli.installation import Installation
from tidelock.cli.session import Session
from tidelock.cli.webhook_checks import NO_ANSWERS, NO_REVIEWS, check_admission, check_answers
from tidelock.kube.client import KubeClient
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.kube.lease import LEASES
from tidelock.model.instants import format_instant

Objects = Mapping[str, Json | None]
PLACE = Installation("platform", "tidelock", "tidelock")
LEASE = LEASES.item("tidelock", "platform")
DEPLOYMENT = "/apis/apps/v1/namespaces/platform/deployments/tidelock"
HELD = {"spec": {"holderIdentity": "a_4f", "renewTime": format_instant(NOW - 1), "leaseDurationSeconds": 15}}
HOOK = {
    "clientConfig": {"caBundle": "Y2E=", "service": {"path": f"/admission/{64 * 'a'}"}},
    "failurePolicy": "Fail",
}
HOOKS = {"webhooks": [HOOK]}
ADMISSION, ANSWERS = (each.resource.item("tidelock") for each in (BINDINGS, CREATIONS))
DELETE = "kubectl delete validatingwebhookconfigurations tidelock"


class Stored(KubeClient):
    """An API server with these objects. It forbids to read those that are None."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:  # noqa: ARG002
        if path not in self._objects:
            raise NotFound("no such object")
        found = self._objects[path]
        if found is None:
            raise Forbidden("no right")
        return msgspec.json.encode(found)


def deployment(*options: str) -> Json:
    container = {"name": "tidelock", "args": ["run", *options]}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


async def admission(objects: Objects) -> CheckFinding:
    return await check_admission(Session(Stored(objects), None), PLACE, NOW)


async def test_served_webhooks_are_in_order() -> None:
    objects = {LEASE: HELD, DEPLOYMENT: deployment("--admission"), ADMISSION: HOOKS}
    assert (await admission(objects)).level is Severity.OK


async def test_webhooks_that_the_operator_does_not_serve_are_wrong() -> None:
    """They have the certificate and the token of a former start, so nothing else shows it."""
    found = await admission({LEASE: HELD, DEPLOYMENT: deployment("--answers"), ADMISSION: HOOKS})
    assert (found.matter, found.level) == ("admission", Severity.WRONG)
    assert found.found == (
        "ValidatingWebhookConfiguration tidelock exists, but the operator runs without --admission: "
        "bindings and allocations of other schedulers are refused"
    )
    assert found.advice.endswith(DELETE)


@pytest.mark.parametrize("left", [{}, {DEPLOYMENT: deployment("--admission")}], ids=["removed", "stopped"])
async def test_webhooks_without_an_operator_are_wrong(left: Objects) -> None:
    found = await admission({**left, ADMISSION: HOOKS})
    assert found.level is Severity.WRONG
    assert "exists, but no operator runs: " in found.found
    assert found.advice.endswith(DELETE)


async def test_an_option_without_its_webhooks_is_wrong() -> None:
    found = await admission({LEASE: HELD, DEPLOYMENT: deployment("--admission")})
    assert found.level is Severity.WRONG
    assert found.found == (
        "the operator runs with --admission, but ValidatingWebhookConfiguration tidelock does not exist: "
        "bindings of other schedulers are not reviewed, so they may take reserved capacity"
    )


async def test_without_the_option_and_without_webhooks_there_is_a_note() -> None:
    assert await admission({LEASE: HELD, DEPLOYMENT: deployment()}) == NO_REVIEWS
    assert await admission({}) == NO_REVIEWS


async def test_an_operator_outside_of_a_deployment_is_judged_by_the_webhooks_alone() -> None:
    assert (await admission({LEASE: HELD, ADMISSION: HOOKS})).level is Severity.OK
    assert (await admission({LEASE: None, ADMISSION: HOOKS})).level is Severity.OK


async def test_the_webhooks_of_answers_are_compared_with_their_own_option() -> None:
    session = Session(Stored({LEASE: HELD, DEPLOYMENT: deployment("--admission"), ANSWERS: HOOKS}), None)
    found = await check_answers(session, PLACE, NOW)
    assert (found.matter, found.level) == ("answers", Severity.WRONG)
    assert "runs without --answers: spec.answer has no effect" in found.found
    empty = Session(Stored({LEASE: HELD, DEPLOYMENT: deployment()}), None)
    assert await check_answers(empty, PLACE, NOW) == NO_ANSWERS
