"""The part that answers Karmada."""

from collections.abc import Iterator
from pathlib import Path

from tidelock.binders.endpoint import Endpoint
from tidelock.model.meta import Key
from tidelock.scheduler.parts import PartContext, ProcessPart
from tidelock.tcp_server import ListenError


def parts(context: PartContext) -> Iterator[ProcessPart]:
    """Yield the server, if the settings ask for it."""
    settings, writers = context.settings, context.writers
    if not settings.karmada_cluster:
        return
    from tidelock.integrations.karmada import server  # noqa: PLC0415 -- only it needs gRPC

    service = Key(context.connection.system_namespace, server.ENDPOINT)
    estimator = server.EstimatorServer(
        context.core.decider,
        context.client,
        Endpoint(context.client, service, settings.karmada_address, settings.karmada_port, "grpc"),
        context.clock,
        writers.telemetry,
        writers.isolation,
        cluster=settings.karmada_cluster,
        folder=Path(settings.karmada_tls),
        address=settings.listen,
        port=settings.karmada_port,
        ready=context.may_answer,
    )
    yield ProcessPart("estimator", lambda _started: estimator.run(), fatal=(ListenError,))
