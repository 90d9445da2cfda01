"""Puts the peers of the decode layer into an environment of their own; says which ones cannot be had here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parents[2] / "build" / "decode-peers"
PYTHON = HOME / "bin" / "python"
PACKAGES = {"numpy": ("numpy",), "torch": ("torch", "setuptools"), "onnxruntime": ("onnxruntime", "onnx")}
PATIENCE_S = 1200


def install() -> dict[str, str]:
    """Peer -> its version; a peer that cannot be installed is missing, and the reason is printed."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    found = {}
    for peer, packages in PACKAGES.items():
        if _version(peer) is None:
            command = [PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            if done.returncode != 0:
                print(f"{peer} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
        if (version := _version(peer)) is not None:
            found[peer] = version
    return found


def _version(package: str) -> str | None:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None
