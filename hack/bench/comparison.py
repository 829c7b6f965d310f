"""The results of Tidelock and kube-scheduler in the same scenario, side by side."""

from dataclasses import dataclass, field

from bench.figures import Figure, table
from bench.rounds import Round, figures
from bench.scenarios import Scenario

PEER = "kube-scheduler"


@dataclass
class Comparison:
    """The results of both programs in a scenario.

    Attributes:
        name: the scenario's name, for programs.
        title: the scenario's title, for people.
        tidelock: Tidelock's figures.
        kube_scheduler: the peer's figures, with the same names.
        bare: bindings a second without any decision, at the start and the end. Empty if not measured.
        note: why there are no figures. Empty if there are.
        faults: a text for each fault.

    """

    name: str
    title: str
    tidelock: list[Figure]
    kube_scheduler: list[Figure]
    bare: list[float] = field(default_factory=list)
    note: str = ""
    faults: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, scenario: Scenario) -> "Comparison":
        """Prepare for the rounds of a scenario."""
        return cls(scenario.name, scenario.title, figures(scenario), figures(scenario))

    @property
    def measured(self) -> bool:
        """Whether any pair of rounds was measured."""
        return bool(self.tidelock[0].values)

    @property
    def text(self) -> str:
        """The whole comparison as text."""
        shown = table(self.tidelock, self.kube_scheduler, PEER) if self.measured else ""
        bare = " and ".join(f"{rate:.0f}" for rate in self.bare)
        ceiling = f"Bindings without any decision: {bare} a second." if bare else ""
        return "\n".join(["", self.title, *filter(None, (self.note, shown, ceiling)), *self.faults])

    def add(self, ours: Round, peers: Round) -> None:
        """Add a pair of rounds."""
        for rows, result in ((self.tidelock, ours), (self.kube_scheduler, peers)):
            for figure in rows:
                figure.add(result.values[figure.name], result.load)
        self.faults += [*ours.faults, *peers.faults]
