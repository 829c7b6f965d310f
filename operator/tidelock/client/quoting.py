"""Quotes: the result that a reservation would have now."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pydantic

from tidelock.client.cluster import Cluster
from tidelock.client.errors import ClientError, NotFound, TimedOut, invalid, refusal
from tidelock.client.informer import Version, read_version
from tidelock.client.remote import finish, logger
from tidelock.kube.client import RESERVATIONQUOTES
from tidelock.model.api.reservation import Ask
from tidelock.model.api.reservation_quote import ReservationQuoteSpec, ReservationQuoteStatus
from tidelock.model.api.wire import legible

_ASKED = frozenset({*Ask.model_fields, *(str(each.alias) for each in Ask.model_fields.values())})
_TTL = 60  # seconds after which a quote is deleted if the client can't delete it


@dataclass(frozen=True, slots=True)
class QuoteReply:
    """The answer of a cluster. Nothing is held, so it can be wrong a moment later.

    Attributes:
        cluster: name of the cluster.
        status: the answer in full.
        feasible: whether the reservation would be granted now.
        reason: one word for programs, such as Fits or InsufficientCapacity.
        message: explanation for people, with numbers.

    """

    cluster: str
    status: ReservationQuoteStatus
    feasible: bool
    reason: str
    message: str


async def quote(
    cluster: Cluster,
    spec: Ask | Mapping[str, Any],
    *,
    namespace: str = "",
    timeout: float = 10.0,  # noqa: ASYNC109 -- of the operator's answer; each request has its own
) -> QuoteReply:
    """Ask whether a reservation would be granted now, and delete the question afterwards.

    Args:
        cluster: an open cluster.
        spec: the spec of a quote or of a reservation, or its JSON. Fields that a quote lacks are left out.
        namespace: namespace of the quote. Default: that of the cluster.
        timeout: seconds for the operator's answer.

    Raises:
        Invalid: the spec is wrong.
        TimedOut: there is no answer in time.
        ClientError: the API server could not be reached, or refused a request.

    """
    namespace, name = namespace or cluster.namespace, f"quote-{secrets.token_hex(8)}"
    body = {
        "apiVersion": RESERVATIONQUOTES.api_version,
        "kind": RESERVATIONQUOTES.kind,
        "metadata": {"name": name},
        "spec": _question(spec),
    }
    versions: asyncio.Queue[Version | None] = asyncio.Queue()
    with cluster.informer(RESERVATIONQUOTES, namespace).follow(name, versions.put_nowait):
        try:
            first = read_version(await finish(cluster.create(RESERVATIONQUOTES, body, namespace)))
            async with asyncio.timeout(timeout):
                return await _answer(cluster, namespace, first, versions)
        except TimeoutError as error:
            text = f"no answer to a quote within {timeout:g} s"
            raise TimedOut(text, cluster=cluster.name) from error
        finally:
            await finish(_delete(cluster, name, namespace))


def _question(spec: Ask | Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a quote as JSON, or raise Invalid."""
    plain = spec.model_dump(mode="json", exclude_unset=True) if isinstance(spec, Ask) else dict(spec)
    if not isinstance(spec, ReservationQuoteSpec) and "owners" in plain:  # it is a reservation's
        plain = {name: value for name, value in plain.items() if name in _ASKED}
    try:
        read = ReservationQuoteSpec.model_validate({"ttlSeconds": _TTL} | plain)
    except pydantic.ValidationError as error:
        raise invalid(error) from error
    return read.model_dump(mode="json", exclude_unset=True, exclude_none=True)


async def _answer(
    cluster: Cluster, namespace: str, version: Version, versions: "asyncio.Queue[Version | None]"
) -> QuoteReply:
    """Wait for the answer to a quote."""
    uid = version.meta.uid
    while (found := _reply(cluster.name, version)) is None:
        latest = await versions.get()
        if latest is None:
            latest = read_version(await cluster.get(RESERVATIONQUOTES, version.meta.name, namespace))
        if latest.meta.uid == uid and latest.gone:
            raise NotFound("another client deleted the quote", cluster=cluster.name)
        if latest.meta.uid == uid:
            version = latest
    return found


def _reply(cluster: str, version: Version) -> QuoteReply | None:
    """Return the answer to a quote, or None before it, or raise Refused if the quote can't be answered."""
    status = ReservationQuoteStatus.model_validate(legible(ReservationQuoteStatus, version.status))
    answer = next((each for each in status.conditions if each.type == "Feasible"), None)
    if answer is None or status.observed_generation != version.meta.generation:
        return None
    if answer.status == "Unknown":
        raise refusal(cluster, answer.reason, answer.message)
    return QuoteReply(cluster, status, answer.status == "True", answer.reason, answer.message)


async def _delete(cluster: Cluster, name: str, namespace: str) -> None:
    try:
        await cluster.delete(RESERVATIONQUOTES, name, namespace)
    except NotFound:
        pass
    except ClientError as error:
        logger.info("can't delete a quote", extra={"cluster": cluster.name, "error": str(error)})
