"""Quotes for reservations that would hold devices."""

import msgspec

from builders import NAMESPACE, Json, encode
from devices import DRIVER, claim_template, pod_template, put, request, wanting
from tidelock.devices.errors import SEARCH_TIMED_OUT
from tidelock.model.reservation_quote import Quote, decode_quote
from tidelock.model.resource_claims import ResourceClaimTemplate
from tidelock.plugins.dynamic_resources.node_allocations import CANNOT_ALLOCATE
from tidelock.plugins.dynamic_resources.pod_claims import template_not_found
from tidelock.scheduler.core.dry_run import DryRunResult, render_dry_run
from unit.scheduler.device_core import DeviceCore


def quote_for(*templates: str) -> Quote:
    metadata = {"name": "quote", "namespace": NAMESPACE, "uid": "uid-quote", "resourceVersion": "1"}
    return decode_quote(encode({"metadata": metadata, "spec": {"template": pod_template(*templates)}}))


def quoted(core: DeviceCore, *templates: str) -> DryRunResult:
    quote = quote_for(*templates)
    assert quote.pod is not None, quote.problem
    return core.decider.quote(quote.pod, core.clock.now())


def test_a_quote_counts_devices_and_holds_none() -> None:
    core = DeviceCore("node-a", "node-b", devices=3)
    put(core.objects, claim_template("two", request("gpu", wanting(count=2))))
    for _ in range(2):
        assert (quoted(core, "gpus").feasible, quoted(core, "gpus").count) == (True, 6)
        assert quoted(core, "two").count == 2


def test_devices_of_reservations_are_not_available_to_a_quote() -> None:
    core = DeviceCore("node-a", devices=1)
    core.lock()
    answer = quoted(core, "gpus")
    assert (answer.feasible, answer.count) == (False, 0)
    assert CANNOT_ALLOCATE in answer.message


def test_a_quote_names_a_missing_template() -> None:
    answer = quoted(DeviceCore(), "unknown")
    assert answer.feasible is False
    assert template_not_found(NAMESPACE, "unknown") in answer.message


def test_a_quote_whose_search_for_devices_takes_too_long_is_answered() -> None:
    """Regression: the reason was a subclass of str, which msgspec can't encode. So the status was never
    written, and the write was repeated for ever.
    """
    core = DeviceCore("node-a", devices=40)
    put(core.objects, endless_template())
    answer = quoted(core, "endless")
    status = json_of(render_dry_run(quote_for("endless"), answer, core.clock.now()))
    assert status["blockers"]["reasons"] == [{"reason": SEARCH_TIMED_OUT, "nodes": 1}]


def endless_template() -> ResourceClaimTemplate:
    """Build a template with more combinations of devices than a search tries."""
    many = [request(f"r{index}", wanting(count=8)) for index in range(4)]
    apart = [{"matchAttribute": f"{DRIVER}/a", "requests": ["r3"]}]
    return claim_template("endless", *many, constraints=apart)


def json_of(status: Json) -> Json:
    """Return a status as the API server gets it."""
    decoded: Json = msgspec.json.decode(msgspec.json.encode(status))
    return decoded
