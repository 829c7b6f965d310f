"""Selectors over `device`, as the allocator of Kubernetes 1.37 evaluates them for stored expressions."""

import pytest

from tidelock.cel.device_selector import MAX_LENGTH, DeviceSelector, SelectedDevice, Version
from tidelock.cel.errors import EvaluationError, ExpressionError
from unit.cel.selecting import DEVICE, DRIVER, matches

GPU = f'device.attributes["{DRIVER}"]'
CAPACITY = f'device.capacity["{DRIVER}"]'


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        f'device.driver == "{DRIVER}"',
        f'{GPU}.model == "A100"',
        f'{GPU}["model"] == "A100"',
        f"{GPU}.mig",
        f"{GPU}.index > 2 && {GPU}.index + 1 == 4",
        f'{GPU}.driverVersion.isGreaterThan(semver("535.0.0"))',
        f'{GPU}.driverVersion == semver("v550.54.1", true)',
        'device.attributes["net.example.com"].speed >= 100',
        f'{CAPACITY}.memory.compareTo(quantity("80Gi")) == 0',
        f'{CAPACITY}["memory"].isGreaterThan(quantity("40G"))',
        f"{CAPACITY}.cores.asInteger() == 108",
        'device.capacity["net.example.com"].ports.isLessThan(quantity("3"))',
        "device.allowMultipleAllocations",
        f"cel.bind(gpu, {GPU}, gpu.mig && gpu.index == 3)",
        f'"{DRIVER}" in device.attributes',
        'device.attributes.exists_one(domain, domain == "net.example.com")',
        f'{GPU}.exists_one(name, name == "model")',
        f'{CAPACITY}.exists(name, name == "memory")',
        "device.attributes.size() == 2 && device.capacity.size() == 2",
        f'"memory" in {CAPACITY}',
        f"has({GPU}.model) && !has({GPU}.colour)",
        f'{GPU}.?colour.orValue("none") == "none"',
        f'{GPU}[?"model"].hasValue()',
        f'{GPU}.model.matches("^A[0-9]+$")',
        f'{GPU}.model.includes("A100")',
    ],
)
def test_a_device_is_selected_by_its_properties(expression: str) -> None:
    assert matches(expression)
    assert not matches(f"!({expression})")


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["none.example.com"].size() == 0',
        'device.capacity["none.example.com"].size() == 0',
        '!("model" in device.attributes["none.example.com"])',
        '!has(device.attributes["none.example.com"].model)',
        'device.attributes["none.example.com"].?model.orValue("none") == "none"',
        '!("none.example.com" in device.attributes)',
        "has(device.attributes.none)",
    ],
)
def test_an_unknown_domain_is_an_empty_map(expression: str) -> None:
    assert matches(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ('device.attributes["none.example.com"].model == "A100"', "no such key: model"),
        ('device.attributes["none.example.com"]["model"].isGreaterThan(quantity("0"))', "no such key: model"),
        (f'{GPU}.index + "A100" == "3A100"', "no such overload"),
        (f"{GPU}.model", "no such overload"),
        (f"{GPU}.index.exists(each, each > 0)", "expected iterable type"),
        (f'{GPU}.model.isGreaterThan(semver("1.0.0"))', "no such overload"),
        (f'{GPU}.driverVersion == "550.54.1"', "no such overload"),
        (f"{GPU}.model.size.value == 1", "no such overload"),
    ],
)
def test_an_evaluation_without_a_result_is_an_error(expression: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        matches(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("?!", "Syntax error at 0"),
        ("", "Syntax error at 0: unexpected the end"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.attributes", "must evaluate to bool or the unknown type, not map"),
        ("device.model", "undefined field 'model'"),
        ('device["driver"] == ""', "found no matching overload for '\\[\\]'"),
        ("devices.driver", "undeclared reference to 'devices'"),
        ("device.driver == 1", "found no matching overload for '=='"),
        (f"{CAPACITY}.memory > 1", "found no matching overload for '>'"),
        (f"{CAPACITY}.memory.matches('x')", "found no matching overload for 'matches'"),
        ("device.driver.firstPart() == ''", "undeclared reference to 'firstPart'"),
        ("true || " * 2000 + "true", "longer than"),
        ('"\ud800" == ""', "not valid Unicode"),
    ],
)
def test_a_bad_expression_is_refused_when_it_is_compiled(expression: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        DeviceSelector.compile(expression)


LISTS = SelectedDevice(
    DRIVER,
    {
        "numas": [0, 1],
        "flags": [True, False],
        "modes": ["ib", "roce"],
        "versions": [Version("1.2.0"), Version("2.0.0")],
    },
)


@pytest.mark.parametrize(
    "expression",
    [
        f"{GPU}.numas == [0, 1] && {GPU}.numas.size() == 2 && {GPU}.numas[1] == 1",
        f"1 in {GPU}.numas && !(2 in {GPU}.numas)",
        f"{GPU}.numas.exists(numa, numa > 0) && {GPU}.flags.exists_one(flag, flag)",
        f"{GPU}.modes.all(mode, mode != '') && {GPU}.modes.includes('ib') && !{GPU}.modes.includes('x')",
        f"{GPU}.versions.all(each, each.isGreaterThan(semver('1.0.0')))",
        f"{GPU}.versions.includes(semver('2.0.0')) && {GPU}.flags.includes(false)",
        f"sets.contains({GPU}.modes, ['roce']) && sets.intersects({GPU}.numas, [1, 7])",
        f"{GPU}.modes.join('+') == 'ib+roce' && type({GPU}.modes) == list",
    ],
)
def test_an_attribute_may_be_a_list(expression: str) -> None:
    assert matches(expression, LISTS)


def test_a_list_is_no_result() -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        matches(f"{GPU}.flags", LISTS)


def test_a_result_of_unknown_type_must_be_a_boolean() -> None:
    selector = DeviceSelector.compile(f"{GPU}.mig")
    assert selector.matches(DEVICE)
    with pytest.raises(EvaluationError, match="no such overload"):
        selector.matches(SelectedDevice(DRIVER, {"mig": "yes"}))


def test_a_device_with_a_bad_version_or_quantity_can_not_be_selected() -> None:
    selector = DeviceSelector.compile("true")
    assert selector.matches(SelectedDevice(DRIVER))
    with pytest.raises(EvaluationError, match="not a semantic version"):
        selector.matches(SelectedDevice(DRIVER, {"version": Version("1.0")}))
    with pytest.raises(EvaluationError, match="not a semantic version"):
        selector.matches(SelectedDevice(DRIVER, {"versions": [Version("1.0.0"), Version("1.0")]}))
    with pytest.raises(EvaluationError, match="is not a quantity"):
        selector.matches(SelectedDevice(DRIVER, {}, {"memory": "much"}))


def test_a_device_with_an_attribute_of_unknown_type_can_not_be_selected() -> None:
    """Not even by an expression that does not mention the attribute."""
    with pytest.raises(EvaluationError, match="attribute price: unsupported attribute value"):
        matches("true", SelectedDevice(DRIVER, {"price": None}))


def test_capacity_has_the_functions_of_quantities() -> None:
    device = SelectedDevice(DRIVER, {}, {"share": "500m", "memory": "80Gi"})
    assert matches(f"{CAPACITY}.share.add({CAPACITY}.share) == quantity('1')", device)
    assert matches(f"{CAPACITY}.memory.sub(quantity('16Gi')).asInteger() == 68719476736", device)
    assert matches(f"{CAPACITY}.share.asApproximateFloat() == 0.5 && sign({CAPACITY}.share) == 1", device)
    assert matches(f"{CAPACITY}.memory.isInteger() && !{CAPACITY}.share.isInteger()", device)


def test_the_longest_expression_is_that_of_the_api() -> None:
    assert matches("true".ljust(MAX_LENGTH))
    with pytest.raises(ExpressionError, match="longer than 10240 bytes"):
        DeviceSelector.compile("true".ljust(MAX_LENGTH + 1))
