"""Tokens in the path with which the API server calls the webhooks.

A webhook's configuration has no other place for a secret. When a call breaks, the API server reports it with
the path to the client that creates the binding. So a token lives for minutes. The previous token stays valid
a little longer, until each API server has seen its successor.
"""

import hmac
import math
import re
import secrets
from collections.abc import Callable

ADMISSION_PATH = "/admission"
CREATIONS_PATH = "/creations"
"""The part behind the token for the webhook of creations."""

TOKEN_LIFETIME = 600.0
"""Seconds after which a token is replaced."""
OVERLAP = 30.0
"""Seconds for which a token is valid after its successor was written, as an API server may be behind."""

_BYTES = 32
# The API server only accepts characters of DNS names in a path.
TOKEN_PATH = re.compile(rf"{ADMISSION_PATH}/([0-9a-f]{{{2 * _BYTES}}})(?:{CREATIONS_PATH})?$")
"""The path of the webhooks, at the end of an address."""


class Tokens:
    """The valid tokens; `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._newest = ""
        self._old_at = -math.inf
        self._until: dict[str, float] = {}

    def count(self, shown: str) -> bool:
        """Return whether a token is valid, compared in a time that leaks nothing about valid ones."""
        now, given = self._monotonic(), shown.encode(errors="surrogateescape")
        same = [hmac.compare_digest(given, each.encode()) and now < end for each, end in self._until.items()]
        return any(same)

    def adopt(self, path: str) -> None:
        """Accept the token that the API server uses now, as an earlier leader has written it."""
        found = TOKEN_PATH.fullmatch(path)
        if found is not None:
            self._until.setdefault(found[1], math.inf)

    def path(self) -> str:
        """Return the path for the webhooks, with a valid token that changes when it is old."""
        if self._monotonic() >= self._old_at:
            self._newest = secrets.token_hex(_BYTES)
            self._until[self._newest] = math.inf
            self._old_at = self._monotonic() + TOKEN_LIFETIME
        return f"{ADMISSION_PATH}/{self._newest}"

    def written(self) -> None:
        """Note that the API server has the newest token: all others stay valid only for a while."""
        now = self._monotonic()
        ends = {each: min(end, now + OVERLAP) for each, end in self._until.items() if end > now}
        self._until = ends | {self._newest: math.inf}
