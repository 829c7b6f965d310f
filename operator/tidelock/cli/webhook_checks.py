"""Checks of the webhooks: whether the API server can call them, and whether the operator serves them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tidelock.binders.tokens import TOKEN_PATH
from tidelock.binders.webhooks import (
    BINDINGS,
    CONFIGURATION,
    CREATIONS,
    Mismatch,
    WebhookConfiguration,
    mismatch_of,
)
from tidelock.cli.finding import CheckFinding, Severity
from tidelock.cli.installation import (
    BINDERS,
    REAPPLY,
    Installation,
    is_held,
    read_deployment,
    read_lease,
)
from tidelock.cli.session import Session
from tidelock.kube.errors import Forbidden, NotFound

NO_REVIEWS = CheckFinding(
    "admission",
    Severity.NOTE,
    "bindings of other schedulers are not reviewed: they may take reserved capacity",
    f"needed only beside other schedulers: {BINDERS}, see docs/other-binders.md",
)
NO_ANSWERS = CheckFinding(
    "answers",
    Severity.NOTE,
    "creations with spec.answer are not answered: the node is in the status alone",
    f"needed only for immediate answers: {BINDERS}, see docs/immediate-answers.md",
)


@dataclass(frozen=True, slots=True)
class Serving:
    """The processes that serve webhooks. The arguments of an operator outside of a Deployment are None."""

    leads: bool
    arguments: tuple[str, ...] | None

    def obstacle(self, option: str) -> str:
        """Return why no process serves the webhooks of an option, or an empty text if one may do so."""
        if not self.leads:
            return "no operator runs"
        if self.arguments is None or option in self.arguments:
            return ""
        return f"the operator runs without {option}"


async def find_serving(session: Session, installation: Installation, now: float) -> Serving:
    """Read the Lease and the arguments of the operator. Without these rights it is assumed to serve."""
    try:
        lease = await read_lease(session, installation)
        deployment = await read_deployment(session, installation)
    except Forbidden:
        return Serving(leads=True, arguments=None)
    if deployment is None:
        return Serving(is_held(lease or {}, now), None)
    containers = deployment["spec"]["template"]["spec"]["containers"]
    words = (word for each in containers for word in (*each.get("command", ()), *each.get("args", ())))
    return Serving(is_held(lease or {}, now), tuple(words))


async def check_admission(session: Session, installation: Installation, now: float) -> CheckFinding:
    """Check the webhooks that review bindings. Raises Forbidden."""
    return await _check(session, installation, now, BINDINGS, admission_finding, NO_REVIEWS)


async def check_answers(session: Session, installation: Installation, now: float) -> CheckFinding:
    """Check the webhooks that answer creations. Raises Forbidden."""
    return await _check(session, installation, now, CREATIONS, answers_finding, NO_ANSWERS)


async def _check(
    session: Session,
    installation: Installation,
    now: float,
    configuration: WebhookConfiguration,
    judge: Callable[[Mapping[str, Any]], CheckFinding],
    absent: CheckFinding,
) -> CheckFinding:
    """Check a configuration of webhooks. `absent` is the result if it is not there and no option needs it."""
    serving = await find_serving(session, installation, now)
    try:
        stored = msgspec.json.decode(await session.client.get(configuration.resource.item(CONFIGURATION)))
    except NotFound:
        stored = None
    found = absent if stored is None else judge(stored)
    return serving_finding(found, configuration, serving, exists=bool((stored or {}).get("webhooks")))


def serving_finding(
    found: CheckFinding, configuration: WebhookConfiguration, serving: Serving, *, exists: bool
) -> CheckFinding:
    """Return a mismatch of the webhooks that exist and those that are served, or else the given finding."""
    option = f"--{configuration.option}"
    if exists and (obstacle := serving.obstacle(option)):
        text = f"{configuration.title} exists, but {obstacle}: {configuration.unserved}"
        delete = f"kubectl delete {configuration.resource.plural} {CONFIGURATION}"
        return replace(found, level=Severity.WRONG, found=text, advice=f"{BINDERS}. Otherwise: {delete}")
    served = serving.leads and option in (serving.arguments or ())
    if mismatch_of(exists=exists, served=served) is Mismatch.MISSING:
        text = f"the operator runs with {option}, but {configuration.title} does not exist: "
        return replace(found, level=Severity.WRONG, found=text + configuration.missing, advice=REAPPLY)
    return found


def admission_finding(webhook: Mapping[str, Any]) -> CheckFinding:
    """Check whether the webhook can be called, and whether it refuses bindings without the operator."""
    if problem := _obstacle(webhook):
        found = f"{problem}: each binding of other schedulers is refused"
        advice = "run the operator with --admission: it sets that"
        return CheckFinding("admission", Severity.WRONG, found, advice)
    if any(each.get("failurePolicy") == "Ignore" for each in webhook["webhooks"]):
        found = (
            "failurePolicy Ignore: while the operator is away, other schedulers may take reserved capacity"
        )
        return CheckFinding("admission", Severity.NOTE, found, BINDERS)
    return CheckFinding("admission", Severity.OK, "bindings of other schedulers are reviewed")


def answers_finding(webhook: Mapping[str, Any]) -> CheckFinding:
    """Check whether the webhook that answers creations can be called."""
    if problem := _obstacle(webhook):
        found = f"{problem}: spec.answer has no effect"
        advice = "run the operator with --answers: it sets that"
        return CheckFinding("answers", Severity.WRONG, found, advice)
    return CheckFinding("answers", Severity.OK, "creations with spec.answer are answered")


def _obstacle(webhook: Mapping[str, Any]) -> str:
    """Return why the API server can't call a webhook, or an empty text."""
    hooks = webhook.get("webhooks") or ()
    if not hooks or not all(each["clientConfig"].get("caBundle") for each in hooks):
        return "the webhook has no caBundle"
    if not all(TOKEN_PATH.search(_called(each["clientConfig"])) for each in hooks):
        return "the webhook is called without the operator's token"
    return ""


def _called(client_config: Mapping[str, Any]) -> str:
    """Return the address of a webhook: a path of its Service, or a URL."""
    return str(client_config.get("url") or (client_config.get("service") or {}).get("path") or "")
