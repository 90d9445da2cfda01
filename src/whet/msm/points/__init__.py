"""Files of BN254 points and scalars: readers for the formats that others write, and writers of plain arrays."""

from whet.msm.points.files import Scalars
from whet.msm.points.formats import FORMATS
from whet.msm.points.srs import Srs
from whet.msm.points.stream import msm_from_files
from whet.msm.points.write import write_points, write_scalars

__all__ = ["FORMATS", "Scalars", "Srs", "msm_from_files", "write_points", "write_scalars"]
