"""BN254 G1 multi-scalar multiplication.

>>> from whet import msm
>>> msm.msm([(1, 2), (1, 2)], [3, 4])  # 7 G
"""

from __future__ import annotations

from whet.msm.api import Engine, View, msm
from whet.msm.point import Point
from whet.msm.points import Scalars, Srs

__all__ = ["Engine", "Point", "Scalars", "Srs", "View", "msm"]
