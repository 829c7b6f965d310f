import pytest

from builders import encode
from tidelock.model.quotas import QuotaLimit, decode_reservation_quota, decode_resource_quota

METADATA = {"name": "team", "namespace": "shop"}


def test_a_quota_is_read_in_base_units() -> None:
    spec = {"hard": {"cpu": "1500m", "memory": "1Gi"}, "hardSeconds": {"cpu": 60}, "maxAmounts": {"cpu": 1}}
    quota = decode_reservation_quota(encode({"metadata": METADATA, "spec": spec}))
    assert quota.problem == ""
    assert quota.hard == {"cpu": 1500, "memory": 2**30}
    assert (quota.hard_seconds, quota.max_amounts) == ({"cpu": 60_000}, {"cpu": 1000})
    assert quota.spec.max_life_seconds is None
    assert not quota.spec.count_against_resource_quota


def test_an_unreadable_field_is_named() -> None:
    quota = decode_reservation_quota(encode({"metadata": METADATA, "spec": {"maxLifeSeconds": "1h"}}))
    assert quota.problem.startswith("spec.maxLifeSeconds: ")
    assert quota.hard == {}


def test_the_limits_of_a_resource_quota_are_read_with_their_use() -> None:
    figures = {"cpu": "2", "requests.cpu": "1", "requests.nvidia.com/gpu": "4", "count/pods": "9"}
    quota = decode_resource_quota(
        encode({"metadata": METADATA, "status": {"hard": figures, "used": {"cpu": "500m"}}})
    )
    assert quota.limits == (
        QuotaLimit("count/pods", "pods", 9, 0),
        QuotaLimit("cpu", "cpu", 2000, 500),
        QuotaLimit("requests.cpu", "cpu", 1000, 0),
        QuotaLimit("requests.nvidia.com/gpu", "nvidia.com/gpu", 4, 0),
    )


def test_a_limit_on_devices_is_one_on_the_resource_of_their_class() -> None:
    by_class = "gpu.example.com.deviceclass.resource.k8s.io/devices"
    spec = {"hard": {"cpu": "1", by_class: "3"}, "devices": {"gpu.example.com": 4, "nic": 0}}
    quota = decode_reservation_quota(encode({"metadata": METADATA, "spec": spec}))
    assert quota.problem == ""
    nics = "nic.deviceclass.resource.k8s.io/devices"
    assert quota.hard == {"cpu": 1000, by_class: 3, nics: 0}, "the stricter limit counts"


@pytest.mark.parametrize("devices", [{}, {"gpu": -1}, {"gpu": "many"}])
def test_a_bad_limit_on_devices_is_named(devices: dict[str, object]) -> None:
    quota = decode_reservation_quota(encode({"metadata": METADATA, "spec": {"devices": devices}}))
    assert quota.problem.startswith("spec.devices")
