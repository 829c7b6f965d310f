"""The peer, a bare Kopf handler that answers every Reservation with Active=True and decides nothing.

It has Kopf's own settings and one write per reservation, the least that any operator built on Kopf needs.
"""

from datetime import UTC, datetime
from typing import Any

import kopf


@kopf.on.event("tidelock.dev", "v1alpha1", "reservations")
async def activate(status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    """Write that the reservation is active, unless its status has conditions."""
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
