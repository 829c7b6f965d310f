"""The nodes of a parsed expression."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidelock.cel.errors import ExpressionError

MAX_DEPTH = 250
"""Levels of a syntax tree, as in cel-go. The compiler recurses once or twice a level."""


@dataclass(eq=False, slots=True, kw_only=True)
class Node:
    """A part of an expression. `size` is its number of nodes, and `depth` the longest way to a leaf."""

    position: int
    depth: int = field(default=1, init=False)
    size: int = field(default=1, init=False)

    def adopt(self, children: Sequence["Node"]) -> None:
        """Derive depth and size from the children. Raises ExpressionError if the tree is too deep."""
        for child in children:
            if child.depth >= self.depth:  # faster than `max`, and trees have thousands of nodes
                self.depth = child.depth + 1
            self.size += child.size
        if self.depth > MAX_DEPTH:
            raise ExpressionError(f"at {self.position}: more than {MAX_DEPTH} levels of nested expressions")


@dataclass(eq=False, slots=True)
class Literal(Node):
    """A constant."""

    value: object


@dataclass(eq=False, slots=True)
class Identifier(Node):
    """A variable or the name of a type."""

    name: str


@dataclass(eq=False, slots=True)
class Select(Node):
    """A field: `operand.name`, `operand.?name`, or its test `has(operand.name)`."""

    operand: Node
    name: str
    optional: bool = False
    test: bool = False

    def __post_init__(self) -> None:
        self.adopt([self.operand])


@dataclass(eq=False, slots=True)
class Call(Node):
    """A function or operator with its arguments. The first argument of a method is its target."""

    function: str
    arguments: list[Node]
    method: bool = False

    def __post_init__(self) -> None:
        self.adopt(self.arguments)


@dataclass(eq=False, slots=True)
class ListLiteral(Node):
    """A list. `optional` has the indices of the elements that begin with a question mark."""

    elements: list[Node]
    optional: frozenset[int]

    def __post_init__(self) -> None:
        self.adopt(self.elements)


@dataclass(eq=False, slots=True)
class MapLiteral(Node):
    """A map. `optional` has the indices of the entries that begin with a question mark."""

    keys: list[Node]
    values: list[Node]
    optional: frozenset[int]

    def __post_init__(self) -> None:
        self.adopt([*self.keys, *self.values])


@dataclass(eq=False, slots=True)
class Comprehension(Node):
    """A macro over a list or map, such as `all` and `filter`, with one variable or two.

    The macros that only name a value, `cel.bind`, `optMap` and `optFlatMap`, are comprehensions of one turn.
    """

    macro: str
    target: Node
    variables: tuple[str, ...]
    condition: Node | None
    body: Node

    def __post_init__(self) -> None:
        self.adopt([each for each in (self.target, self.condition, self.body) if each is not None])
