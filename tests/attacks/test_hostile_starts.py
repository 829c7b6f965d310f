"""Objects at the end of what the API takes, when an operator starts or takes over: none leads before."""

from attacks.hostile import ATTACKS, attacked
from attacks.operators import Replica, until_led
from attacks.tenant import Canary, Tenant


def test_others_are_served_after_a_start_and_a_take_over_beside_all_of_them(
    replica: Replica, tenant_a: Tenant, canary: Canary
) -> None:
    """Where an object ended the operator, it ended each next one too, and each that stood by."""
    first, second = replica("first"), replica("second")
    until_led(first)
    for number, attack in enumerate(ATTACKS.values()):
        attack(tenant_a, attacked(tenant_a, str(number)))
    canary.answered()

    assert first.stop() == 0
    until_led(second)
    canary.answered()

    assert second.stop() == 0
    first.start()
    first.ready()
    canary.answered()
    assert first.running
