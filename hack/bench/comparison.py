"""The results of Tidelock and kube-scheduler in the same scenario, side by side."""

from dataclasses import dataclass, field
from statistics import mean

from bench.figures import Figure, pair_ratios, table
from bench.record import Record
from bench.rounds import Round, figures
from bench.scenarios import Scenario

PEER = "kube-scheduler"
SHARE = 0.8  # of the bare client's rate at least


@dataclass
class Comparison:
    """The results of both programs in a scenario.

    Attributes:
        scenario: the scenario.
        tidelock: Tidelock's figures.
        kube_scheduler: the peer's figures, with the same names.
        bare: pods a second of the bare client, at the start and the end. Empty if not measured.
        note: why there are no figures. Empty if there are.
        faults: a text for each fault.

    """

    scenario: Scenario
    tidelock: list[Figure] = field(init=False)
    kube_scheduler: list[Figure] = field(init=False)
    bare: list[float] = field(default_factory=list)
    note: str = ""
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Prepare for the rounds of the scenario."""
        self.tidelock, self.kube_scheduler = figures(self.scenario), figures(self.scenario)

    @property
    def measured(self) -> bool:
        """Whether any pair of rounds was measured."""
        return bool(self.tidelock[0].values)

    @property
    def text(self) -> str:
        """The whole comparison as text."""
        shown = table(self.tidelock, self.kube_scheduler, PEER) if self.measured else ""
        parts = (self.note, shown, self._floor)
        return "\n".join(["", self.scenario.title, *filter(None, parts), *self.faults])

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

    @property
    def ratios(self) -> list[Figure]:
        """The ratio of each pair of rounds, over 1 where Tidelock is better. One figure may have a target."""
        goals = dict([self.scenario.goal]) if self.scenario.goal else {}
        return [
            Figure(
                ours.name,
                "",
                goals.get(ours.name),
                more_is_better=True,
                values=pair_ratios(ours, peers),
                loads=ours.loads,
            )
            for ours, peers in zip(self.tidelock, self.kube_scheduler, strict=True)
        ]

    def record(self, record: Record) -> None:
        """Add the results to a record."""
        key = f"{self.scenario.name}-{self.scenario.nodes}"
        for program, shown in (("", self.tidelock), (PEER, self.kube_scheduler), ("better by", self.ratios)):
            record.add(shown, self.scenario.title, program, key)
        if self.bare and self.measured:
            bare = Figure("bare client", "pods/s", values=self.bare)
            shares = [rate / mean(self.bare) for rate in self.tidelock[0].values]
            loads = self.tidelock[0].loads
            share = Figure(
                "share of the bare client", "", SHARE, more_is_better=True, values=shares, loads=loads
            )
            record.add([bare, share], self.scenario.title, key=key)
        record.faults += self.faults

    def add(self, ours: Round, peers: Round) -> None:
        """Add a pair of rounds."""
        for rows, result in ((self.tidelock, ours), (self.kube_scheduler, peers)):
            for figure in rows:
                figure.add(result.values[figure.name], result.load)
        self.faults += [*ours.faults, *peers.faults]
