"""How the lines of print lie on a picture of a page: by how much they are askew, and whether they run up and down."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from PIL import Image, ImageOps

_WIDTH: Final = 400
_STRIPS: Final = 40
_COARSE: Final = 4
_FINE: Final = (0.5, 0.25, 0.12)
_LEAST: Final = 0.25  # degrees: less does no harm to what is recognized
_CLEARER: Final = 1.3
_SIDEWAYS: Final = 2.0


def skew(picture: Image.Image) -> float:
    """The degrees, counter-clockwise, to turn it by so that lines are level; 0 where that would gain nothing."""
    reduced = ImageOps.invert(small(picture))
    # Only rows are compared: a page that is turned by little is one whose strips from top to bottom are moved a bit.
    strips = reduced.resize((min(_STRIPS, reduced.width), reduced.height), Image.Resampling.BOX)
    across = reduced.width / strips.width
    scores = {0.0: _contrast(strips)}

    def look(angle: float) -> None:
        if angle not in scores:
            slope = across * math.tan(math.radians(angle))
            moved = (1, 0, 0, slope, 1, -slope * strips.width / 2)
            turned = strips.transform(strips.size, Image.Transform.AFFINE, moved, Image.Resampling.BILINEAR)
            scores[angle] = _contrast(turned)

    for whole in range(-_COARSE, _COARSE + 1):
        look(float(whole))
    for step in _FINE:
        best = max(scores, key=scores.__getitem__)
        look(best - step)
        look(best + step)
    best = max(scores, key=scores.__getitem__)
    return best if abs(best) >= _LEAST and scores[best] > _CLEARER * scores[0.0] else 0.0


def is_sideways(picture: Image.Image) -> bool:
    """Whether its lines seem to run up or down: only a hint, since the rules of a table look alike."""
    reduced = small(picture)
    return _contrast(reduced.transpose(Image.Transpose.ROTATE_90)) > _SIDEWAYS * _contrast(reduced)


def small(picture: Image.Image) -> Image.Image:
    """As much of it as is looked at here: a caller that asks more than once need not make it again."""
    width = min(_WIDTH, picture.width)
    if width == picture.width:
        return picture
    height = max(2, round(picture.height * width / picture.width))
    return picture.resize((width, height), Image.Resampling.BOX)


def _contrast(picture: Image.Image) -> float:
    """How much ink changes from row to row; it is highest where rows of print lie level."""
    rows = picture.resize((1, picture.height), Image.Resampling.BOX).tobytes()
    return sum((one - two) ** 2 for one, two in pairwise(rows)) / len(rows)
