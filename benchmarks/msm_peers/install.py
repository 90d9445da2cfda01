"""Puts the peers into an environment of their own under build/peers; says which ones cannot be had here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "peers"
PYTHON = HOME / "py" / "bin" / "python"
NODE_HOME = HOME / "js"
PYPI = {"zksnake": "zksnake", "mcl": "mclbn256", "frx": "frx"}
NPM = {"ffjavascript": "ffjavascript", "barretenberg": "@aztec/barretenberg", "noble": "@noble/curves"}
PATIENCE_S = 600


def _attempt(command: list[str], where: Path) -> str:
    """The last line of what went wrong; empty when nothing did."""
    try:
        done = subprocess.run(
            command,
            cwd=where,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
    return "" if done.returncode == 0 else lines[-1]


def install() -> dict[str, str]:
    """Installs what is missing. Returns peer -> why it is not there, empty for those that are."""
    HOME.mkdir(parents=True, exist_ok=True)
    state = HOME / "state.json"
    known: dict[str, str] = json.loads(state.read_text()) if state.exists() else {}
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME / "py"], check=True)
    for peer, package in PYPI.items():
        if known.get(peer) != "":
            known[peer] = _attempt([str(PYTHON), "-m", "pip", "install", "-q", package], HOME)
    node = shutil.which("npm")
    NODE_HOME.mkdir(exist_ok=True)
    (NODE_HOME / "package.json").write_text('{"private": true, "type": "module"}\n')
    for peer, package in NPM.items():
        if known.get(peer) != "":
            known[peer] = (
                _attempt([node, "install", "--silent", package], NODE_HOME) if node else "npm is not installed"
            )
    state.write_text(json.dumps(known, indent=2))
    return known


def versions() -> dict[str, str]:
    """Package and version of every peer that is installed."""
    known = {}
    ask = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    for peer, package in PYPI.items():
        done = subprocess.run([str(PYTHON), "-c", ask, package], capture_output=True, text=True, check=False)
        known[peer] = f"{package} {done.stdout.strip()}"
    for peer, package in NPM.items():
        about = NODE_HOME / "node_modules" / package / "package.json"
        known[peer] = f"{package} {json.loads(about.read_text())['version'] if about.exists() else ''}".strip()
    return known


if __name__ == "__main__":
    for peer, trouble in install().items():
        print(f"{peer:14} {trouble or 'installed'}")
