"""What owners use of locks for reuse, by their rooms and what they take."""

from tidelock.ledger.capacity.usage import Claimant, left_of, shared_out


def test_an_owner_uses_its_lock_as_far_as_that_goes() -> None:
    room = {"cpu": 2000, "memory": 64}
    uses = shared_out([room], [Claimant({"cpu": 3000, "gpu": 1}, [0])])
    assert uses == [{0: {"cpu": 2000}}]
    assert left_of(room, uses[0]) == {"memory": 64}


def test_several_owners_share_a_lock() -> None:
    room = {"cpu": 5000}
    uses = shared_out([room], [Claimant({"cpu": 2000}, [0])] * 2)
    assert left_of(room, uses[0]) == {"cpu": 1000}


def test_an_owner_that_has_the_choice_makes_way_for_one_that_has_not() -> None:
    holdings = [{"cpu": 2000}, {"cpu": 2000}]
    uses = shared_out(holdings, [Claimant({"cpu": 2000}, [0, 1]), Claimant({"cpu": 2000}, [0])])
    assert [left_of(room, use) for room, use in zip(holdings, uses, strict=True)] == [{}, {}]


def test_making_way_goes_along_a_row_of_locks() -> None:
    holdings = [{"cpu": 1000}, {"cpu": 1000}, {"cpu": 1500}]
    claimants = [
        Claimant({"cpu": 1000}, [0, 1]),
        Claimant({"cpu": 1000}, [1, 2]),
        Claimant({"cpu": 1000}, [0]),
    ]
    uses = shared_out(holdings, claimants)
    assert [left_of(room, use) for room, use in zip(holdings, uses, strict=True)] == [{}, {}, {"cpu": 500}]


def test_who_owns_nothing_uses_nothing() -> None:
    assert shared_out([{"cpu": 1000}], [Claimant({"cpu": 1000}, [])]) == [{}]
