"""One peer from PyPI behind lines of JSON. Runs in build/peers.

{"files": {…}, "load": threads} first, then {"files": {…}, "calls": how many in a row}; the answer has the times of one
call. Files hold little-endian limbs: points and scalars plain and in Montgomery form (R = 2^256).
"""

import ctypes
import json
import os
import sys
import time
from pathlib import Path

P = 21888242871839275222246405745257275088696311157297823662689037894645226208583
R = 21888242871839275222246405745257275088548364400416034343698204186575808495617


def integers(data):
    return [int.from_bytes(data[i : i + 32], "little") for i in range(0, len(data), 32)]


class Zksnake:
    """Its build of arkworks has no parallel feature: with two threads allowed, CPU time is wall time."""

    def load(self, files, threads):
        if threads > 1:
            raise RuntimeError("it has one thread")
        from zksnake._algebra import ec_bn254

        self.lib = ec_bn254
        flat = integers(files["points"])
        self.points = [ec_bn254.PointG1(x, y) for x, y in zip(flat[::2], flat[1::2], strict=True)]

    def scalars(self, files):
        return [v % R for v in integers(files["scalars"])]

    def run(self, scalars):
        return self.lib.multiscalar_mul_g1(self.points, scalars)

    def affine(self, result):
        return result.x, result.y


class Mcl:
    """The package's own library, switched to the curve of EIP-196 (its number 4)."""

    def load(self, files, threads):
        import mclbn256.mclbn256 as package

        self.lib, self.threads = package.lib, threads
        if self.lib.mclBn_init(4, 44) != 0:
            raise RuntimeError("this build of mcl does not know the curve")
        data = files["points_montgomery"]
        one = (2**256 % P).to_bytes(32, "little")
        projective = b"".join(data[i : i + 64] + one for i in range(0, len(data), 64))
        self.points, self.n = ctypes.create_string_buffer(projective, len(projective)), len(data) // 64

    def scalars(self, files):
        data = files["scalars_montgomery"]
        return ctypes.create_string_buffer(data, len(data))

    def run(self, scalars):
        out = ctypes.create_string_buffer(96)
        n = ctypes.c_size_t(self.n)
        if self.threads > 1:
            self.lib.mclBnG1_mulVecMT(out, self.points, scalars, n, ctypes.c_size_t(self.threads))
        else:
            self.lib.mclBnG1_mulVec(out, self.points, scalars, n)
        return out

    def affine(self, result):
        self.lib.mclBnG1_normalize(result, result)
        x, y = (v * pow(2, -256, P) % P for v in integers(result.raw[:64]))
        return x, y


class Frx:
    def load(self, files, threads):
        os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"
        import frx
        import numpy as np
        import zk_dtypes
        from frx import lax

        self.np, self.types = np, zk_dtypes
        self.bases = np.frombuffer(files["points_montgomery"], zk_dtypes.bn254_g1_affine_mont)
        self.call = frx.jit(lax.msm)

    def scalars(self, files):
        return self.np.frombuffer(files["scalars_montgomery"], self.types.bn254_sf_mont)

    def run(self, scalars):
        return self.np.asarray(self.call(scalars, self.bases))

    def affine(self, result):
        flat = [v * pow(2, -256, P) % P for v in integers(result.tobytes())]
        if len(flat) == 2:
            return tuple(flat)
        if len(flat) == 3:  # Jacobian
            z = pow(flat[2], -1, P)
            return flat[0] * z * z % P, flat[1] * z * z * z % P
        return flat[0] * pow(flat[2], -1, P) % P, flat[1] * pow(flat[3], -1, P) % P  # x / zz, y / zzz


def main():
    peer = {"zksnake": Zksnake, "mcl": Mcl, "frx": Frx}[sys.argv[1]]()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            files = {name: Path(path).read_bytes() for name, path in request["files"].items()}
            if "load" in request:
                start = time.perf_counter()
                peer.load(files, request["load"])
                answer = {"wall_ms": 1e3 * (time.perf_counter() - start)}
            else:
                scalars, calls = peer.scalars(files), request["calls"]
                start, cpu = time.perf_counter(), time.process_time()
                for _ in range(calls):
                    result = peer.run(scalars)
                wall, used = time.perf_counter() - start, time.process_time() - cpu
                answer = {"wall_ms": 1e3 * wall / calls, "cpu_ms": 1e3 * used / calls}
                answer["x"], answer["y"] = (str(int(v)) for v in peer.affine(result))
        except Exception as error:
            answer = {"error": str(error)[:120] or type(error).__name__}
        print(json.dumps(answer), flush=True)


main()
