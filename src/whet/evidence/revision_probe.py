"""`python -P -m whet.evidence.revision_probe FILE`: which variants a revision's engine offers, loaded as a bench does.

Reads a `Load` from stdin and writes an `Offer` to FILE, so that whatever the project prints disturbs nobody.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from whet.errors import BadInput, Unsupported
from whet.evidence.messages import Load, Tree
from whet.evidence.revision import Offer
from whet.evidence.revision_path import moved
from whet.protocol import Variant

PROBE_LIMIT_S = 300.0


def require_variant(ref: str, variant: Variant, tree: Tree) -> None:
    """BadInput if the revision lacks the file or the variant; Unsupported if it cannot be loaded."""
    file = variant.file or ref.partition(".py")[0] + ".py" * (".py" in ref)
    if file.endswith(".py") and not Path(moved(file, tree)).is_file():
        raise BadInput(
            f"revision {tree.label} ({tree.commit[:12]}) has no file {Path(file).name}",
            cure=f"`git log --follow {Path(file).name}` tells since when it is there",
        )
    if variant.file:
        return
    offer = _ask(Load(ref=ref, variant=variant, tree=tree))
    if offer.fault:
        raise Unsupported(
            f"revision {tree.label} ({tree.commit[:12]}) cannot be loaded: {offer.fault}",
            cure=f"look at {tree.root}; a project that has to be built needs --build CMD",
        )
    if variant.name not in offer.variants:
        raise BadInput(
            f"revision {tree.label} ({tree.commit[:12]}) has no variant {variant.name!r}",
            cure=f"it has: {', '.join(offer.variants)}",
        )


def _ask(load: Load) -> Offer:
    with tempfile.TemporaryDirectory(prefix="whet-") as folder:
        answer = Path(folder) / "offer"
        command = [sys.executable, "-P", "-m", "whet.evidence.revision_probe", str(answer)]
        try:
            done = subprocess.run(
                command, input=msgspec.json.encode(load), capture_output=True, timeout=PROBE_LIMIT_S, check=False
            )
            return msgspec.json.decode(answer.read_bytes(), type=Offer)
        except subprocess.TimeoutExpired:
            return Offer(fault=f"its import did not end within {PROBE_LIMIT_S:g} s")
        except (OSError, msgspec.MsgspecError):
            tail = done.stderr.decode(errors="replace").strip()[-300:]
            return Offer(fault=f"its import ended the process (code {done.returncode}): {tail}")


def main() -> None:
    from whet.evidence.runnable import engine_of

    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    try:
        offer = Offer(variants=[spec.name for spec in engine_of(load).variants()])
    except Exception as error:
        offer = Offer(fault=getattr(error, "cause", "") or f"{type(error).__name__}: {error}")
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(offer))


if __name__ == "__main__":
    main()
