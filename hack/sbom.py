"""Writes what the image consists of, in CycloneDX: python -m sbom [FILE], by default build/tidelock.cdx.json.

The image has what requirements.lock pins, installed by the hashes that stand there. The same is written again
for the same lock file, so that two releases can be compared.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

from audit import requirements
from tidelock import __version__

_LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
_DEFAULT = Path("build") / "tidelock.cdx.json"


def packages(lock: str) -> Iterator[Component]:
    """Describe each requirement of a lock file: a package of PyPI, and the files that may be installed."""
    for line, hashes in requirements(lock):
        requirement = Requirement(line)
        (pin,) = requirement.specifier
        url = PackageURL("pypi", name=requirement.name, version=pin.version)
        files = [HashType(alg=HashAlgorithm.SHA_256, content=each.removeprefix("sha256:")) for each in hashes]
        yield Component(
            name=requirement.name, version=pin.version, purl=url, bom_ref=url.to_string(), hashes=files
        )


def write(lock: Path, file: Path) -> None:
    """Write the bill of materials for a lock file."""
    image = Component(
        name="tidelock", version=__version__, type=ComponentType.APPLICATION, bom_ref="tidelock"
    )
    bom = Bom(components=packages(lock.read_text()))
    bom.metadata.component = image
    bom.register_dependency(image, bom.components)
    # What would differ each time; both are optional in CycloneDX.
    bom.metadata.timestamp = bom.serial_number = None  # type: ignore[assignment]
    file.parent.mkdir(parents=True, exist_ok=True)
    JsonV1Dot6(bom).output_to_file(str(file), allow_overwrite=True, indent=2)


def main(arguments: list[str]) -> int:
    """Write it where it is asked for; gives the exit status."""
    file = Path(arguments[0]) if arguments else _DEFAULT
    write(_LOCK, file)
    print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
