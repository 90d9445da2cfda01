"""Wrong variants, knobs, sizes, axes and engine files by the hundred: a typed error with a cure each time."""

from __future__ import annotations

import random
from pathlib import Path

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whet.cli.app import invoke
from whet.errors import BadInput, ExitCode, WhetError
from whet.evidence import cases, registry
from whet.protocol import Case, Engine, Knob, Output, VariantSpec, parse_size, parse_variant

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "horner_numpy.py"
MANY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)


class Knobbed(Engine):
    name = "knobbed"

    def cases(self):
        return [Case(sizes={"n": 4, "m": 2}), Case(sizes={"n": 64, "m": 8})]

    def profiles(self):
        return ("random", "sorted")

    def variants(self):
        knobs = (
            Knob("width", 4, minimum=1, maximum=16),
            Knob("fast", False),
            Knob("kind", "a", choices=("a", "b")),
        )
        return [
            VariantSpec("plain", ""),
            VariantSpec("tuned", "", knobs, lambda k: "width 3 is odd" if k["width"] == 3 else None),
        ]

    def outputs(self, case):
        return {"y": Output((1,), "i8")}

    def prepare(self, case, seed):
        return {}

    def run(self, variant, state, inputs, outputs):
        outputs["y"][:] = 0

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": [0]}


def rejects(call, *arguments):
    """True if refused with a cure; a legal input is simply not counted."""
    try:
        call(*arguments)
    except WhetError as error:
        assert error.cause and error.cure and error.exit_code == ExitCode.USAGE
        return True
    return False


def test_variants_by_the_hundred(tried):
    count = 0

    @MANY
    @given(st.one_of(WORDS, st.builds("tuned:{}={}".format, st.sampled_from(["width", "fast", "kind", "x"]), WORDS)))
    def attempt(text):
        nonlocal count
        refused = rejects(parse_variant, Knobbed(), text)
        if not refused:
            assert str(parse_variant(Knobbed(), str(parse_variant(Knobbed(), text)))).startswith(("plain", "tuned"))
        count += refused

    attempt()
    assert count > 100
    tried("malformed inputs", count)


@pytest.mark.parametrize(
    "text",
    [
        *("tuned:width=0", "tuned:width=17", "tuned:width=3", "tuned:width=2^40", "tuned:width", "tuned:width="),
        *("tuned:=4", "tuned:width=4,width=4", "tuned:fast=maybe", "tuned:kind=c", "plain:width=4", "tunedd", "", ":"),
        "tuned:width=1.5",
    ],
)
def test_wrong_variant(text, tried):
    assert rejects(parse_variant, Knobbed(), text)
    tried("malformed inputs")


@pytest.mark.parametrize(
    "text, value",
    [
        *(("4096", 4096), ("2^12", 4096), ("4_096", 4096), (" 7 ", 7), ("2^0", 1), ("0", 0)),
        *(("1e5", 100_000), ("1.5E3", 1500), ("4e+18", 4 * 10**18), ("0e0", 0)),
    ],
)
def test_size_spellings(text, value):
    assert parse_size(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("9^999999999", "2^63", "1" + "0" * 5000, "2^-1", "2^", "^2", "0x10", "", "2^2^2", "½"),
        *("1.5e0", "1e-3", "1e99", "1e999999999", "5e18", "1e", "e5", "1e5e5", "2e3^2", "1.2345e2"),
    ],
)
def test_wrong_size(text, tried):
    assert rejects(parse_size, text)
    tried("malformed inputs")


def test_sizes_and_axes_by_the_hundred(tried):
    count = 0

    @MANY
    @given(st.lists(st.one_of(WORDS, st.builds("{}={}".format, st.sampled_from("nmx"), WORDS)), max_size=3), WORDS)
    def attempt(texts, profile):
        nonlocal count
        count += rejects(lambda: cases.choose(Knobbed(), cases.parse_sizes(texts), profile))
        for text in texts:
            count += rejects(cases.parse_axis, text)

    attempt()
    assert count > 200
    tried("malformed inputs", count)


def test_case_takes_what_is_not_asked_from_the_largest():
    assert cases.choose(Knobbed(), {"n": 5}, None) == Case(sizes={"n": 5, "m": 8})
    assert cases.choose(Knobbed(), {}, "sorted").profile == "sorted"
    assert rejects(cases.choose, Knobbed(), {"n": -1}, None) and rejects(cases.parse_sizes, ["n=1", "n=2"])
    assert rejects(cases.parse_sizes, ["n=1"], "2")


def test_shrinking_goes_upwards_and_ends_with_the_case():
    case = Case(sizes={"n": 64, "m": 8})
    found = cases.shrinking(Knobbed(), case)
    volumes = [cases.volume(one) for one in found]
    assert volumes == sorted(volumes) and found[-1] == case
    assert found[0].sizes == {"n": 4, "m": 2}, "the smallest that the engine lists"
    assert Case(sizes={"n": 16, "m": 2}) in found, "both halved twice"


BROKEN_FILES = {
    "syntax": "class Broken(:\n",
    "null byte": "x = 1\x00\n",
    "no engine": "x = 1\n",
    "empty": "",
    "raises": "import nothing_of_that_name\n",
    "exits": "raise SystemExit(0)\n",
    "recursion": "def f(): f()\nf()\n",
    "abstract": "from whet.protocol import Engine\nclass Half(Engine):\n    name = 'half'\n",
    "imported engine only": "from whet.protocol import Engine\n",
    "bad bytes": "# \xff\n",
}


@pytest.mark.parametrize("kind", BROKEN_FILES)
def test_broken_engine_file(kind, tmp_path, tried):
    path = tmp_path / "broken.py"
    path.write_bytes(BROKEN_FILES[kind].encode("latin-1"))
    with pytest.raises(BadInput) as caught:
        registry.load(str(path))
    assert str(path) in caught.value.cause and caught.value.cure
    tried("malformed inputs")


def test_the_line_is_named(tmp_path):
    path = tmp_path / "late.py"
    path.write_text("import os\n\n\nvalue = os.nothing\n")
    with pytest.raises(BadInput, match=r"late\.py:4: AttributeError"):
        registry.load(str(path))


def test_two_engines_need_a_choice(tmp_path):
    path = tmp_path / "both.py"
    source = EXAMPLE.read_text()
    path.write_text(source + "\nclass Second(Polynomial):\n    name = 'second'\n")
    with pytest.raises(BadInput, match="holds 2 engines"):
        registry.load(str(path))
    assert registry.load(f"{path}:Second").engine.name == "second"
    with pytest.raises(BadInput, match="no engine 'Third'"):
        registry.load(f"{path}:Third")


@pytest.mark.parametrize(
    "ref", ["", "nothing", "missing.py", ".", "..", "/", "msm.txt", "a\x00.py", "x" * 5000 + ".py", "dir.py"]
)
def test_wrong_reference(ref, tmp_path, monkeypatch, tried):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dir.py").mkdir()
    assert rejects(registry.load, ref)
    tried("malformed inputs")


WRONG_ATTRIBUTES = [
    "name = ''",
    "name = 3",
    "cases = lambda self: []",
    "cases = lambda self: 3",
    "cases = lambda self: [1]",
    "cases = lambda self: [Case(sizes={})]",
    "cases = lambda self: [Case(sizes={'n': -1})]",
    "cases = lambda self: 1 / 0",
    "variants = lambda self: []",
    "variants = lambda self: ['plain']",
    "variants = lambda self: [VariantSpec('a', ''), VariantSpec('a', '')]",
    "profiles = lambda self: []",
    "tolerance = Tolerance(relative=-1)",
    "tolerance = Tolerance(relative=float('nan'))",
    "tolerance = None",
    "__init__ = lambda self, needed: None",
]


@pytest.mark.parametrize("line", WRONG_ATTRIBUTES)
def test_an_engine_that_describes_itself_wrongly(line, tmp_path, tried):
    path = tmp_path / "described.py"
    path.write_text(EXAMPLE.read_text() + f"    {line}\n")
    assert rejects(registry.load, str(path))
    tried("malformed inputs")


def test_truncated_and_mangled_files(tmp_path, tried):
    """An engine file cut at any byte, or with a line gone, loads or is refused with the file's name."""
    source, refused = EXAMPLE.read_text(), 0
    lines = source.splitlines(keepends=True)
    chance = random.Random(5)
    mangled = [source[: chance.randrange(len(source))] for _ in range(60)]
    mangled += ["".join(lines[:i] + lines[i + 1 :]) for i in range(len(lines))]
    for number, text in enumerate(mangled):
        path = tmp_path / f"cut{number}.py"
        path.write_text(text)
        refused += rejects(registry.load, str(path))
    assert refused > 60
    tried("malformed inputs", refused)


FILE = str(EXAMPLE)
WRONG_COMMANDS = [
    ["ab"],
    ["ab", FILE, "powers", "powers"],
    ["ab", FILE, "powers", "nothing"],
    ["ab", FILE, "powers", "horner", "--n", "many"],
    ["ab", FILE, "powers", "horner", "--n", "-3"],
    ["ab", FILE, "powers", "horner", "--size", "m=3"],
    ["ab", FILE, "powers", "horner", "--size", "n"],
    ["ab", FILE, "powers", "horner", "--profile", "nothing"],
    ["ab", FILE, "powers", "horner", "--device", "toaster"],
    ["ab", FILE, "powers", "horner", "--seed", "x"],
    ["ab", FILE, "powers", "horner", "--seed", "-1"],
    ["ab", FILE, "powers", "horner", "--effect", "0"],
    ["ab", FILE, "powers", "horner", "--effect", "1.5"],
    ["ab", FILE, "powers", "horner", "--effect", "nan"],
    ["ab", FILE, "powers", "horner", "--clock", "sundial"],
    ["ab", FILE, "powers", "horner", "--call-limit", "0"],
    ["ab", FILE, "powers", "horner", "--call-limit", "inf"],
    ["ab", FILE, "powers", "horner", "--quick", "--rigorous"],
    ["ab", FILE, "powers", "horner", "--baseline", "nothing"],
    ["ab", "nothing", "a", "b"],
    ["check", FILE, "nothing"],
    ["check", FILE, "--repeats", "0"],
    ["check", FILE, "--cases", "0"],
    ["check", FILE, "--n", "2^70"],
    ["check", "missing.py"],
    ["check", "decode", "webgpu", "--device", "cpu"],
    ["memory", "nothing"],
    ["occupancy", "nothing"],
    ["memory", "msm", "--variant", "plain"],
    ["memory", "msm", "--budget", "much"],
    ["regions", "schema", "nothing", "--json"],
    ["sweep", FILE],
    ["sweep", FILE, "--axis", "n"],
    ["sweep", FILE, "--axis", "n="],
    ["sweep", FILE, "--axis", "n=1,1"],
    ["sweep", FILE, "--axis", "m=1,2"],
    ["sweep", "graph", "hybrid", "--axis", "coarsen=true,false"],
    ["sweep", "graph", "hybrid", "--axis", "window=5"],
    ["sweep", "graph", "hybrid", "--axis", "window=64,64"],
    ["sweep", "graph", "hybrid:window=64", "--axis", "window=128"],
    ["sweep", FILE, "--axis", "n=1", "--axis", "n=2"],
    ["sweep", FILE, "--axis", "n=1", "--n", "2"],
    ["sweep", FILE, "--axis", "n=" + ",".join(map(str, range(1, 300)))],
]


@pytest.mark.parametrize(
    "words",
    [
        ["ab", FILE, "powers", "horner", "--report", "missing/report.html"],
        ["graph", "trace", "chain", "--out", "missing/trace.json"],
        ["graph", "trace", "chain", "--regions", "missing/phases.npz"],
    ],
    ids=lambda words: words[-1],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(words, tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "runs.sqlite"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WhetError, match="there is no folder missing"):
        invoke(words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", WRONG_COMMANDS, ids=lambda words: " ".join(words).replace(FILE, "FILE")[:60])
def test_wrong_command_line(words, tmp_path, monkeypatch, tried):
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "runs.sqlite"))
    with pytest.raises((click.UsageError, BadInput)):
        invoke(words)
    tried("malformed inputs")
