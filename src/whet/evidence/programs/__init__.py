"""Programs under the same trial: commands that are started, timed from start to end, and whose outputs must agree."""

from whet.evidence.programs.comparison import compare_programs
from whet.evidence.programs.program import Program, Setting, expand

__all__ = ["Program", "Setting", "compare_programs", "expand"]
