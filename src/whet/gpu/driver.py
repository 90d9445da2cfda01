"""The software Vulkan driver that the tests run on where a machine has no good one.

Debian's stable lavapipe (Mesa 22.3) ends every loop of an invocation after 65,535 iterations without an error, so it
computes wrong answers silently. Mesa 25 from the backports suite is right. `install` asks the machine's own package
mirror for it with a private package configuration, unpacks it into the cache folder and changes nothing else on the
system; `activate` points the Vulkan loader at it unless the user has chosen a driver.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import platformdirs

from whet.errors import Unsupported

PACKAGES = ("mesa-vulkan-drivers", "libvulkan1")
SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
CHOSEN_BY_USER = ("VK_ICD_FILENAMES", "VK_DRIVER_FILES")
INSTALL = "python -m whet.gpu"


def cache_folder() -> Path:
    """Where the driver lives; WHET_CACHE moves it."""
    return Path(os.environ.get("WHET_CACHE") or platformdirs.user_cache_dir("whet")) / "vulkan"


def manifest() -> Path:
    """The file that tells the Vulkan loader about the unpacked driver."""
    return cache_folder() / "lavapipe.json"


def activate() -> Path | None:
    """Uses the unpacked driver if it is there and nobody has chosen another. Call before asking for an adapter."""
    ours = str(manifest())
    # A child process inherits our own choice and must load our loader as well.
    if not manifest().is_file() or any(os.environ.get(name, ours) != ours for name in CHOSEN_BY_USER):
        return None
    os.environ["VK_ICD_FILENAMES"] = ours
    loaders = sorted((cache_folder() / "root").glob("usr/lib/*/libvulkan.so.1"))
    if loaders:
        # wgpu opens the loader by its bare name, which finds one that is already in the process.
        ctypes.CDLL(str(loaders[0]), mode=ctypes.RTLD_GLOBAL)
    return manifest()


def install() -> Path:
    """Fetches and unpacks the driver; does nothing where it is already there."""
    if manifest().is_file():
        return manifest()
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unsupported(
                f"the software driver comes as a Debian package, and {tool} is not here",
                cure="install a Vulkan driver (Mesa 25 has a good lavapipe) with this system's package manager",
            )
    folder = cache_folder()
    for sub in ("lists/partial", "archives/partial", "root"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    (folder / "backports.list").write_text(_backports_source())
    options = [
        *("-o", f"Dir::Etc::sourcelist={folder}/backports.list"),
        *("-o", "Dir::Etc::sourceparts=-"),
        *("-o", f"Dir::State::lists={folder}/lists"),
        *("-o", f"Dir::Cache={folder}"),
    ]
    suite = f"{_codename()}-backports"
    _call(["apt-get", "-qq", *options, "update"], folder)
    for package in PACKAGES:
        _fetch(package, options, suite, folder)
    for archive in sorted(folder.glob("*.deb")):
        _call(["dpkg-deb", "-x", str(archive), str(folder / "root")], folder)
        archive.unlink()
    for leftover in ("lists", "archives"):
        shutil.rmtree(folder / leftover)
    libraries = sorted((folder / "root").glob("usr/lib/*/libvulkan_lvp.so"))
    if not libraries:
        raise Unsupported(
            "the fetched package holds no lavapipe driver", cure=f"remove {folder} and run {INSTALL} again"
        )
    content = {"file_format_version": "1.0.0", "ICD": {"api_version": "1.4.305", "library_path": str(libraries[0])}}
    unfinished = manifest().with_suffix(".part")
    unfinished.write_text(json.dumps(content))
    unfinished.rename(manifest())
    return manifest()


def _fetch(package: str, options: list[str], suite: str, folder: Path) -> None:
    """The suite's own package, else (for the loader, which backports may lack) the system's."""
    try:
        _call(["apt-get", "-qq", *options, "download", f"{package}/{suite}"], folder)
    except Unsupported:
        if package == PACKAGES[0]:
            raise
        _call(["apt-get", "-qq", "download", package], folder)


def _call(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unsupported(
            f"{' '.join(command[:2])} failed: {done.stderr.strip().splitlines()[-1:] or done.returncode}",
            cure="check the network and the package sources, or install a Vulkan driver by hand",
        )


def _codename() -> str:
    release = platform.freedesktop_os_release()
    if release.get("ID") != "debian" or "VERSION_CODENAME" not in release:
        raise Unsupported(
            f"no recipe for the software driver on {release.get('PRETTY_NAME', 'this system')}",
            cure="install a Vulkan driver (Mesa 25 has a good lavapipe) with its package manager",
        )
    return release["VERSION_CODENAME"]


def _backports_source() -> str:
    """The machine's own mirror, asked for the backports suite."""
    for path in SOURCES:
        if not path.is_file():
            continue
        text = path.read_text()
        mirror = re.search(r"^URIs:\s*(\S+)", text, re.M) or re.search(r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)", text, re.M)
        signed = re.search(r"^Signed-By:\s*(\S+)", text, re.M)
        if mirror:
            option = f"[signed-by={signed.group(1)}] " if signed else ""
            return f"deb {option}{mirror.group(1)} {_codename()}-backports main\n"
    raise Unsupported("no Debian package source is configured", cure="add one, or install a Vulkan driver by hand")
