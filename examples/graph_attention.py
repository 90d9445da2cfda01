"""Paged attention as a task graph: 1,040 tasks, 1,520 edges that nobody wrote down, and the answer of numpy."""

import numpy as np

from whet.graph import Runtime, workloads
from whet.graph.computations import from_bfloat16, paged_attention

work = workloads.make("pa:Case4")
attention = paged_attention(work)
with Runtime(workers=2, window=128, heap_bytes=128 << 10) as rt:
    attention.batch.submit(rt)
    rt.wait()
    print(f"{work.tasks} tasks, {work.edges} edges")
    print("heap", rt.peaks()["heap_bytes"].advice)

query, keys, values = (from_bfloat16(attention.inputs[name]) for name in ("query", "keys", "values"))
blocks = attention.inputs["table"][0]
k, v = keys[blocks].reshape(-1, 16), values[blocks].reshape(-1, 16)
weights = np.exp(query[0] @ k.T)
want = weights @ v / weights.sum(axis=1, keepdims=True)
print("first sequence right:", np.allclose(attention.answer[0], want, atol=2e-3))
