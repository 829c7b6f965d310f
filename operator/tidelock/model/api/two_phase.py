"""Wire types of a reservation in two phases: prepared when it is active, kept once it is committed."""

from typing import Annotated

from pydantic import Field

from tidelock.model.api.wire import LARGEST_INTEGER, YEAR_SECONDS, StatusWire, Timestamp, Wire

_Token = Annotated[str, Field(min_length=1, max_length=256)]


class Commit(Wire):
    """Two-phase commit: the reservation ends unless its holder commits it in time."""

    within_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] = 30
    """Time in seconds for which the granted capacity is held for a commit. It can't be changed."""
    token: _Token | None = None
    """Token that commits the hold with the same status.commit.token. Another token commits nothing."""


class CommitStatus(StatusWire):
    """State of the commit of the current hold, or of the last one."""

    holds: Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
    """Number of times that the reservation got capacity after it had none. Each of these holds has a separate
    token."""
    token: _Token | None = None
    """Token that commits the current hold. Absent while no capacity is held."""
    due_at: Timestamp | None = None
    """Time at which the hold ends unless it is committed."""
    committed_at: Timestamp | None = None
    """Time at which the operator saw the commit. Absent before the commit."""
