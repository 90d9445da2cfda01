"""Rules, ranges and schema files: each is read exactly, or refused with a cause and a cure."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regions_launch import rich_schema_text
from whet.errors import BadInput
from whet.regions.rules import parse_ranges, parse_rule
from whet.regions.schema import BUILTIN, builtin, load_schema, parse

GRID = {"slice_ctas": 8, "num_k_tiles": 8, "num_seqs": 2}


def names(bx=8, by=8, bz=2):
    worker = np.arange(bx * by * bz)
    return {"worker": worker, "bx": worker % bx, "by": worker // bx % by, "bz": worker // (bx * by), "kv": 3, "nx": bx}


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("all", lambda x, y, z, w: True),
        ("bx == 0 and by < 4", lambda x, y, z, w: x == 0 and y < 4),
        ("bx < min(kv, nx) and not by >= kv", lambda x, y, z, w: x < 3 and y < 3),
        ("bx == 0 or by == 0 and bz == 1", lambda x, y, z, w: x == 0 or (y == 0 and z == 1)),
        ("(bx == 0 or by == 0) and bz == 1", lambda x, y, z, w: (x == 0 or y == 0) and z == 1),
        ("worker in 0..7", lambda x, y, z, w: 0 <= w <= 7),
        ("worker in 3,5..6,127", lambda x, y, z, w: w in (3, 5, 6, 127)),
        ("bx + by == nx - 1", lambda x, y, z, w: x + y == 7),
        ("bx != max(by, 2)", lambda x, y, z, w: x != max(y, 2)),
    ],
)
def test_rules_choose_exactly_the_workers_they_name(text, truth):
    mask = parse_rule(text).mask(names(), 128)
    want = [truth(w % 8, w // 8 % 8, w // 64, w) for w in range(128)]
    assert mask.tolist() == want


BAD_RULES = [
    "", " ", "bx", "bx =", "bx = 0", "bx == ", "== 0", "0..7", "worker in", "worker in 7..0", "worker in 0...7",
    "worker in 0..", "worker in ..7", "worker in 0-7", "worker in 1,", "all all", "all and", "not", "(all", "all)",
    "bx == 0 &&  by == 0", "bx < 4 < by", "min(bx) == 1", "min(1,2", "bx == 1.5", "bx == 0x1", "__import__('os')",
    "bx == 99999999999", "bx == -1 -", "bx[0] == 1", "bx.real == 0", "and", "in in in", "bx == 0;by == 0", "Bx ~ 1",
    "(" * 40 + "all" + ")" * 40, "not " * 40 + "all", "a" * 500, "bx == ٣",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_RULES)
def test_what_is_no_rule_is_refused_and_never_means_all(text):
    with pytest.raises(BadInput) as caught:
        parse_rule(text)
    assert caught.value.cure


def test_pitfall_a_range_is_a_range_or_an_error_never_all(tried):
    assert parse_ranges("0..7", 64) == tuple(range(8))
    assert parse_ranges("3,0..1", 64) == (0, 1, 3)
    assert parse_ranges("all", 3) == (0, 1, 2)
    wrong = [
        "",
        "0...7",
        "0-7",
        "7..0",
        "0..64",
        "64",
        "-1",
        "a",
        "0..7,",
        ",",
        "0..",
        "..7",
        "ALL",
        "0..7 8",
        "1e1",
        "٣",
    ]
    for text in wrong:
        with pytest.raises(BadInput):
            parse_ranges(text, 64)
    tried("malformed inputs", len(wrong) + len(BAD_RULES))


WORDS = [
    "bx",
    "by",
    "worker",
    "0",
    "7",
    "0..7",
    "..",
    ",",
    "(",
    ")",
    "<",
    "==",
    "+",
    "-",
    "and",
    "or",
    "not",
    "in",
    "min",
    "all",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=2), max_size=12).map(" ".join))
def test_any_text_is_a_rule_or_bad_input(text):
    try:
        rule = parse_rule(text)
    except BadInput:
        return
    if rule.needs <= set(names()):
        assert rule.mask(names(), 128).shape == (128,)


@pytest.mark.parametrize("name", BUILTIN)
def test_builtin_schemas_load_and_count_their_regions(name):
    schema = builtin(name)
    assert f"coop-{len(schema.regions)}" == name
    masks = schema.masks(schema.grid(GRID))
    assert masks[:, 0].sum() == 2 and masks[:, 1].sum() == 8 and masks[:, 4].all()
    assert {r.name for r in schema.tagged("k_reducible")} >= {"phase1_wo_gemv"}


def test_a_split_widens_the_active_workers_of_wo():
    schema = builtin("coop-13")
    masks = schema.masks(schema.grid({**GRID, "num_seqs": 1, "wo_split": 8}))
    assert masks[:, 2].sum() == 32 and masks[:, 1].sum() == 4 and masks[:, 11].sum() == 28


def document():
    return tomllib.loads(rich_schema_text())


def set_in(*path):
    *keys, last, value = path

    def change(doc):
        at = doc
        for key in keys:
            at = at[key]
        at[last] = value

    return change


BROKEN = {
    "unknown key": (set_in("region", 3, "colour", "red"), "colour"),
    "unknown top key": (set_in("colour", "red"), "colour"),
    "duplicate id": (set_in("region", 3, "id", 2), "used twice"),
    "id out of order": (set_in("region", 3, "id", 77), "region ids"),
    "duplicate name": (set_in("region", 3, "name", "norm"), "used twice"),
    "empty name": (set_in("region", 3, "name", ""), "empty"),
    "missing parent": (set_in("region", 3, "parent", 99), "does not exist"),
    "negative parent": (set_in("region", 3, "parent", -1), "does not exist"),
    "own parent": (set_in("region", 3, "parent", 3), "own ancestor"),
    "unknown role": (set_in("region", 3, "role", "sleep"), "sleep"),
    "id is text": (set_in("region", 3, "id", "3"), "int"),
    "rule is broken": (set_in("region", 3, "active", "0..7"), "makes no sense"),
    "rule names a stranger": (set_in("region", 3, "active", "cx == 0"), "'cx'"),
    "trips names an axis": (set_in("region", 7, "trips", "bx"), "'bx'"),
    "tagged wait": (set_in("region", 4, "tags", ["k_reducible"]), "never added to its cause"),
    "tagged parent": (set_in("region", 10, "tags", ["k_reducible"]), "tag the leaves"),
    "scope on work": (set_in("region", 3, "scope", ["bz"]), "no wait"),
    "unknown scope": (set_in("region", 4, "scope", ["cz"]), "'cz'"),
    "released by nobody": (set_in("region", 4, "released_by", 40), "does not exist"),
    "per call with trips": (set_in("region", 3, "trips", "trips"), "per ="),
    "no regions": (set_in("region", []), "0 regions"),
    "no axes": (set_in("axes", []), "no axes"),
    "axis twice": (set_in("axes", 1, "name", "bx"), "two things"),
    "axis is a keyword": (set_in("axes", 1, "name", "and"), "cannot name"),
    "axis is worker": (set_in("axes", 1, "name", "worker"), "cannot name"),
    "parameter shadows": (set_in("parameters", "slice_ctas", 3), "two things"),
    "parameter is text": (set_in("parameters", "trips", "34"), "int"),
    "regions is a table": (set_in("region", {}), "array"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_schema_is_refused_with_file_and_cure(what, tmp_path, tried):
    change, said = BROKEN[what]
    doc = document()
    change(doc)
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(doc))
    with pytest.raises(BadInput) as caught:
        load_schema(path)
    assert said in str(caught.value) and str(path) in caught.value.cause and caught.value.cure
    tried("malformed inputs", 1)


def test_a_cycle_of_parents_is_refused():
    doc = document()
    doc["region"][5]["parent"] = 6
    doc["region"][6]["parent"] = 5
    with pytest.raises(BadInput, match="own ancestor"):
        parse(doc, where="x")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"name": "a", "name": "b"}'),
        ("a.toml", "name = 1\nname = 2"),
        ("a.json", "{"),
        ("a.yaml", ""),
        ("a.json", "[" * 9999),
    ],
)
def test_a_file_that_is_not_quite_toml_or_json_is_refused(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput):
        load_schema(tmp_path / name)
    with pytest.raises(BadInput):
        load_schema(tmp_path / "absent.toml")


def test_a_good_schema_reads_the_same_from_toml_and_json(tmp_path):
    (tmp_path / "a.toml").write_text(rich_schema_text())
    (tmp_path / "a.json").write_text(json.dumps(document()))
    assert load_schema(tmp_path / "a.toml") == load_schema(tmp_path / "a.json")


@pytest.mark.parametrize(
    "given_grid",
    [
        {},
        {"slice_ctas": 8},
        {**GRID, "typo": 1},
        {**GRID, "num_seqs": 0},
        {**GRID, "num_seqs": -1},
        {**GRID, "slice_ctas": 1 << 30},
    ],
)
def test_a_grid_says_every_axis_and_nothing_else(given_grid):
    with pytest.raises(BadInput):
        builtin("coop-11").grid(given_grid)


def test_regions_are_found_by_id_name_or_unique_ending():
    schema = builtin("coop-11")
    assert schema.find("2").id == schema.find("phase1_wo_gemv").id == schema.find("wo_gemv").id == 2
    for text in ("", "gemv2", "99", "quant_"):
        with pytest.raises(BadInput):
            schema.find(text)
    with pytest.raises(BadInput, match="2 regions end"):
        builtin("coop-20").find("wait")


def test_a_missing_tag_is_an_error_not_a_zero():
    with pytest.raises(BadInput, match="no region carries the tag 'k_reduceable'"):
        builtin("coop-11").tagged("k_reduceable")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 30) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "region", "role", "axes"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_schema_with_anything_anywhere_is_read_or_bad_input(data):
    doc = document()
    target = data.draw(st.sampled_from([doc, doc["parameters"], doc["axes"][0], *doc["region"]]))
    target[data.draw(st.sampled_from([*target, "extra"]))] = data.draw(json_values)
    try:
        schema = parse(doc, where="drawn")
        schema.masks(schema.grid({"slice_ctas": 2, "num_k_tiles": 2, "num_seqs": 1}))
    except BadInput as problem:
        assert problem.cure
