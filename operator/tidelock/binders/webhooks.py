"""The webhooks of an installation: their configurations, and the comparison with those that are served.

The API server calls a webhook as long as its configuration exists. So a configuration that is left behind,
such as after a change of the operator's options, has the bindings of all other schedulers refused.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, NoReturn

import msgspec

from tidelock.binders.tokens import CREATIONS_PATH
from tidelock.kube.client import MUTATING_WEBHOOKS, WEBHOOKS, ApiResource, KubeClient
from tidelock.kube.errors import ApiError, NotFound

logger = logging.getLogger(__name__)

CONFIGURATION = "tidelock"
"""Name of the ValidatingWebhookConfiguration, and of the MutatingWebhookConfiguration."""
WEBHOOK_NAMES = ("bindings.tidelock.dev", "pods.tidelock.dev", "allocations.tidelock.dev")
"""Names of the webhooks of bindings, and of allocations of devices."""


class WebhookConfiguration(NamedTuple):
    """A configuration of webhooks. The operator introduces itself to the API server, which calls them.

    Attributes:
        resource: kind of the configuration.
        webhooks: names of its webhooks.
        option: the option of the operator that serves them, without its dashes.
        unserved: the effect of the configuration while no operator serves it.
        missing: the effect of the option without the configuration.
        suffix: the part of their path behind the token.

    """

    resource: ApiResource
    webhooks: tuple[str, ...]
    option: str
    unserved: str
    missing: str
    suffix: str = ""

    @property
    def title(self) -> str:
        """Kind and name of the configuration."""
        return f"{self.resource.kind} {CONFIGURATION}"


BINDINGS = WebhookConfiguration(
    WEBHOOKS,
    WEBHOOK_NAMES,
    "admission",
    "bindings and allocations of other schedulers are refused",
    "bindings of other schedulers are not reviewed, so they may take reserved capacity",
)
"""The webhooks for other binders."""
CREATIONS = WebhookConfiguration(
    MUTATING_WEBHOOKS,
    ("brought-answers.tidelock.dev", "creations.tidelock.dev"),
    "answers",
    "spec.answer has no effect",
    "spec.answer has no effect",
    CREATIONS_PATH,
)
"""The webhooks that refuse answers of clients, and that answer creations."""
CONFIGURATIONS = (BINDINGS, CREATIONS)
"""All configurations of webhooks."""


class Mismatch(StrEnum):
    """A difference between a configuration and the webhooks that are served."""

    UNSERVED = "unserved"
    MISSING = "missing"


class _Configuration(msgspec.Struct, frozen=True):
    webhooks: list[msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(_Configuration).decode


def mismatch_of(*, exists: bool, served: bool) -> Mismatch | None:
    """Return the mismatch of a configuration that exists or does not, or None if both agree."""
    if exists == served:
        return None
    return Mismatch.UNSERVED if exists else Mismatch.MISSING


async def find_mismatches(
    client: KubeClient, served: Sequence[WebhookConfiguration]
) -> dict[WebhookConfiguration, Mismatch]:
    """Read the configurations, and return the mismatch of each that has one. Raises an ApiError."""
    found: dict[WebhookConfiguration, Mismatch] = {}
    for each in CONFIGURATIONS:
        try:
            stored = _decode(await client.get(each.resource.item(CONFIGURATION)))
        except NotFound:
            exists = False
        else:
            exists = bool(stored.webhooks)
        mismatch = mismatch_of(exists=exists, served=each in served)
        if mismatch is not None:
            found[each] = mismatch
    return found


async def watch_webhooks(
    client: KubeClient,
    served: Sequence[WebhookConfiguration],
    observe: Callable[[str, str, float], None],
    period: float,
) -> NoReturn:
    """Compare the configurations with the served webhooks in each period, and log each change.

    Args:
        client: the API server.
        served: the configurations of the webhooks that this process serves.
        observe: gets an option, a mismatch, and 1 if there is this mismatch, 0 if not, NaN if not known.
        period: seconds between two comparisons.

    """
    known: Mapping[WebhookConfiguration, Mismatch] | None = {}
    while True:
        found: Mapping[WebhookConfiguration, Mismatch] | None = None
        try:
            found = await find_mismatches(client, served)
        except ApiError as error:
            if known is not None:
                logger.warning("webhooks are not compared with the options", extra={"error": str(error)})
        else:
            _report(known or {}, found)
        for each in CONFIGURATIONS:
            for mismatch in Mismatch:
                value = math.nan if found is None else float(found.get(each) is mismatch)
                observe(each.option, mismatch.value, value)
        known = found
        await asyncio.sleep(period)


def _report(
    before: Mapping[WebhookConfiguration, Mismatch], found: Mapping[WebhookConfiguration, Mismatch]
) -> None:
    """Log each new mismatch, and the end of the last one."""
    for each, mismatch in found.items():
        if before.get(each) is mismatch:
            continue
        if mismatch is Mismatch.UNSERVED:
            delete = f"kubectl delete {each.resource.plural} {CONFIGURATION}"
            logger.warning(
                "webhooks exist that this operator does not serve",
                extra={
                    "configuration": each.title,
                    "effect": each.unserved,
                    "advice": f"run the operator with --{each.option}, or {delete}",
                },
            )
        else:
            logger.warning(
                "this operator serves webhooks that do not exist",
                extra={
                    "configuration": each.title,
                    "effect": each.missing,
                    "advice": f"install {each.title}, or run the operator without --{each.option}",
                },
            )
    if before and not found:
        logger.info("the webhooks are those that this operator serves")
