"""The handlers in Kopf's registry, by the names of their functions."""

from collections.abc import Callable
from typing import Any

import kopf


def handlers(registry: kopf.OperatorRegistry) -> dict[str, Any]:
    """Return the handlers, each with its `fn` and, for events, `when` and `selector`."""
    found = (*registry._activities.get_all_handlers(), *registry._watching.get_all_handlers())
    return {handler.fn.__name__: handler for handler in found}


def function(registry: kopf.OperatorRegistry, name: str) -> Callable[..., Any]:
    """Return the function of one handler."""
    fn: Callable[..., Any] = handlers(registry)[name].fn
    return fn
