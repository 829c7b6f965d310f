"""Measures the English of docstrings and comments: python -m prose.

Prints how often each pattern occurs per 1,000 words, for each package of operator/tidelock, hack, tests and
docs/examples. The exit status is 1 when a package exceeds a limit. The patterns are habits in which the code
once differed most from other Python projects. The limits are twice the rates of kopf, measured in the same
way.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

_PROJECT = Path(__file__).parents[1]
ROOTS: Mapping[str, Path] = MappingProxyType(
    {
        "": _PROJECT / "operator" / "tidelock",
        "hack/": _PROJECT / "hack",
        "tests/": _PROJECT / "tests",
        "examples/": _PROJECT / "docs" / "examples",
    }
)
"""The folders of the measured packages, by the prefix of the packages' names."""


class Pattern(NamedTuple):
    """A habit, and how many occurrences per 1,000 words are allowed."""

    name: str
    expression: re.Pattern[str]
    limit: float


# kopf has 0.52 free "what", 0.11 "who" and 2.42 semicolons per 1,000 words. It has none or nearly none of the
# other patterns: each of those gets a small allowance, since it has a rare good use.
PATTERNS = (
    Pattern("what", re.compile(r"(?<!know )\bwhat\b(?! if\b)", re.IGNORECASE), 1.04),
    Pattern("who", re.compile(r"\b(who|whom|whoever|whose)\b", re.IGNORECASE), 0.22),
    Pattern("nobody", re.compile(r"\b(nobody|somebody)\b", re.IGNORECASE), 0.2),
    Pattern("tell", re.compile(r"\b(tell|tells|told)\b", re.IGNORECASE), 0.2),
    Pattern("is to", re.compile(r"\b(is|are|was|were) to (be|have)\b|\bought\b", re.IGNORECASE), 0.4),
    Pattern("anew", re.compile(r"\banew\b|, else\b", re.IGNORECASE), 0.2),
    Pattern("semicolon", re.compile(r";"), 4.84),
)
# A single occurrence never fails a package: in a short one it would already exceed the rate.
_ALWAYS_ALLOWED = 1


class Prose(NamedTuple):
    """The docstrings and comments of one package, counted."""

    words: int
    found: Counter[str]

    def rate(self, pattern: Pattern) -> float:
        """Return the occurrences of a pattern per 1,000 words."""
        return 1000 * self.found[pattern.name] / max(self.words, 1)

    def exceeds(self, pattern: Pattern) -> bool:
        """Return whether a pattern occurs more often than its limit allows."""
        return self.found[pattern.name] > _ALWAYS_ALLOWED and self.rate(pattern) > pattern.limit


def passages(source: str) -> Iterator[str]:
    """Yield each docstring of a module, including those of attributes, and each comment."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def measure(texts: Iterator[str]) -> Prose:
    """Count the words of texts, and the patterns in them."""
    words, found = 0, Counter[str]()
    for text in texts:
        words += len(re.findall(r"[A-Za-z']+", text))
        found.update({each.name: len(each.expression.findall(text)) for each in PATTERNS})
    return Prose(words, found)


def packages(roots: Mapping[str, Path] = ROOTS) -> dict[str, list[Path]]:
    """Return the modules of each package by its folder's path. A top-level module stands for itself."""
    modules: dict[str, list[Path]] = {}
    for prefix, root in roots.items():
        for path in sorted(root.rglob("*.py")):
            name = path.parent.relative_to(root).as_posix()
            modules.setdefault(prefix + (path.stem if name == "." else name), []).append(path)
    return modules


def main() -> int:
    """Print the rates of each package, and name the packages that exceed a limit."""
    print(f"{'per 1,000 words':<40}{'words':>7}" + "".join(f"{each.name:>10}" for each in PATTERNS))
    failures = []
    for name, paths in packages().items():
        prose = measure(text for path in paths for text in passages(path.read_text()))
        if not prose.words:
            continue
        rates = "".join(f"{prose.rate(each):>9.2f}{'*' if prose.exceeds(each) else ' '}" for each in PATTERNS)
        print(f"{name:<40}{prose.words:>7}{rates.rstrip()}")
        failures += [
            f"{name}: {each.name} {prose.rate(each):.2f} of at most {each.limit:.2f}"
            for each in PATTERNS
            if prose.exceeds(each)
        ]
    print(f"{'limit':<47}" + "".join(f"{each.limit:>9.2f} " for each in PATTERNS).rstrip())
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
