"""The part that serves ProvisioningRequests."""

from collections.abc import Iterator

from tidelock.scheduler.parts import PartContext, ProcessPart


def parts(context: PartContext) -> Iterator[ProcessPart]:
    """Yield the controller and the watch of its groups, if the settings ask for them."""
    if not context.settings.provisioning_requests:
        return
    from tidelock.integrations.provisioning_requests.controller import (  # noqa: PLC0415 -- few clusters have them
        ProvisioningRequestController,
    )

    controller = ProvisioningRequestController(context.writers)
    watches = (controller.watch(context.reflector), controller.watch_groups(context.reflector))
    yield ProcessPart("provisioning", controller.run, watches)
