from typing import Any

from tidelock.handlers.waterlevels import desired_status

SPEC: dict[str, Any] = {"source": {"metricsServer": {}}}


def body(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "pool", "generation": 2}, "spec": SPEC, **parts}


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def test_a_valid_spec_lacks_a_source() -> None:
    status = desired_status(body(), now=100.7)

    assert status["observedGeneration"] == 2
    assert conditions(status) == {"Ready": ("False", "NoSource")}
    assert status["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:01:40Z"


def test_an_invalid_spec_is_stalled_and_names_the_field() -> None:
    status = desired_status(body(spec={**SPEC, "refreshSeconds": "often"}), now=100.0)

    assert conditions(status) == {"Ready": ("False", "InvalidSpec"), "Stalled": ("True", "InvalidSpec")}
    assert "spec.refreshSeconds" in status["conditions"][0]["message"]


def test_a_transition_time_stays_while_the_status_does() -> None:
    first = desired_status(body(), now=100.0)

    later = desired_status(body(status=first), now=900.0)

    assert later == first


def test_a_spec_without_a_source_is_invalid() -> None:
    assert conditions(desired_status(body(spec={}), now=0.0))["Stalled"] == ("True", "InvalidSpec")
