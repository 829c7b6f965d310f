"""How the server for other binders is put together.

It is no part like the others, as it sees pods before the event handlers, and the decision loop tells it of
answered creations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidelock.binders.endpoint import SERVICE, Endpoint
from tidelock.binders.webhooks import CONFIGURATIONS, WebhookConfiguration
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.scheduler.parts import PartContext, ProcessPart
from tidelock.settings import Settings
from tidelock.tcp_server import ListenError

if TYPE_CHECKING:
    from tidelock.binders.creation_webhook import CreationWebhook
    from tidelock.kube.watch import EventHandler


@dataclass(frozen=True, slots=True)
class Binders:
    """The parts for other binders and for creations.

    Attributes:
        pods: the handler of all pods.
        on_answers: takes the answered creations that a step has changed.
        webhook: answers creations, if the settings ask for it.
        parts: the server, if the settings ask for it.

    """

    pods: EventHandler[Pod]
    on_answers: Callable[[Iterable[Key]], None]
    webhook: CreationWebhook | None = None
    parts: tuple[ProcessPart, ...] = ()


def assemble_binders(context: PartContext, *, serve: bool = True) -> Binders:
    """Make the server for other binders and for creations, if it is asked for, or the webhook alone.

    Answers of earlier leaders count before the first decision, so the keys of their signatures are awaited.

    Raises:
        ClientsError: the certificates of schedulers can't be used.

    """
    settings, core = context.settings, context.core
    if not (settings.extender or settings.admission or settings.answers):
        return Binders(core.event_handlers.pods, _ignore)
    webhook = _make_webhook(context) if settings.answers else None
    on_answers = webhook.decided if webhook is not None else _ignore
    if not serve:
        return Binders(core.event_handlers.pods, on_answers, webhook)
    # Two of them import cryptography, which only certificates need.
    from tidelock.binders.admission_check import AdmissionCheck  # noqa: PLC0415
    from tidelock.binders.certificate_rotator import CertificateRotator  # noqa: PLC0415
    from tidelock.binders.server import BinderServer  # noqa: PLC0415
    from tidelock.binders.unbound_pods import UnboundPods  # noqa: PLC0415

    check = AdmissionCheck(core.decider)
    namespace, _, name = settings.tls_secret.partition("/")
    rotator = CertificateRotator(
        context.client,
        Key(namespace, name),
        settings.tls_names,
        context.clock,
        served_webhooks(settings),
        core.decider.ledger.answers.keys if settings.answers else None,
        rotate=settings.tls_rotate,
    )
    if settings.extender and settings.extender_clients:
        rotator.trust(Path(settings.extender_clients))
    pods = UnboundPods(core.event_handlers.pods, check, context.clock)
    server = BinderServer(
        check,
        pods,
        rotator,
        Endpoint(context.client, Key(namespace, SERVICE), settings.tls_address, settings.tls_port),
        context.client,
        context.clock,
        context.writers.telemetry,
        context.writers.isolation,
        address=settings.listen,
        port=settings.tls_port,
        ready=context.may_answer,
        wake=context.wakeup.set,
        extender=settings.extender,
        admission=settings.admission,
        webhook=webhook,
        pace=context.pace,
    )
    part = ProcessPart("binders", lambda _started: server.run(), fatal=(ListenError,))
    return Binders(pods, on_answers, webhook, (part,))


def served_webhooks(settings: Settings) -> tuple[WebhookConfiguration, ...]:
    """Return the configurations of the webhooks that a process with these settings serves."""
    options = {"admission": settings.admission, "answers": settings.answers}
    return tuple(each for each in CONFIGURATIONS if options[each.option])


def _make_webhook(context: PartContext) -> CreationWebhook:
    """Make the webhook of creations. Nothing is decided before there are keys for its answers."""
    from tidelock.binders.creation_webhook import CreationWebhook  # noqa: PLC0415 -- few processes answer

    provided = context.core.event_handlers.await_resource("answers")
    note_request = context.writers.tasks.activity.note_request
    ledger = context.core.decider.ledger
    return CreationWebhook(ledger, context.clock, context.wakeup.set, provided, note_request)


def _ignore(_keys: Iterable[Key]) -> None:
    """Do nothing, as no creation is answered."""
