"""All functions that an expression may call, and the names of types that it may mention."""

from tidelock.cel import access, operators
from tidelock.cel.functions import by_name
from tidelock.cel.libraries import amounts, formats, lists, network, patterns, strings, times
from tidelock.cel.values import TypeValue

OVERLOADS = by_name(
    (
        *access.OVERLOADS,
        *operators.OVERLOADS,
        *times.OVERLOADS,
        *strings.OVERLOADS,
        *patterns.OVERLOADS,
        *lists.OVERLOADS,
        *amounts.OVERLOADS,
        *network.OVERLOADS,
        *formats.OVERLOADS,
    )
)
"""The functions by name, whether they are methods, and their number of arguments."""

QUALIFIED = frozenset(name for name, _, _ in OVERLOADS if "." in name)
"""The names of functions in namespaces, which look like methods of a variable: `sets.contains`."""

FUNCTION_NAMES = frozenset(name for name, _, _ in OVERLOADS)

TYPES = {
    name: TypeValue(name)
    for name in (
        *(
            "bool",
            "bytes",
            "double",
            "int",
            "list",
            "map",
            "null_type",
            "optional_type",
            "string",
            "type",
            "uint",
        ),
        *("google.protobuf.Duration", "google.protobuf.Timestamp"),
    )
}
"""The types that are values of an expression, by name."""
