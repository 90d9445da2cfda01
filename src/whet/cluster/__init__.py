"""Sums over several machines, on Ray: the extra `cluster`. Importing this imports no Ray."""

from __future__ import annotations

from whet.cluster.connection import Connection, Node, connect
from whet.cluster.errors import ClusterError

__all__ = ["ClusterError", "Connection", "Node", "connect"]
