"""Functions as files: what travels, what is refused, and that each process reads its own only."""

from __future__ import annotations

import threading
from pathlib import Path
from subprocess import run
from sys import executable
from textwrap import dedent

import numpy as np
import pytest

from whet.errors import BadInput
from whet.evidence.registry import load
from whet.functions import bundle
from whet.functions.describing import describe
from whet.protocol import Case, Variant

FACTOR = 3.0


def make(n, rng):
    return {"x": rng.normal(size=n)}


def times(x):
    return FACTOR * x


def left(folder: Path, variant=times, oracle=times, inputs=make) -> Path:
    about = describe({"f": variant}, inputs, oracle, sizes={"n": 4})
    return bundle.write(folder, about, {"f": variant}, inputs, oracle)


def test_closures_and_lambdas_travel(tmp_path):
    by = np.arange(4.0)
    engine = load(str(left(tmp_path, lambda x: by * x))).engine
    case = Case(sizes={"n": 4})
    outputs = {"result": np.zeros(4)}
    engine.run(Variant("f"), engine.setup(Variant("f"), case, {}, "cpu"), {"x": np.ones(4)}, outputs)
    assert outputs["result"].tolist() == [0, 1, 2, 3]


def test_the_same_functions_are_left_once(tmp_path):
    first, again = left(tmp_path), left(tmp_path)
    assert first == again and len(list(tmp_path.iterdir())) == 1
    assert load(str(first)).sha256 == load(str(again)).sha256
    other = left(tmp_path, lambda x: 3.0 * x)
    assert load(str(other)).sha256 != load(str(first)).sha256


def test_many_threads_leave_the_same(tmp_path):
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(left(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1 and len(list(tmp_path.iterdir())) == 1


def test_a_bench_needs_neither_oracle_nor_inputs(tmp_path):
    """And the referee no variant: broken pickles of the others do not matter."""
    place = left(tmp_path)
    for name in ("inputs.pickle", "oracle.pickle"):
        (place / name).write_bytes(b"broken")
    engine = load(str(place)).engine
    engine.setup(Variant("f"), Case(sizes={"n": 4}), {}, "cpu")
    with pytest.raises(BadInput, match="inputs cannot be loaded in its own process"):
        engine.prepare(Case(sizes={"n": 4}), 1)


def test_what_cannot_be_sent_is_said(tmp_path):
    lock = threading.Lock()

    def guarded(x):
        with lock:
            return x

    with pytest.raises(BadInput, match=r"variant f cannot be sent to another process.*lock.*inside the function"):
        left(tmp_path, guarded)


def test_what_is_too_large_is_said(tmp_path):
    table = np.zeros(bundle.MOST_BYTES // 8 + 1)
    with pytest.raises(BadInput, match=r"carries 64 MiB with it.*let inputs\(\) make large arrays"):
        left(tmp_path, lambda x: table[: len(x)])


def test_old_ones_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MOST_KEPT", 3)
    made = [left(tmp_path, lambda x, k=k: x + k) for k in range(6)]
    assert made[-1].is_dir() and len(list(tmp_path.iterdir())) == 3


def test_a_folder_of_something_else(tmp_path):
    (tmp_path / "empty.whet").mkdir()
    with pytest.raises(BadInput, match="does not hold functions"):
        load(str(tmp_path / "empty.whet"))


def test_a_module_that_other_processes_cannot_import(tmp_path):
    """By value: neither the module's folder nor the modules beside it need to be on anybody's path."""
    (tmp_path / "beside.py").write_text("def twice(x):\n    return 2 * x\n")
    (tmp_path / "kernels.py").write_text(
        "from beside import twice\nOFFSET = 1\ndef f(x):\n    return twice(x) + OFFSET\n"
    )
    script = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import kernels
        from pathlib import Path
        from whet.functions import bundle
        from whet.functions.describing import describe
        def make(n, rng): return rng.normal(size=n)
        about = describe({{"f": kernels.f}}, make, kernels.f)
        print(bundle.write(Path({str(tmp_path)!r}), about, {{"f": kernels.f}}, make, kernels.f))
    """
    done = run([executable, "-c", dedent(script)], capture_output=True, text=True, check=True)
    place = done.stdout.strip()
    script = f"""
        from whet.evidence.registry import load
        from whet.protocol import Case, Variant
        import numpy as np
        engine = load({place!r}).engine
        outputs = {{"result": np.zeros(2)}}
        call = engine.setup(Variant("f"), Case(sizes={{}}), {{}}, "cpu")
        engine.run(Variant("f"), call, {{"0": np.ones(2)}}, outputs)
        print(outputs["result"].tolist())
    """
    done = run([executable, "-P", "-c", dedent(script)], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[3.0, 3.0]"
