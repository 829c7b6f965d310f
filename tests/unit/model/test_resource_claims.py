"""The devices that requests can get at most, by class, as the quotas of Kubernetes count them."""

from typing import Any

import pytest

from devices import request, resource_claim, wanting, wanting_all
from tidelock.model.resource_claims import MOST_RESULTS, most_devices


def counted(*requests: dict[str, Any]) -> dict[str, int]:
    found = most_devices(resource_claim("gpu", *requests).spec.devices.requests)
    return {name.removesuffix(".deviceclass.resource.k8s.io/devices"): count for name, count in found.items()}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([], {"gpu": 1}),
        ([request("a", wanting(count=2)), request("b", wanting(count=3))], {"gpu": 5}),
        ([request("a", wanting(count=2)), request("b", wanting(of_class="nic"))], {"gpu": 2, "nic": 1}),
        ([request("a", wanting_all())], {"gpu": MOST_RESULTS}),
        ([request("a", wanting(count=2), wanting(count=4), wanting(of_class="nic"))], {"gpu": 4, "nic": 1}),
        ([request("a", wanting(adminAccess=True)), request("b")], {"gpu": 1}),
        ([request("a", wanting(), wanting_all()), request("b")], {"gpu": MOST_RESULTS + 1}),
    ],
)
def test_each_class_counts_with_its_largest_alternative(
    requests: list[dict[str, Any]], expected: dict[str, int]
) -> None:
    assert counted(*requests) == expected
