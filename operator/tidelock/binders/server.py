"""The server for other binders: the extender API and the admission webhook, over TLS.

Each API is a path of one server. Callers authenticate before their body is read: the API server by a token in
the path, schedulers by a client certificate. kube-scheduler prints the address of a failing extender into its
log and into events of pods, so a constant token would not stay a secret.

The admission check judges a request in the very turn of the event loop in which it has been read, so an
answer can't be older than the decision before it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from aiohttp import web

from tidelock.binders.admission_check import AdmissionCheck
from tidelock.binders.certificate_rotator import CertificateRotator
from tidelock.binders.creation_webhook import CreationWebhook
from tidelock.binders.endpoint import Endpoint
from tidelock.binders.extender_api import VERBS, BadRequestError, Verb
from tidelock.binders.reviews import (
    AllocationReview,
    BadReviewError,
    BindingReview,
    answer,
    read_review,
)
from tidelock.binders.tokens import ADMISSION_PATH, CREATIONS_PATH
from tidelock.binders.unbound_pods import UnboundPods
from tidelock.clock import Clock
from tidelock.http_server import Handler as RequestHandler
from tidelock.http_server import Limits, bounded, serve_http
from tidelock.isolation import Isolation
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.model.failures import failure_text
from tidelock.model.meta import Key
from tidelock.model.pods import Pod, decode_pod
from tidelock.pace import PACE, Pace
from tidelock.telemetry import Telemetry

logger = logging.getLogger(__name__)

EXTENDER_PATH = "/extender"

_LIMITS = Limits(
    size=8 * 1024 * 1024,  # a review has an object twice, of at most 1.5 MiB each; a scheduler sends names
    keepalive=600.0,  # longer than API servers keep an idle connection (90 s): none is closed in a request
    last=0.1,  # the next leader waits for it
)
_LOOK_UP = 2.0  # seconds for reading a pod that the watch has not shown yet, of the 5 s for a review
# Seconds between two checks of admitted bindings that were never seen.
_LOOK = 1.0
# How long a scheduler waits for an answer that depends on bindings under way, before it gets a no, and the
# time between two tries.
_PATIENCE = 1.0
_MOMENT = 0.01

_Handler = Callable[[web.Request], Awaitable[web.Response]]


class BinderServer:
    """Answers other binders for as long as it runs.

    Args:
        check: the admission check.
        unbound_pods: the unbound pods, for the pods that a binding names; placed before the event handlers.
        rotator: the certificate rotator.
        endpoint: the address under which others find this process.
        client: for pods that the watch has not shown yet.
        clock: the process' clock.
        telemetry: counts and measures the answers.
        isolation: takes the faults that cost one answer.
        address: listening address, for TLS alone.
        port: its port.
        ready: returns whether this process leads, and has all data for its answers.
        wake: runs the decision loop again, as capacity was taken or freed.
        extender: whether to serve the extender API.
        admission: whether to serve and announce the admission webhook.
        webhook: answers creations of reservations. Without it none is answered.
        pace: how often the certificate and the endpoint are checked.

    """

    def __init__(
        self,
        check: AdmissionCheck,
        unbound_pods: UnboundPods,
        rotator: CertificateRotator,
        endpoint: Endpoint,
        client: KubeClient,
        clock: Clock,
        telemetry: Telemetry,
        isolation: Isolation,
        *,
        address: str,
        port: int,
        ready: Callable[[], bool],
        wake: Callable[[], None],
        extender: bool,
        admission: bool,
        webhook: CreationWebhook | None = None,
        pace: Pace = PACE,
    ) -> None:
        self._check = check
        self.unbound_pods = unbound_pods
        self._rotator = rotator
        self._endpoint = endpoint
        self._client = client
        self._clock = clock
        self._telemetry = telemetry
        self._isolation = isolation
        self._address = address
        self._port = port
        self._ready = ready
        self._wake = wake
        self._announced = admission or webhook is not None
        self._webhook = webhook
        self._pace = pace
        self._application = bounded(_LIMITS, self._prove)
        if admission:
            self._application.router.add_post(f"{ADMISSION_PATH}/{{token}}", self._when_ready(self._review))
        if webhook is not None:
            path = f"{ADMISSION_PATH}/{{token}}{CREATIONS_PATH}"
            self._application.router.add_post(path, self._when_ready(self._serve_creations(webhook)))
        if extender:
            for name, verb in VERBS.items():
                handler = self._when_ready(self._serve_extender(name, verb))
                self._application.router.add_post(f"{EXTENDER_PATH}/{name}", handler)

    async def run(self) -> NoReturn:
        """Serve forever, once there is a certificate.

        Raises:
            ListenError: the port is taken, or the address is not one of this machine's.

        """
        while not await self._attempt(self._rotator.renew):  # noqa: ASYNC110 -- no event announces that it can be
            await asyncio.sleep(self._pace.certificate_retry)
        if self._webhook is not None:
            self._webhook.provided()
        tls = self._rotator.context
        async with serve_http(
            self._application, self._address, self._port, option="--tls-port", limits=_LIMITS, tls=tls
        ):
            await asyncio.gather(self._tidy(), self._keep())
        raise AssertionError("it never ends by itself")

    async def _tidy(self) -> NoReturn:
        while True:
            await asyncio.sleep(_LOOK)
            with self._isolation.part("bindings") as attempt:
                if self._check.lapse(self._clock.now()):
                    self._wake()
            await asyncio.sleep(attempt.pause)

    async def _keep(self) -> NoReturn:
        """Renew the certificate in time, and publish it and the endpoint, again if they are reverted."""
        while True:
            # The token is first, so the API server's calls are already accepted here.
            done = not self._announced or await self._attempt(self._rotator.introduce)
            done = await self._attempt(self._endpoint.announce) and done
            await asyncio.sleep(self._pace.certificate_check if done else self._pace.certificate_retry)
            await self._attempt(self._rotator.renew)

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Try work that may fail for now, and return whether it succeeded."""
        try:
            await work()
        except ApiError as error:
            self._telemetry.api_errors.labels("binder-server", type(error).__name__).inc()
            logger.warning("other binders can't connect yet", extra={"error": str(error)})
            return False
        return True

    # Requests.

    @web.middleware
    async def _prove(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        """Answer only authenticated requests. For all others no path exists."""
        if request.path.startswith(f"{EXTENDER_PATH}/"):
            transport = request.transport
            proven = transport is not None and bool(transport.get_extra_info("peercert"))
        else:
            proven = self._rotator.tokens.count(request.match_info.get("token", ""))
        if proven:
            return await handler(request)
        self._telemetry.caller_refused(request.path)
        response = web.Response(status=404)
        response.force_close()
        return response

    def _when_ready(self, handler: _Handler) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            if not self._ready():
                return web.Response(status=503, text="not ready: not leading, or the cluster is not read yet")
            try:
                return await handler(request)
            except (web.HTTPException, ConnectionError):
                raise
            except Exception as error:  # noqa: BLE001 -- it costs one answer
                self._isolation.part_failed("review", error)
                return web.Response(status=500, text=f"the operator failed: {failure_text(error)}")

        return handle

    def _serve_extender(self, name: str, verb: Verb) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            body = await request.read()
            started = self._clock.monotonic()
            try:
                found = None
                while found is None:
                    patient = self._clock.monotonic() < started + _PATIENCE
                    found = verb(self._check, body, self._clock.now(), patient)
                    if found is None:
                        await asyncio.sleep(_MOMENT)
            except BadRequestError as error:
                return web.Response(status=400, text=str(error))
            self._telemetry.extender_duration.labels(name).observe(self._clock.monotonic() - started)
            return web.Response(body=found, content_type="application/json")

        return handle

    async def _review(self, request: web.Request) -> web.Response:
        body = await request.read()
        started = self._clock.monotonic()
        try:
            question = read_review(body)
        except BadReviewError as error:
            return web.Response(status=400, text=str(error))
        if isinstance(question, AllocationReview):
            refusal = self._check.claims.admit(question.claim, self._clock.now(), dry_run=question.dry_run)
        else:
            refusal = await self._judge(question)
        self._telemetry.reviews.labels("refused" if refusal else "admitted").inc()
        self._telemetry.review_duration.observe(self._clock.monotonic() - started)
        if refusal:
            logger.info("write refused", extra={"object": str(question.key), "reason": refusal})
        return web.Response(body=answer(question, refusal), content_type="application/json")

    async def _judge(self, question: BindingReview) -> str:
        """Return why a pod can't be bound, or an empty text. Raises HTTPException if that is unknown."""
        if question.pod is not None and self._check.knows(question.pod.uid):
            raise web.HTTPBadRequest(text=f"pod {question.key} is there already: it can't be made")
        try:
            async with asyncio.timeout(_LOOK_UP):
                pod = question.pod or await self._find(question)
        except (ApiError, TimeoutError) as error:
            problem = str(error) or f"no answer within {_LOOK_UP:g} s"
            text = unread_text(question.key, problem)
            raise web.HTTPServiceUnavailable(text=text) from error
        # The API server itself does not bind a pod that is unknown, or has been replaced.
        if pod is None:
            return ""
        now = self._clock.now()
        refusal = self._check.admit(pod, question.node_name, now, dry_run=question.dry_run)
        if not refusal:
            self._wake()
        return refusal

    def _serve_creations(self, webhook: CreationWebhook) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            body = await request.read()
            started = self._clock.monotonic()
            try:
                found, result = await webhook.review(body)
            except BadReviewError as error:
                return web.Response(status=400, text=str(error))
            self._telemetry.answers.labels(result).inc()
            self._telemetry.answer_duration.observe(self._clock.monotonic() - started)
            return web.Response(body=found, content_type="application/json")

        return handle

    async def _find(self, question: BindingReview) -> Pod | None:
        """Return the pod of a binding, or None if no such pod could be bound.

        A pod that the watch has not shown yet, or that only its name identifies, is read from the API server.
        """
        pod = self.unbound_pods.find(question.key)
        if pod is not None and pod.uid == question.pod_uid:
            return pod
        try:
            pod = decode_pod(await self._client.get(PODS.item(question.key.name, question.key.namespace)))
        except NotFound:
            return None
        meant = question.pod_uid in ("", pod.uid) and not pod.node_name
        return pod if meant else None


def unread_text(pod: Key | str, problem: str) -> str:
    """Say that a pod was not judged."""
    return f"cannot read pod {pod}: {problem}"
