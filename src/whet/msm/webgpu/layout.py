"""What the kernels' files say about memory, read from them: the record of parameters, the words of `tally`."""

from __future__ import annotations

from pathlib import Path

from whet.gpu.assembler import Folder, constants, fields

WGSL = Folder(Path(__file__).parent / "wgsl")
R_BITS = 260  # of the Montgomery form of points on the device
FIELDS = tuple(name for name in fields(WGSL.text("params"), "Params") if name != "offsets")  # words before `offsets`

_TALLY = constants(WGSL.text("tally"))
TALLY = {name.removeprefix("TALLY_"): place for name, place in _TALLY.items() if name.startswith("TALLY_")}
TALLY_WORDS = TALLY.pop("TAGS")  # before the tags
COUNTERS = tuple(name.removeprefix("COUNT_").lower() for name in _TALLY if name.startswith("COUNT_"))
FIRST_COUNTER = _TALLY[f"COUNT_{COUNTERS[0].upper()}"]
SLOT_WORDS = len(fields(WGSL.text("slot"), "Slot"))
