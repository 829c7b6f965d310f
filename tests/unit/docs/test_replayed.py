"""Each command of README and docs is replayed by a test in its order, or has a reason why it is not."""

from collections.abc import Iterator

import pytest

from documents import ROOT, Block, Command, blocks, commands, page_blocks
from replayed import EXAMPLES, NOT_REPLAYED, NOT_REPLAYED_OUTPUTS, example, is_replayed, reason

SHOWN = [block for block in blocks() if block.language in {"sh", "console"}]


def page(block: Block) -> str:
    return str(block.page.relative_to(ROOT))


def not_replayed(language: str) -> Iterator[tuple[Block, Command]]:
    for block in SHOWN:
        if block.language == language and not is_replayed(block):
            yield from ((block, command) for command in commands(block))


def test_each_command_is_replayed_or_has_a_reason() -> None:
    assert [str(command) for _, command in not_replayed("sh") if not reason(command)] == []


def test_each_output_is_replayed_or_has_a_reason() -> None:
    assert {page(block) for block, _ in not_replayed("console")} == set(NOT_REPLAYED_OUTPUTS)


def test_each_reason_is_needed() -> None:
    needed = {reason(command) for _, command in not_replayed("sh")}
    assert [each for each in NOT_REPLAYED if NOT_REPLAYED[each] not in needed] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_page_with_an_example_has_commands_with_output(name: str) -> None:
    assert any(
        is_replayed(block) and block.language == "console" for block in page_blocks(ROOT / example(name))
    )
