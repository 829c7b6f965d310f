import json
from pathlib import Path

from faults.creations import Granted
from faults.histories import HistoryBuilder
from faults.observations import Delivery, Passed
from faults.plan import make_plan
from faults.verdict import Evidence, Verdict, read
from faults.world import Circumstances


def test_a_file_keeps_all_that_the_checker_needs_to_judge_again(tmp_path: Path) -> None:
    history = HistoryBuilder()
    history.node()
    history.reservation()
    history.bound("db")
    known = Circumstances(
        asked=[Passed("bind", "db", history.clock)],
        foreign={"stranger"},
        deleted={"lock-0"},
        peaks=[(1.0, 2.0)],
        deliveries=[Delivery("pods", 7, False, 3.0)],
        crashes=[4.0],
        granted=[Granted("lock", 5.0)],
    )
    evidence = Evidence(known, history.changes, ["at 1.00: it began"])
    verdict = Verdict(make_plan(17), evidence.judged(), ["fired:"], evidence)
    assert any("overcommitted" in each for each in verdict.violations)

    file = verdict.keep(tmp_path)
    assert file.name.startswith("seed-17-")
    assert read(file) == evidence
    assert read(file).judged() == verdict.violations
    told = json.loads(file.read_text())
    assert (told["violations"], told["plan"]) == (verdict.violations, str(make_plan(17)).splitlines())
