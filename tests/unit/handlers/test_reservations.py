import kopf

from builders import NAMESPACE, node
from tidelock.handlers import reservations
from tidelock.kube.client import RESERVATIONS
from unit.handlers.registered import handlers
from unit.scheduler.machinery import Shell

NAMES = {"namespace": NAMESPACE, "name": "lock"}


async def test_an_object_that_is_not_as_it_ought_to_be_is_put_right() -> None:
    shell, registry = Shell(node("node-a")), kopf.OperatorRegistry()
    reservations.register(registry, RESERVATIONS, shell.publisher)
    (handler,) = handlers(registry).values()
    shell.store_lock()
    shell.step()
    assert handler.when(**NAMES)

    await handler.fn(**NAMES)
    await shell.settle()

    assert shell.stored_status()["phase"] == "Active"
    assert not handler.when(**NAMES)


async def test_an_object_that_the_ledger_does_not_know_is_left_alone() -> None:
    shell, registry = Shell(), kopf.OperatorRegistry()
    reservations.register(registry, RESERVATIONS, shell.publisher)
    (handler,) = handlers(registry).values()

    assert not handler.when(namespace=None, name=None)
    await handler.fn(**NAMES)
    assert shell.api.asked == []


async def test_the_handler_looks_at_reservations_and_leaves_no_finalizer() -> None:
    registry = kopf.OperatorRegistry()
    reservations.register(registry, RESERVATIONS, Shell().publisher)
    (handler,) = handlers(registry).values()

    selector = handler.selector
    assert (selector.group, selector.any_name) == ("tidelock.dev", "reservations")
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
