"""The faults that tests plant in a running operator. Each names a method of the operator."""

import pytest

from attacks.planted import STEPS


@pytest.mark.parametrize(("owner", "method"), [step[:2] for step in STEPS])
def test_each_planted_fault_has_a_method(owner: object, method: str) -> None:
    assert callable(getattr(owner, method))
