"""Machines that are all this one: `python machines_here.py KIND…` starts a Ray with a head and a node per kind.

Each has an address of its own on loopback; the head's kind is `head`. It prints the address of the Ray, kills the node
of a kind for each line `kill KIND` that it reads, and ends everything when its input ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

# Read when Ray is imported, so whoever starts this sets them.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_enable_worker_prestart": "0"}
OF_A_NODE = {"num_cpus": 2, "object_store_memory": 80 << 20}


def main() -> None:
    from ray._private import ray_constants
    from ray.cluster_utils import Cluster

    # Ray takes 127.0.0.1 for the address of the network card, unless it believes that there are no other machines.
    ray_constants.ENABLE_RAY_CLUSTER = False
    nodes = {}
    with tempfile.TemporaryDirectory(prefix="whet-ray-", ignore_cleanup_errors=True) as folder:
        # Ray notes its address in a folder of this name, and makes it only where it is its own.
        os.environ["RAY_TMPDIR"] = folder
        Path(folder, "ray").mkdir()
        head = {"labels": {"whet.kind": "head"}, "include_dashboard": False, "temp_dir": folder}
        cluster = Cluster(initialize_head=True, head_node_args={**OF_A_NODE, **head, "node_ip_address": "127.0.0.1"})
        try:
            for number, kind in enumerate(sys.argv[1:], 2):
                where = {"labels": {"whet.kind": kind}, "node_ip_address": f"127.0.0.{number}"}
                nodes[kind] = cluster.add_node(**OF_A_NODE, **where)
            print(cluster.address, flush=True)
            for line in sys.stdin:
                cluster.remove_node(nodes.pop(line.split()[1]), allow_graceful=False)
                print("killed", flush=True)
        finally:
            cluster.shutdown()


if __name__ == "__main__":
    main()
