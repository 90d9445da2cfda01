"""The layer as a peer computes it. Runs in the peers' environment: `python peer_layer.py NAME TYPE FOLDER`.

FOLDER holds the weights, the cache (contiguous, which is easier than pages) and x, and `sizes.json`. One line is
printed when it is ready, with `out.NAME.npy` beside the inputs; then each line of input is one step, answered with its
nanoseconds. An error ends it with one line that says which.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MATRICES = ("q", "k", "v", "o", "gate", "up", "down")


def load(folder: Path) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    return json.loads((folder / "sizes.json").read_text()), {p.stem: np.load(p) for p in folder.glob("in.*.npy")}


def as_numpy(sizes: dict[str, int], given: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
    w = {name: given[f"in.{name}"] for name in MATRICES}
    past_k, past_v, x = given["in.past_k"], given["in.past_v"], given["in.x"]
    heads, kv, dim = sizes["q_heads"], sizes["kv_heads"], sizes["head_dim"]

    def norm(v: np.ndarray) -> np.ndarray:
        return v / np.sqrt((v * v).mean(dtype=np.float32) + np.float32(sizes["eps"]))

    def step() -> np.ndarray:
        h = norm(x)
        q = (w["q"] @ h).reshape(kv, heads // kv, dim)
        k = np.concatenate([past_k, (w["k"] @ h).reshape(kv, 1, dim)], axis=1)
        v = np.concatenate([past_v, (w["v"] @ h).reshape(kv, 1, dim)], axis=1)
        scores = (q @ k.transpose(0, 2, 1)) / np.float32(np.sqrt(dim))
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        a = (p @ v) / p.sum(axis=-1, keepdims=True)
        r = x + w["o"] @ a.reshape(-1)
        h = norm(r)
        g = w["gate"] @ h
        return r + w["down"] @ (g / (1 + np.exp(-g)) * (w["up"] @ h))

    return step


def as_torch(
    kind: str, sizes: dict[str, int], given: dict[str, np.ndarray], *, compiled: bool
) -> Callable[[], np.ndarray]:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_grad_enabled(False)
    heads, kv, dim = sizes["q_heads"], sizes["kv_heads"], sizes["head_dim"]
    kept = torch.float32 if kind == "f32" else torch.bfloat16

    def product(name: str) -> Callable[[Any], Any]:
        values = given[f"in.{name}"]
        if kind == "f32":
            dense = torch.from_numpy(values)
        elif kind == "bf16":
            dense = torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
        elif kind == "int8":
            packed, scale = torch.from_numpy(values), torch.from_numpy(given[f"in.{name}.scale"]).to(kept)
            return lambda h: torch._weight_int8pack_mm(h, packed, scale)
        else:
            rows, cols = values.shape
            group = sizes["group"]
            packed = torch._convert_weight_to_int4pack_for_cpu(torch.from_numpy(values.astype(np.int32) + 8), 1)
            scale = torch.from_numpy(given[f"in.{name}.scale"]).to(kept).t().contiguous()
            zeros = torch.zeros_like(scale)
            both = torch.stack([scale, zeros], dim=2).contiguous()
            assert both.shape == (cols // group, rows, 2)
            return lambda h: torch._weight_int4pack_mm_for_cpu(h, packed, group, both)
        return lambda h: torch.nn.functional.linear(h, dense)

    w = {name: product(name) for name in MATRICES}
    past_k, past_v = (torch.from_numpy(given[f"in.past_{which}"]).to(kept) for which in "kv")
    x = torch.from_numpy(given["in.x"]).reshape(1, -1)

    def norm(v: Any) -> Any:
        return (v * torch.rsqrt((v * v).mean() + sizes["eps"])).to(kept)

    def layer(x: Any) -> Any:
        h = norm(x)
        q = w["q"](h).reshape(kv, heads // kv, dim)
        k = torch.cat([past_k, w["k"](h).reshape(kv, 1, dim)], dim=1)
        v = torch.cat([past_v, w["v"](h).reshape(kv, 1, dim)], dim=1)
        a = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        r = x + w["o"](a.reshape(1, -1)).float()
        h = norm(r)
        return r + w["down"](torch.nn.functional.silu(w["gate"](h)) * w["up"](h)).float()

    run = torch.compile(layer, fullgraph=True) if compiled else layer
    return lambda: run(x).numpy().reshape(-1)


def as_onnxruntime(kind: str, sizes: dict[str, int], given: dict[str, np.ndarray]) -> Callable[[], np.ndarray]:
    import onnxruntime
    from onnx_layer import layer_model

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.log_severity_level = 3
    model, weights = layer_model(kind, sizes, given)
    names, values = zip(*weights.items(), strict=True)
    kept = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in values]
    options.add_external_initializers(list(names), kept)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {"x": given["in.x"].reshape(1, -1)}
    return lambda: session.run(None, feed)[0].reshape(-1)


def make(name: str, kind: str, folder: Path) -> Callable[[], np.ndarray]:
    sizes, given = load(folder)
    if name == "numpy":
        return as_numpy(sizes, given)
    if name == "onnxruntime":
        return as_onnxruntime(kind, sizes, given)
    return as_torch(kind, sizes, given, compiled=name == "torch.compile")


def main() -> None:
    name, kind, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    try:
        step = make(name, kind, folder)
        for _ in range(3):
            out = step()
        np.save(folder / f"out.{name}.npy", np.asarray(out, np.float32))
    except Exception as problem:
        print(f"error {type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}", flush=True)
        return
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter_ns()
        step()
        print(time.perf_counter_ns() - start, flush=True)


if __name__ == "__main__":
    main()
