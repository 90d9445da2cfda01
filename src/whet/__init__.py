"""whet sharpens parallel kernels and proves the edge."""

__version__ = "0.1.0"
