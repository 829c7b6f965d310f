"""How the Kopf operator of WaterLevels is put together."""

from typing import TYPE_CHECKING

from tidelock.handlers.supervision import SupervisedOperator
from tidelock.kube.client import WATERLEVELS
from tidelock.scheduler.controllers.water_levels import WaterLevelController
from tidelock.scheduler.parts import PartContext

if TYPE_CHECKING:
    from kopf import OperatorRegistry


def assemble_kopf(context: PartContext, controller: WaterLevelController) -> SupervisedOperator:
    """Make the Kopf operator that passes WaterLevels on to their controller."""

    def make_registry() -> "OperatorRegistry":
        # Decisions do not need Kopf, so its import waits until after the first one: a fifth of a start.
        from kopf import OperatorRegistry  # noqa: PLC0415

        from tidelock.handlers import login, water_levels  # noqa: PLC0415

        registry = OperatorRegistry()
        login.register(registry, context.connection)
        water_levels.register(registry, controller)
        return registry

    instance, telemetry = context.settings.instance, context.writers.telemetry
    return SupervisedOperator(WATERLEVELS, make_registry, instance, telemetry, context.rng, context.pace)
