"""A command that takes a picture of a report: a shadow run of half a day beside a simulated cluster.

    python -m shadowed docs/images/shadow.png

It needs Chromium, see hack/chromium. The whole page is written beside the picture with --page.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from shadowed.simulated import ShadowedSimulation
from tidelock.framework.config import default_configuration
from tidelock.plugins.registry import BUILTINS
from tidelock.shadow.page import page
from tidelock.shadow.report import report_of
from tidelock.simulation.cluster import SCHEDULER
from tidelock.simulation.worlds import Setting, synthetic_load, world_of
from webview.__main__ import shrink
from webview.browser import chromium, find_chromium

_SIZE = 1000, 1420  # CSS pixels
_STEPS = 144
_SEED = 3
_SETTING = Setting(nodes=20, cores=(8, 16), workloads=60, fill=0.97, life=4 * 3600.0, noise=0.3, steps=_STEPS)


def report() -> str:
    """Replay the run, and return its page."""
    world = world_of("half a day", synthetic_load(200, _STEPS, _SEED), _SETTING, _SEED)
    configuration = default_configuration(SCHEDULER, BUILTINS)
    _, results = ShadowedSimulation(world, "default", configuration, _SEED).shadowed()
    return page(report_of(results))


async def take(program: str, url: str, file: Path) -> None:
    """Take a picture of the upper part of a page."""
    width, height = _SIZE
    async with chromium(program) as browser:
        shown = await browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        await shown.goto(url)
        await shown.screenshot(path=file)
    shrink(file)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    parser = argparse.ArgumentParser(prog="shadowed", description=__doc__.split("\n", 1)[0])
    parser.add_argument("picture", type=Path, help="PNG file to write")
    parser.add_argument("--page", type=Path, help="HTML file to write, too")
    options = parser.parse_args(argv)
    program = find_chromium()
    if program is None:
        sys.stderr.write("shadowed: no chromium is found: install it by hack/chromium\n")
        return 1
    with TemporaryDirectory() as folder:
        html = options.page or Path(folder) / "report.html"
        html.write_text(report())
        asyncio.run(take(program, html.absolute().as_uri(), options.picture))
    return 0


if __name__ == "__main__":
    sys.exit(main())
