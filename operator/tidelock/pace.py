"""The pace of a process: periods that are no settings, as no installation needs others.

Tests choose shorter ones, because they wait for the effects.
"""

from dataclasses import dataclass, field

from tidelock.kube.watch import WatchSettings
from tidelock.ledger.queue.waiting import REFUSAL_RENEWAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Periods of one process, in seconds.

    Attributes:
        watches: settings of all watches.
        serving: from the launch until probes are answered, even if decisions have not begun.
        refusal_renewal: between two texts or positions in the status of a reservation that waits. Each event
            of a busy cluster would otherwise rewrite the status of every waiting one.
        migration_plan: between two searches for a plan that moves pods for a reservation.
        gate_renewal: between two texts to a gated pod.
        kopf_retry: from the first failure of Kopf to its next start. Each further failure doubles it.
        kopf_working: from the start of Kopf until its list and watch have surely succeeded: it repeats a
            request that is refused once.
        kopf_calm: of work, after which the next failure of Kopf is not counted with those before.
        garbage_collection: between two searches for annotations without a WaterLevel.
        other_leaders: between two searches for other leaders.
        webhooks: between two comparisons of the webhooks that exist with those that are served.
        certificate_check: between two checks of the certificate for other binders and of their endpoint.
        certificate_retry: from a failure of such a check to the next one.

    """

    watches: WatchSettings = field(default_factory=WatchSettings)
    serving: float = 2.0
    refusal_renewal: float = REFUSAL_RENEWAL
    migration_plan: float = 10.0
    gate_renewal: float = 10.0
    kopf_retry: float = 1.0
    kopf_working: float = 5.0
    kopf_calm: float = 60.0
    garbage_collection: float = 15.0
    other_leaders: float = 15.0
    webhooks: float = 15.0
    certificate_check: float = 60.0
    certificate_retry: float = 2.0


PACE = Pace()
"""The pace of every installation."""
