"""`python -m whet.gpu` fetches the software Vulkan driver."""

from __future__ import annotations

import sys

from whet.errors import Unsupported
from whet.gpu.driver import install

try:
    print(f"software Vulkan driver: {install()}")
except Unsupported as error:
    print(f"no software Vulkan driver: {error}", file=sys.stderr)
    raise SystemExit(int(error.exit_code)) from None
