"""Wire types of a lock in two phases: prepared when it is active, kept once its holder has committed it."""

from typing import Annotated

from pydantic import Field

from tidelock.model.api.wire import LARGEST_INTEGER, YEAR_SECONDS, StatusWire, Timestamp, Wire

_Token = Annotated[str, Field(min_length=1, max_length=256)]


class Commit(Wire):
    """Has the lock end unless its holder commits it soon."""

    within_seconds: Annotated[int, Field(ge=1, le=YEAR_SECONDS)] = 30
    """How long room that the lock has got is held for a commit; can't be changed."""
    token: _Token | None = None
    """Commits the hold that has this token in status.commit.token; another one commits nothing."""


class CommitStatus(StatusWire):
    """How the room that is held, or was held last, is committed."""

    holds: Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
    """How many times the lock has got room, after it had none; each of these holds has a token of its own."""
    token: _Token | None = None
    """What commits this hold; absent while no room is held."""
    due_at: Timestamp | None = None
    """When the hold ends unless it is committed."""
    committed_at: Timestamp | None = None
    """When the operator saw the commit; absent while there is none."""
