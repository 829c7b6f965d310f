"""ImageLocality: nodes that have the pod's images already are preferred, the more the larger these are.

Source: kube-scheduler 1.37, plugins/imagelocality. A present image counts with its size times the share of
all nodes that have it. The sum over containers and image volumes is cut off at 23 MiB below and at 1000 MiB
for each of them above, and scaled from 0 to 100, in whole points.
"""

from collections.abc import Iterator

import numpy as np

from tidelock.cluster.columns import Rows
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    PreScore,
    Score,
    Scores,
    Status,
)
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST_AN_IMAGE = 1000 * _MIB


class ImageLocality(PreScore, Score):
    """Scores by the sizes of the pod's images on a node, and by how many nodes have them."""

    name = "ImageLocality"

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods without an image on any node."""
        return SUCCESS if any(name in self.handle.cache.images for name in _image_names(pod)) else SKIP

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: Rows) -> Scores:
        """Score from 0 for images of 23 MiB or less to 100 for 1000 MiB an image, on every node."""
        images, total = self.handle.cache.images, len(self.handle.columns)
        names = list(_image_names(pod))
        if not names:
            return np.zeros(len(rows))
        sums = np.zeros(total)
        for name in names:
            if name in images:
                holders = images.rows(name)
                sums[holders] += int(images.size(name) * (len(holders) / total))
        most = _MOST_AN_IMAGE * len(names)
        clipped = np.clip(sums[snapshot.rows][rows], _LEAST, most)
        # Exact in floating point: both terms are whole numbers below 2**53 / MAX_NODE_SCORE.
        scores: Scores = np.floor(MAX_NODE_SCORE * (clipped - _LEAST) / (most - _LEAST))
        return scores


def _image_names(pod: Pod) -> Iterator[str]:
    """Return the images as nodes name them, each as often as it is used."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        yield _tagged(container.image)
    for volume in pod.spec.volumes:
        if volume.image is not None:
            yield _tagged(volume.image.reference)


def _tagged(name: str) -> str:
    """Add the default tag if there is none. A colon before the last slash belongs to a port."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
