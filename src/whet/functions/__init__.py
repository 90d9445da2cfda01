"""Plain functions as an engine: variants, inputs and an oracle without a class."""

from whet.functions.declared import inputs, oracle, variant
from whet.functions.engine import FunctionEngine

__all__ = ["FunctionEngine", "inputs", "oracle", "variant"]
