"""The command `tidelock` at a quicker pace, for tests that wait for its effects."""

import sys

from tidelock.kube.watch import WatchSettings
from tidelock.main import main
from tidelock.pace import Pace

QUICK = Pace(
    watches=WatchSettings(longest_retry=1.0, refused_retry=0.5),
    serving=0.0,
    refusal_renewal=0.5,
    gate_renewal=0.5,
    kopf_retry=0.2,
    kopf_working=2.0,  # Kopf repeats a refused request after a second
    garbage_collection=1.0,
    other_leaders=1.0,
    certificate_check=1.0,
    certificate_retry=0.2,
)
"""A pace at which nothing is written or asked for more than twice a second."""

if __name__ == "__main__":
    sys.exit(main(pace=QUICK))
