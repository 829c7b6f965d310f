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
    yield ProcessPart("provisioning", controller.run, (controller.watch(context.reflector),))
    # Health names watches by their resource, and has one of all groups already.
    groups = controller.watch_groups(context.reflector)
    yield ProcessPart("groups of requests", lambda _started: groups.run())
