"""Quotes for reservations that would hold devices."""

from builders import NAMESPACE, encode
from devices import claim_template, pod_template, put, request, wanting
from tidelock.model.reservation_quote import decode_quote
from tidelock.scheduler.core.dry_run import DryRunResult
from unit.scheduler.device_core import DeviceCore


def quoted(core: DeviceCore, *templates: str) -> DryRunResult:
    metadata = {"name": "quote", "namespace": NAMESPACE, "uid": "uid-quote", "resourceVersion": "1"}
    quote = decode_quote(encode({"metadata": metadata, "spec": {"template": pod_template(*templates)}}))
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
    assert "cannot allocate all claims" in answer.message


def test_a_quote_names_a_missing_template() -> None:
    answer = quoted(DeviceCore(), "unknown")
    assert answer.feasible is False
    assert f'could not find ResourceClaimTemplate "{NAMESPACE}/unknown"' in answer.message
