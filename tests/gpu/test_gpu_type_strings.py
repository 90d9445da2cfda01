"""The quick parser of C types gives what the slow one gives, and leaves alone what it does not know."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from cffi import FFI
from cffi.error import CDefError, FFIError

from whet.gpu.type_strings import show_few_names

HEADER = """
typedef struct Inner { int a; double b[3]; } Inner;
typedef enum Mode { OFF = 0, ON = 7 } Mode;
typedef Inner *Handle;
typedef void (*Callback)(Mode mode, Handle handle, void *user);
typedef struct Outer { Inner inner; Mode mode; Callback done; const char *name; struct Outer *next; } Outer;
"""
TEXTS = [
    "Outer",
    "Outer *",
    "Outer[]",
    "Inner[5]",
    "Handle",
    "Handle *",
    "Callback",
    "Mode",
    "struct Outer *",
    "const Outer * const",
    "void(*)(Mode, Outer *, uint32_t)",
    "uint8_t[]",
    "char *",
]


def made():
    ffi = FFI()
    ffi.cdef(HEADER)
    return ffi


def shape(ctype):
    """Everything that makes a type what it is, down to the fields."""
    found = [str(ctype), ctype.kind]
    if ctype.kind == "struct":
        found += [(name, field.offset, str(field.type)) for name, field in ctype.fields]
    return found


def test_types_are_those_of_the_slow_parser(tried):
    slow, quick = made(), made()
    assert show_few_names(quick) and show_few_names(quick), "again is safe"
    for text in TEXTS:
        assert shape(quick.typeof(text)) == shape(slow.typeof(text)), text
    value = quick.new("Outer *", {"mode": 7, "inner": {"a": 5}})
    assert (value.mode, value.inner.a, quick.sizeof("Outer")) == (7, 5, slow.sizeof("Outer"))
    tried("differential operations", len(TEXTS))


def test_only_the_names_in_a_text_are_shown():
    ffi = made()
    seen = []
    parse = ffi._parser._parse
    ffi._parser._parse = lambda text: seen.append(set(ffi._parser._declarations)) or parse(text)
    assert show_few_names(ffi)
    ffi.typeof("Handle *")
    assert seen == [{"typedef Handle"}]
    assert "typedef Outer" in ffi._parser._declarations, "everything is there again"


@pytest.mark.parametrize("text", ["Nothing *", "struct", "Outer *)", "1 + 1"])
def test_what_is_no_type_is_refused_as_before(text, tried):
    slow, quick = made(), made()
    show_few_names(quick)
    with pytest.raises((CDefError, FFIError)) as before:
        slow.typeof(text)
    with pytest.raises(type(before.value)):
        quick.typeof(text)
    assert "typedef Outer" in quick._parser._declarations
    tried("malformed inputs")


def test_another_cffi_is_left_alone():
    assert not show_few_names(SimpleNamespace())
    assert not show_few_names(SimpleNamespace(_parser=SimpleNamespace(_parse=None, _declarations={})))
    assert not show_few_names(SimpleNamespace(_parser=SimpleNamespace(_parse=print, _declarations=[])))
