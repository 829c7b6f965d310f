"""The operator compares its webhooks with those that the API server calls, and reports each difference."""

import asyncio
import logging
import math

import pytest

from builders import Json
from tidelock.binders.assembly import served_webhooks
from tidelock.binders.webhooks import (
    BINDINGS,
    CONFIGURATIONS,
    CREATIONS,
    Mismatch,
    WebhookConfiguration,
    find_mismatches,
    watch_webhooks,
)
from tidelock.kube.client import KubeClient
from tidelock.settings import Settings
from unit.kube.scripted import Answer, ScriptedServer, answers, fails

PATIENCE = 30.0
GONE = fails(404, "NotFound")


def configuration(each: WebhookConfiguration) -> Answer:
    hooks = [{"name": name, "clientConfig": {"url": "https://x/admission"}} for name in each.webhooks]
    body: Json = {"kind": each.resource.kind, "metadata": {"name": "tidelock"}, "webhooks": hooks}
    return answers(body)


BOTH = (configuration(BINDINGS), configuration(CREATIONS))


@pytest.mark.parametrize(
    ("script", "served", "expected"),
    [
        (BOTH, CONFIGURATIONS, {}),
        ((GONE, GONE), (), {}),
        (BOTH, (), {BINDINGS: Mismatch.UNSERVED, CREATIONS: Mismatch.UNSERVED}),
        (BOTH, (BINDINGS,), {CREATIONS: Mismatch.UNSERVED}),
        ((GONE, GONE), (BINDINGS,), {BINDINGS: Mismatch.MISSING}),
        ((GONE, BOTH[1]), (BINDINGS,), {BINDINGS: Mismatch.MISSING, CREATIONS: Mismatch.UNSERVED}),
    ],
)
async def test_each_configuration_is_compared_with_the_options(
    server: ScriptedServer,
    client: KubeClient,
    script: tuple[Answer, ...],
    served: tuple[WebhookConfiguration, ...],
    expected: dict[WebhookConfiguration, Mismatch],
) -> None:
    server.replays(*script)
    assert await find_mismatches(client, served) == expected
    assert [each.path for each in server.asked] == [
        each.resource.item("tidelock") for each in (BINDINGS, CREATIONS)
    ]


async def test_a_configuration_without_webhooks_calls_nothing(
    server: ScriptedServer, client: KubeClient
) -> None:
    server.replays(answers({"metadata": {"name": "tidelock"}, "webhooks": None}), GONE)
    assert await find_mismatches(client, ()) == {}


def test_the_options_name_the_served_configurations() -> None:
    assert served_webhooks(Settings(extender=True)) == ()
    assert served_webhooks(Settings(admission=True)) == (BINDINGS,)
    assert served_webhooks(Settings(admission=True, answers=True)) == CONFIGURATIONS


async def test_the_log_and_the_metric_report_each_change(
    server: ScriptedServer, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Webhooks that were left behind had all bindings of other schedulers refused, and nothing said so."""
    caplog.set_level(logging.INFO)
    observed: list[tuple[str, str, float]] = []

    def observe(option: str, mismatch: str, value: float) -> None:
        observed.append((option, mismatch, value))

    refused = fails(403, "Forbidden")
    server.replays(*BOTH, *BOTH, GONE, BOTH[1], refused, refused, GONE, GONE)
    async with asyncio.timeout(PATIENCE):
        watching = asyncio.create_task(watch_webhooks(client, [CREATIONS], observe, period=0.0))
        await server.finished.wait()
        watching.cancel()
    told = [record for record in caplog.records if record.name == "tidelock.binders.webhooks"]
    assert [(record.levelname, record.message) for record in told] == [
        ("WARNING", "webhooks exist that this operator does not serve"),
        ("INFO", "the webhooks are those that this operator serves"),
        ("WARNING", "webhooks are not compared with the options"),
        ("WARNING", "this operator serves webhooks that do not exist"),
    ]
    fields = told[0].__dict__
    assert fields["configuration"] == "ValidatingWebhookConfiguration tidelock"
    assert fields["effect"] == "bindings and allocations of other schedulers are refused"
    assert fields["advice"] == (
        "run the operator with --admission, or kubectl delete validatingwebhookconfigurations tidelock"
    )
    assert told[3].__dict__["advice"].endswith("or run the operator without --answers")
    unserved = [value for *series, value in observed if series == ["admission", "unserved"]]
    missing = [value for *series, value in observed if series == ["answers", "missing"]]
    assert unserved[:3] + unserved[5:] == [1, 1, 0, 0]
    assert missing[:3] + missing[5:] == [0, 0, 0, 1]
    assert all(math.isnan(each) for each in unserved[3:5] + missing[3:5])
