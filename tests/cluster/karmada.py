"""The example of docs/karmada.md, for any client that can ask its questions."""

import re
from collections.abc import Callable, Mapping

from documents import ROOT, page_block

PAGE = ROOT / "docs" / "karmada.md"
REPLICAS = "replicas of 1 core"
ASSUMED = "replicas of 1 core, with an assumed workload of 500m"
SETS = "sets of one replica of 1 core and one of 500m"
ELSEWHERE = "replicas of 1 core on nodes with another label"


def example() -> Mapping[str, tuple[int, int]]:
    """Return the answers to each question of the page, before its reservation and beside it."""
    rows = re.findall(r"^\| ((?:replicas|sets) of .+?) \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE)
    return {question: (int(before), int(beside)) for question, before, beside in rows}


def reserved_cpu() -> str:
    """Return the amount that the reservation of the page holds."""
    (reservation,) = page_block(PAGE, "reservation.yaml").documents
    cpu: str = reservation["spec"]["resources"]["cpu"]
    return cpu


def ask_all(ask: Callable[[str], int], column: int) -> None:
    """Ask all questions of the page, and compare the answers with a column of its table."""
    expected = {question: answers[column] for question, answers in example().items()}
    assert expected.keys() == {REPLICAS, ASSUMED, SETS, ELSEWHERE}
    assert {question: ask(question) for question in expected} == expected
