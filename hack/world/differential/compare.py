"""Runs sequences against both servers and compares all answers and events."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from world.differential.differences import leveled
from world.differential.normal import Normal
from world.differential.sequences import LAST, Sequence
from world.differential.sides import InMemory, Real, Received, Side
from world.differential.steps import Memory, Step

Json = dict[str, Any]

_CODES = "code"
_PATIENCE, _PAUSE = 100, 0.1  # repetitions of a step that waits, and the seconds between two
_LONGEST = 700  # characters of a value
_SHOWN = 5  # differences of one step


@dataclass(frozen=True)
class Mismatch:
    """A step with different answers."""

    sequence: str
    number: int
    step: Step
    real: Any
    own: Any

    def __str__(self) -> str:
        """Return the step, and the parts of both answers that differ."""
        step = self.step
        lines = [
            f"sequence {self.sequence}, step {self.number}: {step.method} {step.path} {dict(step.query)}",
            f"  body {step.content_type}: {str(step.body)[:600]}",
        ]
        found = list(difference(self.real, self.own))
        for path, real, own in found[:_SHOWN]:
            lines.append(f"  {path or 'all'}: real {_short(real)}, own {_short(own)}")
        if len(found) > _SHOWN:
            lines.append(f"  and {len(found) - _SHOWN} more")
        return "\n".join(lines)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < _LONGEST else f"{text[:_LONGEST]}…"


class _Absent:
    def __repr__(self) -> str:
        return "absent"


def difference(real: Any, own: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths at which two values differ, with both values."""
    if isinstance(real, dict) and isinstance(own, dict):
        for name in sorted({*real, *own}):
            yield from difference(real.get(name, "(absent)"), own.get(name, "(absent)"), f"{path}.{name}")
    elif isinstance(real, list) and isinstance(own, list) and len(real) == len(own):
        for index, (left, right) in enumerate(zip(real, own, strict=True)):
            yield from difference(left, right, f"{path}[{index}]")
    elif real != own or type(real) is not type(own):
        yield path, real, own


def _run(side: Side, steps: list[Step]) -> list[Received]:
    memory, answers = Memory(), []
    for step in steps:
        sent = memory.sent(step)
        if step.events:
            answers.append(Received(200, side.events(sent.target, _is_last)))
            continue
        answer = side.send(sent)
        for _ in range(_PATIENCE):
            if not step.until or answer.code == step.until:
                break
            time.sleep(_PAUSE)
            answer = side.send(sent)
        memory.learn(step, answer.body)
        answers.append(answer)
    return answers


def _is_last(event: Json) -> bool:
    name = (event["object"].get("metadata") or {}).get("name", "")
    return bool(name.endswith(LAST)) and event["type"] == "ADDED"


def _normal(steps: list[Step], answers: list[Received]) -> list[Json]:
    normal = Normal()
    for answer in answers:
        normal.note(answer.body)
    return [
        {_CODES: answer.code, "body": leveled(step, normal.rename(_without_bookmarks(answer.body)))}
        for step, answer in zip(steps, answers, strict=True)
    ]


def _without_bookmarks(body: Any) -> Any:
    if not isinstance(body, list):
        return body
    return [
        each
        if each["type"] != "BOOKMARK"
        else {"type": "BOOKMARK", "annotations": each["object"]["metadata"].get("annotations")}
        for each in body
        if each["type"] != "BOOKMARK" or each["object"]["metadata"].get("annotations")
    ]


def compare(seed: int | str, real: Real, prefix: str) -> list[Mismatch]:
    """Run one sequence against both servers, and return the steps with different answers."""
    return compare_steps(str(seed), list(Sequence(seed, f"{prefix}-{seed}").steps()), real)


def compare_steps(name: str, steps: list[Step], real: Real) -> list[Mismatch]:
    """Run given steps against both servers, and return those with different answers."""
    own = InMemory(time.time)
    own.server.storage.revision = own.server.storage.compacted = 10**9
    pairs = zip(steps, _normal(steps, _run(real, steps)), _normal(steps, _run(own, steps)), strict=True)
    return [
        Mismatch(name, number, step, theirs, ours)
        for number, (step, theirs, ours) in enumerate(pairs)
        if theirs != ours
    ]
