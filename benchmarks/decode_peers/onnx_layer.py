"""The layer as an ONNX graph: MatMul for f32, the runtime's own MatMulNBits for 8- and 4-bit weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

MATRICES = ("q", "k", "v", "o", "gate", "up", "down")
BLOCK_8 = 128  # columns with one scale; rows have one scale, so it is repeated


class Graph:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.small: list[Any] = []
        self.large: dict[str, np.ndarray] = {}
        self.about: list[Any] = []

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        out = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], domain=domain, **attributes))
        return out

    def constant(self, name: str, value: Any, dtype: type = np.float32) -> str:
        array = np.asarray(value, dtype)
        kind = TensorProto.INT64 if dtype is np.int64 else TensorProto.FLOAT
        self.small.append(helper.make_tensor(name, kind, array.shape, array.reshape(-1)))
        return name

    def weight(self, name: str, array: np.ndarray) -> str:
        """Named in the graph as data that lies elsewhere; the session gets the array itself."""
        self.large[name] = np.ascontiguousarray(array)
        kind = TensorProto.FLOAT if array.dtype == np.float32 else TensorProto.UINT8
        tensor = TensorProto(name=name, data_type=kind, dims=array.shape, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "given"), ("offset", "0"), ("length", str(array.nbytes))):
            tensor.external_data.add(key=key, value=value)
        self.small.append(tensor)
        return name


def product(g: Graph, kind: str, weights: tuple[np.ndarray, np.ndarray | None], name: str, h: str) -> str:
    values, scale = weights
    rows, cols = values.shape
    if scale is None:
        return g.add("MatMul", h, g.weight(name, values.T))
    if kind == "int8":
        bits, block = 8, BLOCK_8
        packed = (values.astype(np.int16) + 128).astype(np.uint8).reshape(rows, cols // block, block)
        scales = np.repeat(scale, cols // block)
    else:
        bits, block = 4, cols // scale.shape[1]
        codes = (values.astype(np.int16) + 8).astype(np.uint8).reshape(rows, cols // block, block)
        packed = codes[:, :, 0::2] | (codes[:, :, 1::2] << 4)
        scales = scale.reshape(-1)
    inputs = (h, g.weight(name, packed), g.weight(f"{name}_scale", scales.astype(np.float32)))
    return g.add("MatMulNBits", *inputs, domain="com.microsoft", K=cols, N=rows, bits=bits, block_size=block)


def layer_model(kind: str, sizes: dict[str, int], given: dict[str, np.ndarray]) -> tuple[bytes, dict[str, np.ndarray]]:
    g = Graph()
    heads, kv, dim, hidden = (sizes[name] for name in ("q_heads", "kv_heads", "head_dim", "hidden"))
    eps, scale = g.constant("eps", [sizes["eps"]]), g.constant("scale", [1 / np.sqrt(dim)])
    last = g.constant("last", [-1], np.int64)

    def norm(v: str) -> str:
        mean = g.add("ReduceMean", g.add("Mul", v, v), last, keepdims=1)
        return g.add("Div", v, g.add("Sqrt", g.add("Add", mean, eps)))

    def times(name: str, h: str) -> str:
        return product(g, kind, (given[f"in.{name}"], given.get(f"in.{name}.scale")), name, h)

    def shaped(v: str, name: str, *size: int) -> str:
        return g.add("Reshape", v, g.constant(name, size, np.int64))

    h = norm("x")
    q = shaped(times("q", h), "q_shape", kv, heads // kv, dim)
    cached = []
    for name in "kv":
        past = given[f"in.past_{name}"]
        new = shaped(times(name, h), f"{name}_shape", kv, 1, dim)
        cached.append(g.add("Concat", g.constant(f"past_{name}", past), new, axis=1))
    scores = g.add("Mul", g.add("MatMul", q, g.add("Transpose", cached[0], perm=[0, 2, 1])), scale)
    a = g.add("MatMul", g.add("Softmax", scores, axis=-1), cached[1])
    r = g.add("Add", "x", times("o", shaped(a, "a_shape", 1, heads * dim)))
    h = norm(r)
    gate = times("gate", h)
    h = g.add("Mul", g.add("Mul", gate, g.add("Sigmoid", gate)), times("up", h))
    g.nodes.append(helper.make_node("Add", [r, times("down", h)], ["out"]))
    graph = helper.make_graph(
        g.nodes,
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, hidden])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, hidden])],
        initializer=g.small,
    )
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    return model.SerializeToString(), g.large
