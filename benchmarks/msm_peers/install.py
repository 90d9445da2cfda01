"""Puts the peers into an environment of their own under build/peers; says which ones cannot be had here."""

from __future__ import annotations

import json
import re
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
GO = {"gnark": "github.com/consensys/gnark-crypto"}
CRATES = {"arkworks": "ark-ec", "halo2curves": "halo2curves"}
GO_HOME, RUST_HOME = Path(__file__).parent / "gnark", Path(__file__).parent / "rust"
GO_PROGRAM = HOME / "gnark_peer"
# One thread is a build of its own: arkworks with threads makes a pool in every call, also for one.
RUST_PROGRAMS = {"": HOME / "rust_serial", "parallel": HOME / "rust_parallel"}
PATIENCE_S = 600
BUILD_PATIENCE_S = 1800


def _attempt(command: list[str], where: Path, patience_s: float = PATIENCE_S) -> str:
    """The last line of what went wrong; empty when nothing did."""
    try:
        done = subprocess.run(
            command,
            cwd=where,
            capture_output=True,
            text=True,
            timeout=patience_s,
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
    for peers, build in ((GO, _build_go), (CRATES, _build_rust)):
        if any(known.get(peer) != "" for peer in peers):
            known |= dict.fromkeys(peers, build())
    state.write_text(json.dumps(known, indent=2))
    return known


def _build_go() -> str:
    go = shutil.which("go")
    if not go:
        return "go is not installed"
    return _attempt([go, "build", "-o", str(GO_PROGRAM), "."], GO_HOME, BUILD_PATIENCE_S)


def _build_rust() -> str:
    cargo = shutil.which("cargo")
    if not cargo:
        return "cargo is not installed"
    target = HOME / "rust"
    for features, program in RUST_PROGRAMS.items():
        command = [cargo, "build", "--release", "--locked", "--target-dir", str(target), "--features", features]
        if trouble := _attempt(command, RUST_HOME, BUILD_PATIENCE_S):
            return trouble
        shutil.copy2(target / "release" / "msm_peers", program)
    return ""


def versions() -> dict[str, str]:
    """Package and version of every peer that is installed."""
    known = {}
    ask = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    for peer, package in PYPI.items() if PYTHON.exists() else ():
        done = subprocess.run([str(PYTHON), "-c", ask, package], capture_output=True, text=True, check=False)
        known[peer] = f"{package} {done.stdout.strip()}"
    for peer, package in NPM.items():
        about = NODE_HOME / "node_modules" / package / "package.json"
        known[peer] = f"{package} {json.loads(about.read_text())['version'] if about.exists() else ''}".strip()
    pinned, locked = (GO_HOME / "go.mod").read_text(), (RUST_HOME / "Cargo.lock").read_text()
    for peer, module in GO.items():
        known[peer] = f"{module} " + _found(rf"{module} v(\S+)", pinned)
    for peer, crate in CRATES.items():
        known[peer] = f"{crate} " + _found(rf'name = "{crate}"\nversion = "([^"]+)"', locked)
    return known


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match.group(1) if match else ""


if __name__ == "__main__":
    for peer, trouble in install().items():
        print(f"{peer:14} {trouble or 'installed'}")
