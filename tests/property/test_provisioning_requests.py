"""Whatever a group goes through, the conditions of its request never contradict each other."""

from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, Json
from tidelock.integrations.provisioning_requests.status import FINAL, is_final, render_request
from tidelock.model.api.reservation import Phase
from unit.integrations.provisioning_requests.requests import ACTIVE, conditions, ended, group, request

STATUSES = st.sampled_from(
    [
        None,
        {"observedGeneration": -1},
        ACTIVE,
        *(ended(phase, f"{phase}Reason", f"{phase} message") for phase in Phase if phase is not Phase.ACTIVE),
    ]
)


@given(st.lists(STATUSES, max_size=8))
def test_conditions_are_consistent_and_final_ones_stay(story: list[Json | None]) -> None:
    status: Json = {}
    for step, told in enumerate(story):
        before, stored = conditions(status), request(status=status)
        status = render_request(stored, None if told is None else group(stored, told), NOW + step)
        after = conditions(status)

        final = [kind for kind in FINAL if after.get(kind) == "True"]
        assert len(final) <= 1, "at most one end"
        if is_final(stored):
            assert after == before, "an end is for good"
        if before.get("Provisioned") == "True":
            assert after["Provisioned"] == "True", "a promise is not forgotten"
        promised = after["Provisioned"] == "True"
        assert final != ["Failed"] or not promised, "a kept promise is no failure"
        assert promised or not final or final == ["Failed"], "nothing unpromised is revoked"
        held = told is not None and told.get("phase") == Phase.ACTIVE
        assert held or not promised or final, "what is not held any more has ended"


@given(st.lists(STATUSES, max_size=4), STATUSES)
def test_the_same_state_of_a_group_changes_nothing(story: list[Json | None], last: Json | None) -> None:
    """Check that a status that was written is not written again, for example by the next process."""
    status: Json = {}
    for told in (*story, last, last):
        before, stored = status, request(status=status)
        status = render_request(stored, None if told is None else group(stored, told), NOW)
    assert status == before
