"""The assembler of .wgsl files: what its directives give, what it refuses, and where a line came from."""

from __future__ import annotations

import pytest

from whet.errors import ShaderError
from whet.gpu.assembler import Folder, bindings, constants, fields


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "more").mkdir()

    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name.replace('__', '/')}.wgsl").write_text(text)
        return Folder(tmp_path)

    return write


def test_imports_come_once_and_where_they_stand(folder):
    kernel = "a\n//# import part\nb\n//# import other\n//# import more/deep\n"
    made = folder(kernel=kernel, part="p", other="//# import part\no", more__deep="d").assemble("kernel")
    assert made.source == "a\np\nb\no\nd\n"
    assert [str(made.origin(line)) for line in range(1, 6)] == [
        "kernel.wgsl:1",
        "part.wgsl:1",
        "kernel.wgsl:3",
        "other.wgsl:2",
        "more/deep.wgsl:1",
    ]


def test_files_that_import_each_other_end(folder):
    assert folder(one="1\n//# import two", two="2\n//# import one").assemble("one").source == "1\n2\n"


def test_a_choice_takes_one_side(folder):
    inner = "//# if more == yes\nY\n//# else\nN\n//# end\n"
    text = f"//# if kind == a\nA\n{inner}//# else\n  //# if more == yes\nB\n//# end\n//# end\nlast"
    some = folder(kernel=text)
    assert some.assemble("kernel", kind="a", more="no").source == "A\nN\nlast\n"
    assert some.assemble("kernel", kind="a", more="yes").source == "A\nY\nlast\n"
    assert some.assemble("kernel", kind="b", more="yes").source == "B\nlast\n"
    assert some.assemble("kernel", kind="b", more="no").source == "last\n"


def test_lines_are_repeated_and_keys_filled(folder):
    chosen = "//# if kind == wide\n//# let of = at(${i})\nuse ${of};\n//# end\n"
    kernel = f"//# each i < n\nlet a${{i}} = ${{n}}u;\n{chosen}//# end\n"
    some = folder(kernel=kernel, other="//# let from = input[${i}x]\nconst N = ${n}u;")
    assert some.assemble("kernel", n=2, kind="wide").source == "let a0 = 2u;\nuse at(0);\nlet a1 = 2u;\nuse at(1);\n"
    assert some.assemble("kernel", n=0, kind="wide").source == "\n"
    with pytest.raises(ShaderError, match=r"other\.wgsl:1: nothing says what i is"):
        some.assemble("other", n=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fine\n//# import gone", r"kernel\.wgsl:2: there is no gone\.wgsl"),
        ("${missing}", r"kernel\.wgsl:1: nothing says what missing is"),
        ("//# if missing == 1\n//# end", "nothing says what missing is"),
        ("a\n//# if n == 1\nb", r"kernel\.wgsl:2: this block has no end"),
        ("//# if n\n//# end", "is no condition"),
        ("//# each i\n//# end", "counts nothing"),
        ("//# each i < n\n//# else\nx\n//# end", "counts nothing"),
        ("//# let n", "gives nothing a meaning"),
        ("//# define n", "no directive `define`"),
        ("a\n//# end", r"kernel\.wgsl:2: no directive `end`"),
        ("//# else", "no directive `else`"),
    ],
)
def test_mistakes_are_refused_with_their_line(folder, text, said, tried):
    with pytest.raises(ShaderError, match=said) as refused:
        folder(kernel=text).assemble("kernel", n=1)
    assert refused.value.cure
    tried("malformed inputs")


def test_what_is_read_from_a_source():
    source = (
        "@group(0) @binding(1) var<storage, read> b: array<u32>;\n"
        "@group(0) @binding(0) var<uniform> a: Params;\nconst N = 7u;\nconst M = N * 2u;\n"
        "struct Params {\n    one: u32, // the first\n    two: array<vec4<u32>, 4>,\n}\n"
    )
    assert bindings(source) == ("a", "b")
    assert constants(source) == {"N": 7}
    assert fields(source, "Params") == ("one", "two")
    assert fields("struct S { a: u32, b: array<vec4<u32>, 4>, c: u32 }", "S") == ("a", "b", "c")
    for wrong in (source.replace("binding(1)", "binding(2)"), source.replace("binding(1)", "binding(0)")):
        with pytest.raises(ShaderError, match="bindings"):
            bindings(wrong)
