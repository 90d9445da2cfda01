"""Sums over several machines, on Ray: the extra `cluster`. Importing this imports no Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whet.cluster.connection import Connection, Node, connect
from whet.cluster.errors import ClusterError

if TYPE_CHECKING:
    from whet.cluster.sources import PointsFile, ScalarsFile
    from whet.cluster.sums import MsmCluster

__all__ = ["ClusterError", "Connection", "MsmCluster", "Node", "PointsFile", "ScalarsFile", "connect"]

# Loaded when first asked for: whoever runs trials on a cluster needs no sums.
_WHERE = {
    "MsmCluster": "whet.cluster.sums",
    "PointsFile": "whet.cluster.sources",
    "ScalarsFile": "whet.cluster.sources",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'whet.cluster' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
