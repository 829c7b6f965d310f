"""Tidelock's door for other binders: the extender API and the admission webhook, over TLS.

Each is a path of one server. What is asked is judged by the guard in the very turn of the event loop in which
the request has been read, so that an answer can't be older than the decision before it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from aiohttp import web

from tidelock.binders.arrivals import Arrivals
from tidelock.binders.endpoint import Endpoint
from tidelock.binders.extending import VERBS, BadRequestError, Verb
from tidelock.binders.guard import Guard
from tidelock.binders.keeper import Keeper
from tidelock.binders.reviews import BadReviewError, Question, answer, read_review
from tidelock.clock import Clock
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.model.pods import Pod, decode_pod
from tidelock.serving import listen
from tidelock.telemetry import Telemetry

logger = logging.getLogger(__name__)

ADMISSION_PATH = "/admission"
EXTENDER_PATH = "/extender"

# Longer than API servers keep an idle connection (90 s), so that none is closed as a request is on its way.
_KEEPALIVE = 600.0
# Seconds that requests get at the end, which whoever leads next waits for.
_LAST = 0.1
_LARGEST_REQUEST = 512 * 1024 * 1024  # thousands of whole nodes
# Seconds between two looks at admitted bindings that were never seen, and at the certificate.
_LOOK = 1.0
_LOOK_AT_CERTIFICATE = 60.0
_RETRY = 2.0
# How long a scheduler waits for an answer that follows from bindings under way, rather than be told no; and
# for how long each time.
_PATIENCE = 1.0
_MOMENT = 0.01

Handler = Callable[[web.Request], Awaitable[web.Response]]


class Door:
    """Answers other binders for as long as it runs.

    Args:
        guard: judges what is asked.
        arrivals: where pods are found that a binding names; to be put before the feed.
        keeper: the certificate, and who is told of it.
        endpoint: by which others find the way here.
        client: for pods that the watch has not told of yet.
        clock: the process' clock.
        telemetry: counts and measures the answers.
        address: where to listen, for TLS alone.
        port: the port there.
        ready: whether this process leads, and knows all that answers follow from.
        wake: has the decision loop look again, as room was taken or came free.
        extender: whether to serve the extender API.
        admission: whether to serve the admission webhook, and make it known.

    """

    def __init__(
        self,
        guard: Guard,
        arrivals: Arrivals,
        keeper: Keeper,
        endpoint: Endpoint,
        client: KubeClient,
        clock: Clock,
        telemetry: Telemetry,
        *,
        address: str,
        port: int,
        ready: Callable[[], bool],
        wake: Callable[[], None],
        extender: bool,
        admission: bool,
    ) -> None:
        self._guard = guard
        self.arrivals = arrivals
        self._keeper = keeper
        self._endpoint = endpoint
        self._client = client
        self._clock = clock
        self._telemetry = telemetry
        self._address = address
        self._port = port
        self._ready = ready
        self._wake = wake
        self._admission = admission
        self._application = web.Application(client_max_size=_LARGEST_REQUEST)
        if admission:
            self._application.router.add_post(ADMISSION_PATH, self._when_ready(self._review))
        if extender:
            for name, verb in VERBS.items():
                handler = self._when_ready(self._extending(name, verb))
                self._application.router.add_post(f"{EXTENDER_PATH}/{name}", handler)

    async def run(self) -> NoReturn:
        """Serve for ever, from the moment that there is a certificate.

        Raises:
            ListenError: the port is taken, or the address is not one of this machine's.

        """
        while not await self._attempt(self._keeper.renew):  # noqa: ASYNC110 -- nothing tells when it can be
            await asyncio.sleep(_RETRY)
        runner = web.AppRunner(
            self._application, access_log=None, keepalive_timeout=_KEEPALIVE, shutdown_timeout=_LAST
        )
        await runner.setup()
        try:
            await listen(runner, self._address, self._port, option="--tls-port", tls=self._keeper.context)
            await asyncio.gather(self._tidy(), self._keep())
        finally:
            await runner.cleanup()
        raise AssertionError("it never ends by itself")

    async def _tidy(self) -> NoReturn:
        while True:
            await asyncio.sleep(_LOOK)
            if self._guard.lapse(self._clock.now()):
                self._wake()

    async def _keep(self) -> NoReturn:
        """Renew the certificate in time, and make it and the way here known, again if they are put back."""
        while True:
            done = await self._attempt(self._endpoint.announce)
            if self._admission:
                done = await self._attempt(self._keeper.introduce) and done
            await asyncio.sleep(_LOOK_AT_CERTIFICATE if done else _RETRY)
            await self._attempt(self._keeper.renew)

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do something that may fail for now; whether it has been done."""
        try:
            await work()
        except ApiError as error:
            self._telemetry.api_errors.labels("door", type(error).__name__).inc()
            logger.warning("others can't ask yet", extra={"error": str(error)})
            return False
        return True

    # Requests.

    def _when_ready(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            if not self._ready():
                return web.Response(status=503, text="not ready: not leading, or the cluster is not read yet")
            return await handler(request)

        return handle

    def _extending(self, name: str, verb: Verb) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            body = await request.read()
            started = self._clock.monotonic()
            try:
                found = None
                while found is None:
                    patient = self._clock.monotonic() < started + _PATIENCE
                    found = verb(self._guard, body, self._clock.now(), patient)
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
        try:
            pod = question.pod or await self._find(question)
        except ApiError as error:
            return web.Response(status=503, text=f"cannot read pod {question.key}: {error}")
        # Whom nobody knows, or who is another by now, the API server itself does not bind.
        refusal = ""
        if pod is not None:
            now = self._clock.now()
            refusal = self._guard.admit(pod, question.node_name, now, dry_run=question.dry_run)
            if not refusal:
                self._wake()
        self._telemetry.reviews.labels("refused" if refusal else "admitted").inc()
        self._telemetry.review_duration.observe(self._clock.monotonic() - started)
        if refusal:
            logger.info("binding refused", extra={"pod": str(question.key), "reason": refusal})
        return web.Response(body=answer(question, refusal), content_type="application/json")

    async def _find(self, question: Question) -> Pod | None:
        """Give the pod that a binding means; None if there is none that could be bound.

        One that the watch has not told of yet, or that only its name tells of, is asked for.
        """
        pod = self.arrivals.find(question.key)
        if pod is not None and pod.uid == question.pod_uid:
            return pod
        try:
            pod = decode_pod(await self._client.get(PODS.item(question.key.name, question.key.namespace)))
        except NotFound:
            return None
        meant = question.pod_uid in ("", pod.uid) and not pod.node_name
        return pod if meant else None
