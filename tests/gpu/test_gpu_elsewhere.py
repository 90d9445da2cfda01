"""The same programs, byte for byte, under wgpu, Dawn and Chromium: equal outputs, typed faults, nothing left behind."""

from __future__ import annotations

import json
from contextlib import contextmanager

import numpy as np
import pytest
from test_gpu_field import OPERATIONS, kernel, operands, pack

from whet.errors import BadInput, DeviceError, DeviceLost, DeviceOutOfMemory, DeviceTimeout, ShaderError, Unsupported
from whet.gpu import Clear, Copy, Kernel, Pass, Program, Span, Write, trust
from whet.gpu import browser as browser_module
from whet.gpu import dawn as dawn_module
from whet.gpu.assembler import Folder
from whet.gpu.portable import Outcome, decode, encode, run_here
from whet.gpu.schedule import Pace
from whet.gpu.trust import require_good_runner

pytestmark = [pytest.mark.gpu, pytest.mark.browser, pytest.mark.xdist_group("elsewhere")]

# Uniform and storage bindings, a pipeline constant, an indirect size and a bound that is read from a buffer.
MIX = """
override factor: u32 = 1u;
struct Parameters { offset: u32, count: u32 }
@group(0) @binding(0) var<uniform> parameters: Parameters;
@group(0) @binding(1) var<storage, read> source: array<u32>;
@group(0) @binding(2) var<storage, read_write> mixed: array<u32>;
@compute @workgroup_size(64) fn mix(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < parameters.count) { mixed[id.x] = factor * source[id.x] + parameters.offset; }
}
"""


def everything_program():
    """Every kind of step and binding there is, with an answer that needs each of them done right and in order."""
    mix = Kernel(MIX, "mix", (("factor", 5.0),))
    plain = Kernel(MIX, "mix")
    steps = (
        Pass("indirect", mix, ("parameters", Span("source", 256, 512), "mixed"), indirect=("sizes", 4)),
        Copy("mixed", "kept", 64, source_offset=32, target_offset=128),
        Clear("mixed", 16, 32),
        Pass("direct", plain, ("parameters", "mixed", "again"), (2, 1, 1)),
        Clear("kept", 0, 128),
        Clear("kept", 192),
    )
    constants = {
        "parameters": np.array([7, 100], np.uint32),
        "source": np.arange(192, dtype=np.uint32),
        "sizes": np.array([0, 2, 1, 1], np.uint32),
    }
    sizes = {"parameters": 8, "source": 768, "sizes": 16, "mixed": 512, "kept": 256, "again": 512}
    mixed = np.zeros(128, np.uint32)
    mixed[:100] = 5 * np.arange(64, 164) + 7
    kept = np.zeros(64, np.uint32)
    kept[32:48] = mixed[8:24]
    mixed[4:12] = 0
    again = np.zeros(128, np.uint32)
    again[:100] = mixed[:100] + 7
    return Program(sizes, (Clear("mixed"), Clear("again"), *steps), constants), {
        "mixed": mixed,
        "kept": kept,
        "again": again,
    }


def field_program(pairs, fault=("", "")):
    """Every field operation, each in a pass of its own, on the same operands."""
    names = {expression: f"result{i}" for i, expression in enumerate(OPERATIONS)}
    size = 32 * len(pairs)
    steps = tuple(
        Pass(name, Kernel(kernel(expression, fault=fault), "field"), ("a", "b", name), (len(pairs) // 64, 1, 1))
        for expression, name in names.items()
    )
    program = Program({"a": size, "b": size, **dict.fromkeys(names.values(), size)}, steps)
    return program, {"a": pack([a for a, _ in pairs]), "b": pack([b for _, b in pairs])}, list(names.values())


@pytest.mark.parametrize("timed", [True, False])
def test_every_step_and_binding_means_the_same_here(device, timed):
    program, expected = everything_program()
    outcome = run_here(device, program, {}, list(expected), timed=timed)
    for name, want in expected.items():
        assert np.array_equal(outcome.outputs[name], want), name
    assert device.ledger.live_bytes == 0


@pytest.mark.parametrize("timed", [True, False])
def test_every_step_and_binding_means_the_same_elsewhere(elsewhere, timed, tried):
    program, expected = everything_program()
    outcome = elsewhere(program, {}, list(expected), timed=timed)
    for name, want in expected.items():
        assert np.array_equal(outcome.outputs[name], want), name
    assert [name for name, _ in outcome.passes] == ["indirect", "direct"]
    assert outcome.adapter["architecture"]
    assert len(outcome.walls_ns) == 1 and outcome.walls_ns[0] > 0, "with timestamps or without"
    assert timed or [spent for _, spent in outcome.passes] == [None, None]
    tried("programs run elsewhere")


def scheduled_program():
    """Two writes into one buffer, each followed by two passes that are merged where they are not timed.

    The second pass of each reads what the first wrote, and a copy between them and the next write keeps it.
    """
    double, plain = Kernel(MIX, "mix", (("factor", 2.0),)), Kernel(MIX, "mix")
    passes = (
        Pass("first", double, ("parameters", "source", "mixed"), (1, 1, 1), cost_ns=1e6),
        Pass("second", plain, ("parameters", "mixed", "again"), (1, 1, 1), cost_ns=1e6),
    )
    steps = (
        Write("words", "source", 256),
        *passes,
        Copy("again", "kept", 256),
        Clear("again", 0, 4),
        Write("words", "source", 128, upload_offset=384, buffer_offset=64),
        *passes,
        Copy("again", "kept", 256, target_offset=256),
    )
    sizes = {"parameters": 8, "source": 256, "mixed": 256, "again": 256, "kept": 512}
    words = np.arange(1000, 1128, dtype=np.uint32)
    source = words[:64].copy()
    first = 2 * source + 14
    source[16:48] = words[96:]
    program = Program(sizes, steps, {"parameters": np.array([7, 64], np.uint32)}, {"words": 512})
    return program, {"words": words}, np.concatenate([first, 2 * source + 14])


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("limit_ns", [1e12, 1.0], ids=["two submissions", "a submission per pass"])
def test_a_schedule_means_the_same_here(device, timed, limit_ns):
    program, inputs, expected = scheduled_program()
    outcome = run_here(device, program, inputs, ["kept"], timed=timed, pace=Pace(limit_ns))
    assert np.array_equal(outcome.outputs["kept"], expected)
    assert len(outcome.walls_ns) == (2 if limit_ns > 1 else 4)


@pytest.mark.parametrize(("timed", "limit_ns", "submissions"), [(True, 1.0, 4), (False, 1e12, 2)])
def test_a_schedule_means_the_same_elsewhere(elsewhere, timed, limit_ns, submissions, tried):
    program, inputs, expected = scheduled_program()
    outcome = elsewhere(program, inputs, ["kept"], timed=timed, pace=Pace(limit_ns))
    assert np.array_equal(outcome.outputs["kept"], expected)
    assert len(outcome.walls_ns) == submissions and min(outcome.walls_ns) > 0
    assert [name for name, _ in outcome.passes] == ["first", "second"] * 2
    tried("programs run elsewhere")


RUNNER_FAULTS = {
    "write left out": ("device.queue.writeBuffer(buffers[buffer]", "void (buffers[buffer]"),
    "write from the start of the upload": ("bytes, upload_offset, size_bytes", "bytes, 0, size_bytes"),
    "write to the start of the buffer": ("buffers[buffer], buffer_offset", "buffers[buffer], 0"),
    "first submission alone": ("of submissions)", "of submissions.slice(0, 1))"),
    "pass open over a copy": ('(clock || !("pass" in step))', "clock"),
    "merged passes lose the second": (
        "dispatch(device, pass, step, buffers, pipelines",
        "if (index % 2 == 0) dispatch(device, pass, step, buffers, pipelines",
    ),
}


@contextmanager
def planted(browser, sound, wrong):
    """The page's runner with a change in its source, loaded as a module of its own."""
    text = browser_module.RUNNER_FILE.read_text()
    assert text.count(sound) == 1, "the fault is in the source"
    script = "async (text) => { globalThis.kept = globalThis.runner;"
    script += " const blob = new Blob([text], { type: 'text/javascript' });"
    script += " globalThis.runner = { ...(await import(URL.createObjectURL(blob))) }; }"
    browser._page.evaluate(script, text.replace(sound, wrong))
    try:
        yield
    finally:
        browser._page.evaluate("runner.resetSession(); globalThis.runner = globalThis.kept; null")


@pytest.mark.parametrize("what", RUNNER_FAULTS)
def test_a_planted_fault_in_the_pages_schedule_shows(browser, what, tried):
    program, inputs, expected = scheduled_program()
    with planted(browser, *RUNNER_FAULTS[what]):
        try:
            outcome = browser.run(program, inputs, ["kept"], timed=False)
            assert not np.array_equal(outcome.outputs["kept"], expected)
        except DeviceError:
            pass
    assert np.array_equal(browser.run(program, inputs, ["kept"], timed=False).outputs["kept"], expected)
    tried("planted faults")


def test_a_page_keeps_its_device_and_kernels(browser):
    program, inputs, _ = scheduled_program()
    browser.run(program, inputs, ["kept"])
    before = browser._page.evaluate("runner.currentSession().mark = 'kept'; runner.currentSession().pipelines.size")
    browser.run(program, inputs, ["kept"])
    script = "[runner.currentSession().mark ?? null, runner.currentSession().pipelines.size]"
    assert browser._page.evaluate(script) == ["kept", before]
    browser._page.evaluate("runner.resetSession(); null")
    browser.run(program, inputs, ["kept"])
    assert browser._page.evaluate(script) == [None, 2]


# A session of its own, kept open, that runs one program several times with buffers that stay. Bytes, no base64.
SESSION = """async ([request, uploads]) => {
    const session = await runner.Session.open();
    const pipelines = await session.compile(request.kernels);
    const buffers = await session.allocate(request.buffers);
    const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    for (const [name, text] of Object.entries(request.contents)) await session.write(buffers[name], bytes(text));
    const sent = { words: bytes(uploads) };
    const work = { submissions: request.submissions, pipelines, buffers, uploads: sent };
    const told = {};
    told.sums = [];
    for (let turn = 0; turn < 2; turn++) {
        await session.run(work);
        const words = new Uint32Array((await session.read(buffers.kept)).buffer);
        told.sums.push(words.reduce((a, b) => a + b, 0));
    }
    told.live = session.liveBytes;
    told.peak = session.peakBytes;
    const control = new AbortController();
    let submitted = 0;
    const observe = () => { submitted++; control.abort(); };
    told.aborted = await session.run({ ...work, signal: control.signal, observe }).catch((error) => error.name);
    told.submitted = submitted;
    told.early = await session.compile(request.kernels, control.signal).catch((error) => error.name);
    told.full = await session.allocate({ a: 256, huge: 1e15 }).catch((error) => error.kind);
    told.after = session.liveBytes;
    const waiting = session.run(work).catch((error) => error.kind);
    session.device.destroy();
    told.lost = await waiting;
    told.later = await session.allocate({ a: 256 }).catch((error) => error.kind);
    told.read = await session.read(buffers.kept).catch((error) => error.kind);
    session.close();
    told.none = await runner.Session.open(null).catch((error) => error.kind);
    return told;
}"""


def test_a_session_keeps_buffers_stops_between_submissions_and_types_its_faults(browser, tried):
    program, inputs, expected = scheduled_program()
    request = encode(program, inputs, ["kept"], timed=False, pace=Pace(1.0))
    told = browser._page.evaluate(SESSION, [request, request["uploads"]["words"]])
    size = sum(program.buffers.values())
    assert told["sums"] == [int(expected.sum(dtype=np.int64))] * 2, "the second run uses the same buffers"
    assert (told["live"], told["peak"], told["after"]) == (size, size + program.buffers["kept"], size)
    assert (told["aborted"], told["submitted"], told["early"]) == ("AbortError", 1, "AbortError")
    assert told["full"] in ("memory", "device"), "some implementations refuse the size before they try"
    assert (told["lost"], told["later"], told["read"], told["none"]) == ("lost", "lost", "lost", "adapter")
    tried("sessions")


def test_field_arithmetic_is_equal_to_the_bit_elsewhere(device, elsewhere, tried):
    program, inputs, outputs = field_program(operands(4)[:512])
    here = run_here(device, program, inputs, outputs)
    there = elsewhere(program, inputs, outputs)
    for name in outputs:
        assert np.array_equal(there.outputs[name], here.outputs[name]), name
    for name, spent_ns in there.passes:
        assert spent_ns is None or 0 < spent_ns < 120e9, name
    tried("differential operations", 512 * len(outputs))


def test_a_planted_fault_shows_elsewhere(elsewhere, tried):
    """The other compilers see the very source that was sent: a dropped carry is dropped there too."""
    pairs = operands(5)[:64]
    expression = "fe_mul(a[i], b[i])"
    source = kernel(expression, fault=("t1 += t0 >> 13u;", ""))
    step = Pass("field", Kernel(source, "field"), ("a", "b", "result"), (1, 1, 1))
    program = Program({"a": 2048, "b": 2048, "result": 2048}, (step,))
    inputs = {"a": pack([a for a, _ in pairs]), "b": pack([b for _, b in pairs])}
    found = elsewhere(program, inputs, ["result"]).outputs["result"].tobytes()
    want = pack([OPERATIONS[expression](a, b) for a, b in pairs]).tobytes()
    assert found != want
    tried("planted faults")


def one_pass(source, **sizes):
    return Program({"result": 64, **sizes}, (Pass("p", Kernel(source, "main"), ("result",), (1, 1, 1)),))


SOUND = """@group(0) @binding(0) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(1) fn main() { result[0] = 41u + 1u; }
"""
BROKEN = {
    "syntax": (one_pass(SOUND.replace("41u", "41u +")), ShaderError, None),
    "type": (one_pass(SOUND.replace("1u;", "1.0;")), ShaderError, 2),
    "workgroup": (one_pass(SOUND.replace("size(1)", "size(512)")), ShaderError, None),
    "workgroup memory": (
        one_pass("var<workgroup> shared_words: array<u32, 4097>;" + SOUND.replace("41u", "shared_words[result[1]]")),
        ShaderError,
        None,
    ),
    "missing entry": (one_pass(SOUND.replace("fn main", "fn other")), ShaderError, None),
    "too many bytes": (one_pass(SOUND, huge=(256 << 20) + 4), DeviceError, None),
    "binding": (
        Program({"result": 64}, (Pass("p", Kernel(SOUND, "main"), ("result", "result"), (1, 1, 1)),)),
        DeviceError,
        None,
    ),
    "copy out of bounds": (Program({"result": 64, "x": 64}, (Copy("result", "x", 128),)), DeviceError, None),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_a_browser_refuses_is_typed_in_chromium(browser, what, tried):
    refuse_then_work(browser.run, *BROKEN[what])
    tried("malformed inputs")


@pytest.mark.parametrize("what", ["type", "workgroup", "too many bytes"])
def test_what_a_browser_refuses_is_typed_under_dawn(dawn, what, tried):
    refuse_then_work(dawn, *BROKEN[what])
    tried("malformed inputs")


def test_a_kernel_that_does_not_compile_elsewhere_names_its_file(elsewhere, tmp_path, tried):
    """The second kernel of the program is wrong, in a file that it imports."""
    (tmp_path / "kernel.wgsl").write_text("//# import part\n" + SOUND.replace("41u", "part()"))
    (tmp_path / "part.wgsl").write_text("// A part.\n//# if a == 1\n//# end\nfn part() -> u32 {\n    return 41.5;\n}\n")
    broken = Kernel.of(Folder(tmp_path).assemble("kernel", a=1), "main")
    passes = [Pass("p", kernel, ("result",), (1, 1, 1)) for kernel in (Kernel(SOUND, "main"), broken)]
    with pytest.raises(ShaderError, match=r"part\.wgsl:5") as caught:
        elsewhere(Program({"result": 64}, tuple(passes)), {}, ["result"])
    assert (caught.value.origin, caught.value.line) == ("part.wgsl:5", 3)
    tried("planted faults")


def refuse_then_work(run, program, kind, line):
    with pytest.raises(kind) as caught:
        run(program, {}, ["result"])
    assert caught.value.cure
    if line is not None:
        assert caught.value.line == line
    assert run(one_pass(SOUND), {}, ["result"]).outputs["result"][0] == 42, "the next run works"


def test_names_and_sizes_are_checked_before_anything_is_sent(tried):
    program = one_pass(SOUND)
    with pytest.raises(BadInput, match="'nothing'"):
        encode(program, {}, ["nothing"])
    with pytest.raises(BadInput, match="'nothing'"):
        encode(program, {"nothing": np.zeros(1, np.uint32)}, [])
    with pytest.raises(BadInput, match="holds 64"):
        encode(program, {"result": np.zeros(17, np.uint32)}, [])
    with pytest.raises(BadInput, match="multiples of four"):
        encode(program, {"result": np.zeros(3, np.uint8)}, [])
    scheduled, inputs, _ = scheduled_program()
    for wrong in ({}, {"words": inputs["words"][1:]}):
        with pytest.raises(BadInput, match="uploads"):
            encode(scheduled, wrong, ["kept"])
    with pytest.raises(BadInput, match="'words'"):
        encode(scheduled, inputs, ["words"])
    tried("malformed inputs", 7)


def test_an_answer_that_makes_no_sense_is_no_result(tried):
    good = {"outputs": {"x": "AAAAAA=="}, "passes": [["p", 1.5]], "walls": [2.5], "adapter": {}, "messages": []}
    assert decode(good, where="nowhere").outputs["x"].tolist() == [0]
    wrong = [
        {},
        {**good, "outputs": {"x": "!"}},
        {**good, "outputs": {"x": "AAAA"}},
        {**good, "passes": [["p"]]},
        {**good, "walls": [None]},
    ]
    for answer in wrong:
        with pytest.raises(DeviceError, match="nonsense"):
            decode(answer, where="nowhere")
    kinds = {
        "shader": ShaderError,
        "adapter": Unsupported,
        "memory": DeviceOutOfMemory,
        "lost": DeviceLost,
        "?": DeviceError,
    }
    for kind, expected in kinds.items():
        with pytest.raises(expected, match="nowhere"):
            decode({"fault": {"kind": kind, "message": ""}}, where="nowhere")
    tried("malformed inputs", len(wrong) + len(kinds))


@pytest.mark.parametrize("trips", [90_000, 65_535, 0])
def test_a_runner_whose_driver_leaves_loops_early_is_refused(trips):
    """Mesa 22's trips, and none at all."""

    def run(program, inputs, outputs):
        assert list(inputs["probe"]) == [0, 300, 0, 0] and list(outputs) == ["probe"]
        adapter = {"device": "llvmpipe", "description": "Mesa 22"}
        return Outcome({"probe": np.array([trips, 300, 0, 0], np.uint32)}, [], [], adapter)

    if trips == 90_000:
        require_good_runner(run)
        return
    with pytest.raises(Unsupported, match="llvmpipe Mesa 22 leaves loops early") as caught:
        require_good_runner(run)
    assert caught.value.cure


def test_a_known_answer_is_asked_elsewhere_before_the_first_run(browser, dawn, monkeypatch):
    """Once; and nothing is run on a driver that does not give it."""
    dawn(one_pass(SOUND), {}, ["result"])
    monkeypatch.setattr(browser, "_believed", False)
    monkeypatch.setattr(dawn_module, "_believed", set())
    program = one_pass(SOUND)
    asked = []

    def refuse(run):
        asked.append(run(*trust._probe(), ["probe"]).outputs["probe"][0])
        raise Unsupported("this driver is refused", cure="use another")

    for module, run in ((browser_module, browser.run), (dawn_module, dawn_module.run)):
        with monkeypatch.context() as patch:
            patch.setattr(module, "require_good_runner", refuse)
            with pytest.raises(Unsupported, match="refused"):
                run(program, {}, ["result"])
        assert run(program, {}, ["result"]).outputs["result"][0] == 42
        with monkeypatch.context() as patch:
            patch.setattr(module, "require_good_runner", refuse)
            assert run(program, {}, ["result"]).outputs["result"][0] == 42
    assert asked == [90_000] * 2


def test_a_page_fetches_its_uploads_as_bytes(browser, monkeypatch, tried):
    """Contents and uploads, each the one that was meant; what is asked of the page holds addresses alone."""
    words = np.random.default_rng(3).integers(0, 2**32, 1 << 18, np.uint32)
    half = words.nbytes // 2
    steps = (Write("sent", "target", half, half, 0), Copy("source", "kept", words.nbytes), Copy("target", "kept", half))
    program = Program(
        {name: words.nbytes for name in ("source", "target", "kept")}, steps, uploads={"sent": words.nbytes}
    )
    inputs = {"source": words, "sent": words[::-1].copy()}
    expected = np.concatenate([inputs["sent"][1 << 17 :], words[1 << 17 :]])
    asked = []
    evaluate = type(browser._page).evaluate
    monkeypatch.setattr(type(browser._page), "evaluate", lambda *given: asked.append(given[-1]) or evaluate(*given))
    assert (browser.run(program, inputs, ["kept"]).outputs["kept"] == expected).all()
    assert len(json.dumps(asked)) < 2000
    # Served in another order they are another program's.
    monkeypatch.setattr(browser, "_carry", lambda data, carry=browser._carry: carry(data[::-1]))
    assert (browser.run(program, inputs, ["kept"]).outputs["kept"] != expected).any()
    tried("programs run elsewhere", 2)


def test_a_run_that_takes_too_long_is_given_up(dawn):
    with pytest.raises(DeviceTimeout):
        dawn(one_pass(SOUND), {}, ["result"], time_limit_s=0.01)


def test_a_page_that_never_answers_is_given_up(browser):
    browser._page.evaluate("globalThis.kept = runner.runProgram; runner.runProgram = () => new Promise(() => {}); null")
    try:
        with pytest.raises(DeviceTimeout):
            browser.run(one_pass(SOUND), {}, ["result"], time_limit_s=0.2)
    finally:
        browser._page.evaluate("runner.runProgram = kept; null")


def test_one_browser_per_thread_says_so(browser):
    with pytest.raises(Unsupported, match="Playwright cannot start"):
        type(browser)()
