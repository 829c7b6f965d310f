"""The peer: a bare Kopf handler that says Active=True to every Reservation and decides nothing.

Kopf's own settings, one write a lock: the least that any operator built on Kopf needs for such an answer.
"""

from datetime import UTC, datetime
from typing import Any

import kopf


@kopf.on.event("tidelock.dev", "v1alpha1", "reservations")
async def activate(status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    """Say that the lock is active, unless that is said already."""
    if not status.get("conditions"):
        patch.status["conditions"] = [
            {
                "type": "Active",
                "status": "True",
                "reason": "Admitted",
                "message": "",
                "lastTransitionTime": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        ]
