"""The policies that are compared: each is a profile of the scheduler's real plugins.

A policy that goes by measured use takes the place of the scores of requests (NodeResourcesFit and
NodeResourcesBalancedAllocation); all filters, and all other scores, are those of the default profile.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import MAX_NODE_SCORE, Handle, Score, Scores
from tidelock.framework.config import Configuration
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.profile import Enabled, PluginSet, ProfileSettings
from tidelock.model.pods import Pod
from tidelock.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tidelock.plugins.node_resources_fit import NodeResourcesFit
from tidelock.plugins.registry import BUILTINS
from tidelock.simulation.cluster import SCHEDULER

_BY_REQUESTS = frozenset({NodeResourcesFit.name, NodeResourcesBalancedAllocation.name})


class RandomScore(Score):
    """Any node is as good as another; args: the seed."""

    name: ClassVar[str] = "RandomScore"

    def __init__(self, handle: Handle, args: dict[str, Any]) -> None:
        super().__init__(handle, {})
        self._rng = np.random.default_rng(args["seed"])

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Draw a score for each node."""
        return self._rng.uniform(0, MAX_NODE_SCORE, len(rows))


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy by its name.

    Attributes:
        name: what it is called in tables.
        about: one line on what it does.
        scores: its plugins that score, with weights, beside those of the default profile.
        filters: its plugins that rule nodes out.
        args: what its plugins are configured by.
        by_requests: whether the default scores of requests count too.
        measures: whether it goes by measured use, which is then shown to it.

    """

    name: str
    about: str
    scores: Mapping[str, int] = field(default_factory=dict)
    filters: tuple[str, ...] = ()
    args: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    by_requests: bool = False
    measures: bool = True

    def configuration(self, seed: int) -> Configuration:
        """Give the scheduler's configuration; the seed is for what is drawn at random."""
        extra = tuple(Enabled(name, weight) for name, weight in self.scores.items())
        return Configuration(
            profiles=(
                ProfileSettings(
                    SCHEDULER,
                    enabled=(*BUILTINS.defaults, *extra),
                    points={"score": PluginSet(disabled=frozenset() if self.by_requests else _BY_REQUESTS)},
                    args={**self.args, RandomScore.name: {"seed": seed}},
                    kept=BUILTINS.kept,
                ),
            ),
            registry={**BUILTINS.registry, RandomScore.name: RandomScore},
        )


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("random", "any node that fits", {RandomScore.name: 1000}, measures=False),
        Policy("default", "the default profile, which goes by requests", by_requests=True, measures=False),
    )
}
