"""The results of Tidelock and kube-scheduler in the same scenario, side by side."""

from dataclasses import dataclass, field
from statistics import mean

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
        bare: pods a second of the bare client, at the start and the end. Empty if not measured.
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
        return "\n".join(["", self.title, *filter(None, (self.note, shown, self._floor)), *self.faults])

    @property
    def _floor(self) -> str:
        """The bare client's rates, and the rates of both programs as shares of their mean."""
        if not (self.bare and self.measured):
            return ""
        rates = " and ".join(f"{rate:.0f}" for rate in self.bare)
        ours, peers = (rows[0].typical / mean(self.bare) for rows in (self.tidelock, self.kube_scheduler))
        return (
            f"A bare client with the same bindings and events: {rates} pods/s. "
            f"Tidelock reaches {ours:.2f} of it, {PEER} {peers:.2f}."
        )

    def add(self, ours: Round, peers: Round) -> None:
        """Add a pair of rounds."""
        for rows, result in ((self.tidelock, ours), (self.kube_scheduler, peers)):
            for figure in rows:
                figure.add(result.values[figure.name], result.load)
        self.faults += [*ours.faults, *peers.faults]
