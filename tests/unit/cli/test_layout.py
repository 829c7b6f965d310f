import pytest

from tidelock.cli.layout import UNBOUNDED, cells, clipped, fit, folded, shortened, table_lines
from unit.cli.clouds import AKS, EKS, GKE


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        (EKS[0], 44, EKS[0]),
        (EKS[0], 43, "ip-10-0-133-27.…"),
        (EKS[0], 16, "ip-10-0-133-27.…"),
        (EKS[0], 12, "ip-…-133-27"),
        (GKE[0], 24, "gke-…-1-a1b2c3d4-x9z8"),
        (GKE[0], 12, "gke-…-x9z8"),
        (AKS[0], 20, "aks-…-vmss000001"),
        (AKS[0], 10, "aks-nodep…"),
        ("web", 1, "…"),
    ],
)
def test_a_name_is_shortened_to_its_most_telling_part(name: str, width: int, expected: str) -> None:
    assert shortened(name, width) == expected
    assert cells(expected) <= width


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("no capacity on any node", 23, "no capacity on any node"),
        ("no capacity on any node", 22, "no capacity on any…"),
        ("no capacity on any node", 16, "no capacity on…"),
        ("InsufficientCapacity: 0/4", 22, "InsufficientCapacity…"),
        ("InsufficientCapacity: 0/4", 10, "Insuffici…"),
        ("日本語 日本語", 9, "日本語…"),
    ],
)
def test_a_text_is_cut_behind_a_word(text: str, width: int, expected: str) -> None:
    assert clipped(text, width) == expected
    assert cells(expected) <= width


def test_a_text_is_folded_between_words_only() -> None:
    text = "kubectl apply --server-side -k mounted/crds"
    assert folded(text, 20) == ["kubectl apply", "--server-side -k", "mounted/crds"]
    assert folded("x" * 30, 20) == ["x" * 30]
    assert folded(text * 1000, UNBOUNDED) == [text * 1000]
    assert folded("", 20) == [""]


HEADS = ("NAME", "NODE", "AGE", "WHY")


def test_columns_are_left_out_then_names_shortened_then_texts_cut() -> None:
    def places(width: int) -> tuple[int, ...]:
        found = fit(HEADS, (10, 40, 5, 90), width=width, optional=("AGE",), names=("NODE",), gap=3)
        assert sum(found.widths) + 3 * (len(found.widths) - 1) <= width
        return found.places

    assert places(200) == places(88) == (0, 1, 2, 3)
    assert places(87) == places(60) == (0, 1, 3)


def joined(lines: list[list[str]]) -> list[str]:
    return ["".join(line) for line in lines]


def test_a_long_last_text_is_folded_below_its_column_or_below_its_row() -> None:
    row = ["web", "node-a", "1s", "one two three four five six seven eight nine ten eleven"]
    wide = joined(table_lines(HEADS, [row], width=60))
    assert wide == [
        "NAME  NODE    AGE  WHY",
        "web   node-a  1s   one two three four five six seven eight",
        "                   nine ten eleven",
    ]
    narrow = joined(table_lines(HEADS, [row], width=40))
    assert narrow == [
        "NAME  NODE    AGE  WHY",
        "web   node-a  1s",
        "    one two three four five six seven",
        "    eight nine ten eleven",
    ]
    assert joined(table_lines(HEADS, [row], width=40, fold=False))[1:] == [
        "web   node-a  1s   one two three four…"
    ]


def test_a_row_can_be_a_text_across_all_columns() -> None:
    rows: list[list[str] | str] = ["two nodes:", ["web", "node-a", "1s", ""]]
    assert joined(table_lines(HEADS, rows)) == [
        "NAME   NODE     AGE   WHY",
        "two nodes:",
        "web    node-a   1s",
    ]
