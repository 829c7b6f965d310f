"""The use of reusable reservations by their owners."""

from tidelock.ledger.capacity.usage import Claimant, left_of, shared_out


def test_an_owner_uses_its_reservation_up_to_its_capacity() -> None:
    room = {"cpu": 2000, "memory": 64}
    uses = shared_out([room], [Claimant({"cpu": 3000, "gpu": 1}, [0])])
    assert uses == [{0: {"cpu": 2000}}]
    assert left_of(room, uses[0]) == {"memory": 64}


def test_several_owners_share_a_reservation() -> None:
    room = {"cpu": 5000}
    uses = shared_out([room], [Claimant({"cpu": 2000}, [0])] * 2)
    assert left_of(room, uses[0]) == {"cpu": 1000}


def test_an_owner_with_two_reservations_yields_one_to_an_owner_without_another() -> None:
    holdings = [{"cpu": 2000}, {"cpu": 2000}]
    uses = shared_out(holdings, [Claimant({"cpu": 2000}, [0, 1]), Claimant({"cpu": 2000}, [0])])
    assert [left_of(room, use) for room, use in zip(holdings, uses, strict=True)] == [{}, {}]


def test_owners_yield_along_a_chain_of_reservations() -> None:
    holdings = [{"cpu": 1000}, {"cpu": 1000}, {"cpu": 1500}]
    claimants = [
        Claimant({"cpu": 1000}, [0, 1]),
        Claimant({"cpu": 1000}, [1, 2]),
        Claimant({"cpu": 1000}, [0]),
    ]
    uses = shared_out(holdings, claimants)
    assert [left_of(room, use) for room, use in zip(holdings, uses, strict=True)] == [{}, {}, {"cpu": 500}]


def test_a_pod_without_reservations_uses_none() -> None:
    assert shared_out([{"cpu": 1000}], [Claimant({"cpu": 1000}, [])]) == [{}]
