"""Extenders over HTTP: asked about nodes before a decision, and to bind or to choose victims after it.

Source: kube-scheduler 1.36, extender.go, schedule_one.go and framework/preemption/preemption.go. A pod's
filters are called one after the other, each with what the last one left, its priorities all at once.
"""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self, TypeVar

from tidelock.framework.config_file import ConfigurationError, Extender, ExtenderTls, parse_duration
from tidelock.framework.extender import (
    AnswerError,
    ExtenderAdviceData,
    ExtenderFailure,
    ExtenderFilterResult,
    ExtenderVictims,
    binding_request,
    is_interested,
    nodes_request,
    preemption_request,
    read_binding,
    read_filtered,
    read_preemption,
    read_priorities,
)
from tidelock.kube.errors import ApiError
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 5.0
# Bindings that one extender makes at once. The others wait without a connection, on which time-outs run.
_BINDINGS_AT_ONCE = 32

T = TypeVar("T")


class ExtenderError(ApiError):
    """An extender could not be asked, or has failed."""


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An extender with its timeout in seconds and its TLS context. `binding` is held for each binding."""

    settings: Extender
    timeout: float
    tls: ssl.SSLContext
    server_name: str | None
    binding: asyncio.Semaphore


class Extenders:
    """All extenders, in the order in which they are asked. It is an async context manager."""

    def __init__(self, extenders: Sequence[Extender]) -> None:
        """Load the certificates. Raises ConfigurationError if that fails."""
        self._endpoints = tuple(map(_endpoint, extenders))
        self._session: aiohttp.ClientSession

    @property
    def configured(self) -> bool:
        """Whether there are any."""
        return bool(self._endpoints)

    async def __aenter__(self) -> Self:
        if self.configured:
            import aiohttp  # noqa: PLC0415 -- it takes a tenth of a start, and most clusters have no extender

            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.configured:
            await self._session.close()

    async def advise(self, pod: Pod, nodes: Iterable[Node]) -> ExtenderAdviceData:
        """Ask which of the nodes that passed the filters may take the pod, and which are better."""
        left = {node.name: node for node in nodes}
        failed: dict[str, ExtenderFailure] = {}
        for endpoint in self._of(pod, lambda extender: extender.filter_verb):
            if not left:
                break
            try:
                result = await self._filter(endpoint, pod, left)
            except ExtenderError as error:
                if not endpoint.settings.ignorable:
                    return ExtenderAdviceData(error=str(error))
                _skipped(endpoint, error)
                continue
            failed |= result.failed
            left = {name: left[name] for name in result.names}
        scores = await self._prioritize(pod, left) if len(left) > 1 else {}
        return ExtenderAdviceData(frozenset(left), failed, scores)

    async def bind(self, pod: Pod, node_name: str) -> bool:
        """Let the extender for such pods bind a pod. Return False if there is none.

        Raises:
            ExtenderError: it failed, or did not answer.

        """
        for endpoint in self._of(pod, lambda extender: extender.bind_verb):
            verb = endpoint.settings.bind_verb
            try:
                async with endpoint.binding:
                    await self._call(endpoint, verb, binding_request(pod, node_name), read_binding)
            except ExtenderError as error:
                if not endpoint.settings.ignorable:
                    raise
                _skipped(endpoint, error)
                continue
            return True
        return False

    async def preempt(
        self, pod: Pod, victims: Mapping[str, ExtenderVictims], pods_on: Callable[[str], Iterable[Pod]]
    ) -> Mapping[str, ExtenderVictims]:
        """Ask on which of the nodes the pod may preempt, and which victims.

        Args:
            pod: the pod that preempts.
            victims: the candidates, by node.
            pods_on: returns the pods of a node, among which an extender may choose others.

        Raises:
            ExtenderError: an extender failed that is not ignorable, or it names a node without victims.

        """
        for endpoint in self._of(pod, lambda extender: extender.preempt_verb):
            if not victims:
                break
            try:
                victims = await self._preempt(endpoint, pod, victims, pods_on)
            except ExtenderError as error:
                if not endpoint.settings.ignorable:
                    raise
                _skipped(endpoint, error)
        return victims

    def _of(self, pod: Pod, verb: Callable[[Extender], str]) -> Iterator[_Endpoint]:
        """Yield the extenders with a verb that are interested in the pod."""
        for endpoint in self._endpoints:
            if verb(endpoint.settings) and is_interested(endpoint.settings, pod):
                yield endpoint

    async def _filter(self, endpoint: _Endpoint, pod: Pod, nodes: Mapping[str, Node]) -> ExtenderFilterResult:
        settings = endpoint.settings
        request = nodes_request(settings, pod, nodes.values())
        read = partial(read_filtered, settings, asked=nodes)
        return await self._call(endpoint, settings.filter_verb, request, read)

    async def _prioritize(self, pod: Pod, nodes: Mapping[str, Node]) -> Counter[str]:
        """Return the sums of the priorities. An extender that fails has none."""
        endpoints = tuple(self._of(pod, lambda extender: extender.prioritize_verb))
        total: Counter[str] = Counter()
        for scores in await asyncio.gather(*(self._priorities(each, pod, nodes) for each in endpoints)):
            for name, score in scores:
                total[name] += score
        return total

    async def _priorities(
        self, endpoint: _Endpoint, pod: Pod, nodes: Mapping[str, Node]
    ) -> list[tuple[str, int]]:
        settings = endpoint.settings
        request = nodes_request(settings, pod, nodes.values())
        try:
            read = partial(read_priorities, settings)
            return await self._call(endpoint, settings.prioritize_verb, request, read)
        except ExtenderError as error:
            _skipped(endpoint, error)
            return []

    async def _preempt(
        self,
        endpoint: _Endpoint,
        pod: Pod,
        victims: Mapping[str, ExtenderVictims],
        pods_on: Callable[[str], Iterable[Pod]],
    ) -> Mapping[str, ExtenderVictims]:
        settings = endpoint.settings
        request = preemption_request(settings, pod, victims)
        read = partial(read_preemption, settings, pods_on=pods_on)
        chosen = await self._call(endpoint, settings.preempt_verb, request, read)
        spared = [name for name, each in chosen.items() if not each.pods]
        if spared and not settings.ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{spared[0]}"')
        return {name: each for name, each in chosen.items() if each.pods}

    async def _call(self, endpoint: _Endpoint, verb: str, body: bytes, read: Callable[[bytes], T]) -> T:
        """Post a request and read the answer. Every failure is an ExtenderError."""
        import aiohttp  # noqa: PLC0415 -- as in __aenter__

        url = f"{endpoint.settings.url_prefix.rstrip('/')}/{verb}"
        try:
            async with self._session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json"},
                ssl=endpoint.tls,
                server_hostname=endpoint.server_name,
                timeout=aiohttp.ClientTimeout(total=endpoint.timeout),
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a time-out is an OSError
            reason = str(error) or f"no answer within {endpoint.timeout:g} s"
            never_sent = isinstance(error, aiohttp.ClientConnectorError)
            raise ExtenderError(
                f"{extender_failed(verb, url)}: {reason}", outcome_unknown=not never_sent
            ) from error
        if response.status != HTTPStatus.OK:
            raise ExtenderError(
                f"{extender_failed(verb, url)}, code {response.status}",
                outcome_unknown=response.status >= HTTPStatus.INTERNAL_SERVER_ERROR,
            )
        try:
            return read(answer)
        except AnswerError as error:
            raise ExtenderError(str(error)) from error


def _skipped(endpoint: _Endpoint, error: ExtenderError) -> None:
    logger.info("extender skipped", extra={"extender": endpoint.settings.url_prefix, "error": str(error)})


def _endpoint(settings: Extender) -> _Endpoint:
    tls = settings.tls_config or ExtenderTls()
    try:
        context = _tls(settings, tls)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        text = f"extenders: {settings.url_prefix}: tlsConfig: can't load the certificates: {error}"
        raise ConfigurationError(text) from error
    seconds = parse_duration(settings.http_timeout) or DEFAULT_TIMEOUT
    bindings = asyncio.Semaphore(_BINDINGS_AT_ONCE)
    return _Endpoint(settings, seconds, context, tls.server_name or None, bindings)


def _tls(settings: Extender, tls: ExtenderTls) -> ssl.SSLContext:
    """Make the context: as upstream, an extender with enableHTTPS and without a CA is not verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca_data or tls.ca_file:
        context.load_verify_locations(cadata=(tls.ca_data or Path(tls.ca_file).read_bytes()).decode())
    elif tls.insecure or settings.enable_https:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.url_prefix.startswith("https:"):
        context.load_default_certs()
    if tls.cert_data or tls.cert_file:
        with TemporaryDirectory() as folder:  # a certificate is loaded from files only
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_bytes(tls.cert_data or Path(tls.cert_file).read_bytes())
            key.write_bytes(tls.key_data or Path(tls.key_file).read_bytes())
            context.load_cert_chain(certificate, key)
    return context


def extender_failed(verb: str, url: str) -> str:
    """Say that an extender did not answer as it should, in kube-scheduler's words."""
    return f"failed {verb} with extender at URL {url}"
