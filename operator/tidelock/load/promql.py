"""A client of the Prometheus HTTP API: instant and range queries, and their answers."""

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

import aiohttp
import msgspec

from tidelock.load.source import FailureReason, SourceError
from tidelock.model.nesting import depth_bounded

ERROR_LENGTH = 200
"""Most characters of a foreign text in an error."""


class Access(NamedTuple):
    """Credentials: headers of each request, and trusted authorities other than those of the system."""

    headers: Mapping[str, str] = {}
    tls: ssl.SSLContext | None = None

    def hidden(self, text: bytes) -> bytes:
        """Remove the credentials from a refusal, which some servers repeat, before it is logged."""
        for header in self.headers.values():
            text = text.replace(header.rpartition(" ")[2].encode(), b"***")
        return text


async def anonymous_access() -> Access:
    """Return no credentials."""
    return Access()


class Series(msgspec.Struct, frozen=True):
    """A series of an answer: its labels, and a value at an instant or values at several."""

    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: tuple[tuple[float, str], ...] = ()


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: list[msgspec.Raw]


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: tuple[str, ...] = ()


_decode_answer = depth_bounded(msgspec.json.Decoder(_Answer).decode)
decode_series = depth_bounded(msgspec.json.Decoder(Series).decode)


class Vector(NamedTuple):
    """The answer to a query: series, still as JSON, and warnings that it is incomplete."""

    series: Sequence[msgspec.Raw]
    warnings: Sequence[str]


class PrometheusClient:
    """Sends queries to one server."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        address: str,
        access: Callable[[], Awaitable[Access]],
        timeout_seconds: float = 10.0,
    ) -> None:
        """Prepare.

        Args:
            session: the HTTP client.
            address: base URL of the server.
            access: returns the current credentials, or raises SourceError.
            timeout_seconds: how long one query may take.

        """
        self._session = session
        self._url = address.rstrip("/")
        self._access = access
        self._timeout = timeout_seconds

    async def access(self) -> Access:
        """Return the current credentials, or raise SourceError."""
        return await self._access()

    async def query(self, path: str, access: Access, form: Mapping[str, str]) -> Vector:
        """Send a query to `query` or `query_range`, or raise SourceError."""
        try:
            async with self._session.post(
                f"{self._url}/api/v1/{path}",
                data={**form, "timeout": f"{self._timeout:g}s"},
                headers=access.headers,
                ssl=access.tls or True,
                allow_redirects=False,  # the credentials are for this server
                timeout=aiohttp.ClientTimeout(total=self._timeout),
            ) as response:
                body = await response.read()
                if response.status != HTTPStatus.OK:
                    body = access.hidden(body)
        except TimeoutError as error:
            raise SourceError(FailureReason.TIMED_OUT, f"no answer within {self._timeout:g} s") from error
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError) as error:
            raise SourceError(FailureReason.MALFORMED, f"the answer was cut short: {error}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SourceError(FailureReason.UNREACHABLE, str(error) or type(error).__name__) from error
        return _vector(response.status, body)


def _vector(status: int, body: bytes) -> Vector:
    try:
        answer = _decode_answer(body)
    except ValueError as error:
        if status != HTTPStatus.OK:
            text = body[:ERROR_LENGTH].decode(errors="replace")
            raise SourceError(FailureReason.REFUSED, f"HTTP {status}: {text}") from error
        raise SourceError(FailureReason.MALFORMED, f"not an answer of the Prometheus API: {error}") from error
    if answer.status != "success" or answer.data is None:
        cause = f"{answer.error_type}: {answer.error}" if answer.error_type else answer.error
        raise SourceError(
            FailureReason.REFUSED, cause[:ERROR_LENGTH] or f"HTTP {status}, status {answer.status!r}"
        )
    if answer.data.result_type not in {"vector", "matrix"}:
        kind = answer.data.result_type
        raise SourceError(FailureReason.REFUSED, f"a query gives a {kind}, expected an instant vector")
    return Vector(answer.data.result, answer.warnings)
