"""The role of a process, which every page shows."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The role of a process in the cluster at an instant.

    Attributes:
        state: `starting` until the cluster is read, `standby` while another leads.
        instance: name of this process.
        leader: identity of the leader, as far as is known, or empty without an election.
        epoch: number of this process' leadership.
        silence: seconds since the last data from the API server, if that is too long ago, otherwise 0.

    """

    state: Literal["starting", "standby", "leading"]
    instance: str
    leader: str
    epoch: int = 0
    silence: int = 0
