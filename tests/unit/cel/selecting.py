"""A device for the tests of expressions, and the result of an expression for it."""

from tidelock.cel.device_selector import DeviceSelector, SelectedDevice, Version

DRIVER = "gpu.example.com"
DEVICE = SelectedDevice(
    DRIVER,
    {
        "model": "A100",
        "index": 3,
        "mig": True,
        "driverVersion": Version("550.54.1"),
        "net.example.com/speed": 100,
    },
    {"memory": "80Gi", "net.example.com/ports": "2", "cores": "108"},
    allow_multiple_allocations=True,
)


def matches(expression: str, device: SelectedDevice = DEVICE) -> bool:
    """Return whether an expression selects a device."""
    return DeviceSelector.compile(expression).matches(device)
