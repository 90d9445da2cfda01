"""A kernel that is wrong on purpose: the unrolled sum forgets the last rows that do not fill a group of four.

whet ab examples/wrong_on_purpose.py plain unrolled --quick

is refused with exit code 3, names the smallest case that fails and prints a command that fails again.
"""

import numpy as np

from whet.protocol import Case, Engine, Output, VariantSpec


class ColumnSums(Engine):
    name = "column-sums"

    def cases(self):
        return [Case(sizes={"rows": rows, "columns": 32}) for rows in (1, 4, 64, 250, 1001)]

    def variants(self):
        return [VariantSpec("plain", "numpy"), VariantSpec("unrolled", "four rows at a time, tail forgotten")]

    def outputs(self, case):
        return {"sums": Output((case.sizes["columns"],), np.int64)}

    def prepare(self, case, seed):
        shape = (case.sizes["rows"], case.sizes["columns"])
        return {"table": np.random.default_rng(seed).integers(-1000, 1000, shape)}

    def run(self, variant, state, inputs, outputs):
        table, sums = inputs["table"], outputs["sums"]
        sums[:] = 0
        if variant.name == "plain":
            sums += table.sum(axis=0)
        else:
            for row in range(0, len(table) - 3, 4):
                sums += table[row] + table[row + 1] + table[row + 2] + table[row + 3]

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"sums": np.array([sum(column) for column in zip(*inputs["table"].tolist(), strict=True)])}
