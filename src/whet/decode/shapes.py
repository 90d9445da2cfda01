"""Shapes of a decode layer, and the ones that have a name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from whet.errors import BadInput

LANES = 16
MAX_BATCH = 8


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of one layer.

    own_token   project k and v of the new token and attend to it, behind what the cache holds.
    quantise    round the input of `down` to 4-bit floats with block scales.
    """

    hidden: int
    intermediate: int
    q_heads: int
    kv_heads: int
    head_dim: int
    eps: float = 1e-6
    own_token: bool = True
    quantise: bool = False

    def __post_init__(self) -> None:
        for name in ("hidden", "intermediate", "q_heads", "kv_heads", "head_dim"):
            size = getattr(self, name)
            if not isinstance(size, int) or not 1 <= size <= 2**24:
                raise BadInput(f"{name} is {size!r}", cure="give a whole number from 1 to 2^24")
        if self.head_dim % LANES:
            raise BadInput(f"head_dim is {self.head_dim}", cure=f"use a multiple of {LANES}")
        if self.q_heads % self.kv_heads:
            raise BadInput(
                f"{self.q_heads} query heads cannot share {self.kv_heads} KV heads",
                cure="make q_heads a multiple of kv_heads",
            )
        if not 0 <= self.eps < 1:
            raise BadInput(f"eps is {self.eps}", cure="give a small number, such as 1e-6")

    @property
    def q_size(self) -> int:
        return self.q_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.kv_heads * self.head_dim

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of each matrix, by its usual name."""
        own = {
            "self_attn.k_proj.weight": (self.kv_size, self.hidden),
            "self_attn.v_proj.weight": (self.kv_size, self.hidden),
        }
        return {
            "self_attn.q_proj.weight": (self.q_size, self.hidden),
            **(own if self.own_token else {}),
            "self_attn.o_proj.weight": (self.hidden, self.q_size),
            "mlp.gate_proj.weight": (self.intermediate, self.hidden),
            "mlp.up_proj.weight": (self.intermediate, self.hidden),
            "mlp.down_proj.weight": (self.hidden, self.intermediate),
        }

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


MATRIX_ORDER = tuple(Shape(hidden=1, intermediate=1, q_heads=1, kv_heads=1, head_dim=LANES).matrices())
NORM_ATTENTION = "input_layernorm.weight"
NORM_MLP = "post_attention_layernorm.weight"

SHAPES = {
    "tiny": Shape(hidden=64, intermediate=176, q_heads=4, kv_heads=2, head_dim=16),
    "llama-8b": Shape(hidden=4096, intermediate=14336, q_heads=32, kv_heads=8, head_dim=128, eps=1e-5),
    "27b": Shape(hidden=5120, intermediate=17408, q_heads=24, kv_heads=4, head_dim=256),
}
