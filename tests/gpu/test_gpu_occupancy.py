"""The occupancy model: live words of small kernels counted by hand, and residency as the vendors publish it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whet.cli import app
from whet.errors import BadInput, Unsupported
from whet.gpu.live_words import Footprint, footprint
from whet.gpu.occupancy import PROFILES, predict
from whet.msm.webgpu.kernels import render
from whet.msm.webgpu.knobs import Choice

BY_NAME = {profile.name: profile for profile in PROFILES}


def kernel(body, before="", size="64"):
    return f"""{before}
@group(0) @binding(0) var<storage, read_write> data: array<vec4<u32>>;
@compute @workgroup_size({size}) fn main(@builtin(global_invocation_id) id: vec3u) {{ {body} }}"""


# The three words of `id` are alive until its last mention, at least for a moment; each case says what else is.
COUNTED = {
    "nothing": ("", "", 3, 0),
    "one scalar": ("let i = id.x; data[i].x = i + id.y;", "", 3 + 1, 0),
    "a vector from a buffer": ("let v = data[id.x]; data[id.y] = v;", "", 3 + 4, 0),
    "one after the other": ("let a = data[0]; data[1] = a; let b = data[2]; data[3] = b;", "", 4, 0),
    "at once": ("let a = data[0]; let b = data[2]; data[1] = a; data[3] = b;", "", 8, 0),
    "a struct": ("let s = S(1u, data[0]); data[1] = s.b + s.a;", "struct S { a: u32, b: vec4<u32> }", 5, 0),
    "a loop keeps what it mentions": (
        "let a = data[0]; for (var k = 0u; k < 4u; k++) { data[k] = a; let b = data[k]; data[k + 1u] = b; }",
        "",
        4 + 1 + 4,
        0,
    ),
    "a call adds its own": (
        "let a = data[0]; let b = f(id.x); data[b] = a;",
        "fn f(x: u32) -> u32 { let t = x + 1u; let u = t * x; return u + t; }",
        4 + 3 + 2,
        0,
    ),
    "arrays are apart": ("var many: array<vec4<u32>, N>; many[id.x] = data[0];", "const N = 8u;", 3, 32),
    "sizes from products": ("var many: array<u32, N * M>; many[id.x] = 1u;", "const N = 8u; const M = 3u;", 3, 24),
    "comments are none": ("let a = data[0]; // a a a\n data[1] = a;", "// struct fn x(", 4, 0),
    "a pointer is no copy": (
        "var a = data[0]; f(&a); data[1] = a;",
        "fn f(p: ptr<function, vec4<u32>>) { let t = (*p).x; (*p).y = t; }",
        5,
        0,
    ),
    "a private scalar stays": ("data[0].x = kept;", "var<private> kept: u32;", 1 + 3, 0),
}


@pytest.mark.parametrize("name", COUNTED)
def test_live_words_as_counted_by_hand(name, tried):
    body, before, words, arrays = COUNTED[name]
    found = footprint(kernel(body, before), "main")
    assert max(3, words) == found.live_words, found
    assert found.array_words == arrays
    tried("kernels counted by hand")


def test_workgroup_memory_and_size():
    before = "const T = 96u; struct S { a: u32, b: vec4<u32> } var<workgroup> shared_part: array<S, T>;"
    found = footprint(kernel("", before, size="T, 2"), "main")
    assert (found.workgroup_bytes, found.workgroup_threads) == (4 * 5 * 96, 192)


def test_more_scratch_in_workgroup_memory_shows():
    def accumulate(**knobs):
        made = render(Choice(**knobs), False, None)["accumulate"].kernel
        return footprint(made.source, made.entry)

    private, shared = accumulate(), accumulate(scratch="workgroup")
    assert private.workgroup_bytes == 0 and shared.workgroup_bytes == 64 * 8 * 32
    assert private.array_words - shared.array_words == 8 * 8
    assert accumulate(slots=16).array_words == 2 * private.array_words
    assert accumulate(tpb=128).workgroup_threads == 128
    assert 8 * 8 < private.live_words < 400


@pytest.mark.parametrize("g", [1, 8, 64])
def test_coop_has_no_arrays_and_no_fewer_words_than_walker(g):
    """What the header of accumulate_coop.wgsl says, by the model."""
    made = {name: render(Choice(name, g=g), False, None)["accumulate"].kernel for name in ("walker", "coop")}
    walker, coop = (footprint(one.source, one.entry) for one in made.values())
    assert coop.array_words == 0 < walker.array_words
    assert coop.live_words >= walker.live_words


def test_pairs_has_no_arrays_and_inverts_apart():
    """What the header of accumulate_pairs.wgsl says, by the model."""
    pairs = {name: made.kernel for name, made in render(Choice("pairs", g=8), False, None).items()}
    walker = render(Choice(), False, None)["accumulate"].kernel
    found = {name: footprint(pairs[name].source, pairs[name].entry) for name in ("accumulate", "invert")}
    assert found["accumulate"].array_words == 0 and "fn fe_inv" not in pairs["accumulate"].source
    assert found["accumulate"].live_words >= footprint(walker.source, walker.entry).live_words
    assert found["invert"].live_words < found["accumulate"].live_words


# Resident threads per core at a number of words, as published; the sources are in docs/occupancy.md.
PUBLISHED = [
    ("apple-m1-m2", 52, 32, 1024),
    ("apple-m1-m2", 128, 32, 13 * 32),
    ("mali-valhall", 32, 64, 1024),
    ("mali-valhall", 33, 64, 512),
    ("mali-valhall", 64, 64, 512),
    ("nvidia-ampere-ada", 40, 128, 1536),
    ("nvidia-ampere-ada", 64, 128, 1024),
    ("nvidia-ampere-ada", 128, 128, 512),
    ("nvidia-ampere-ada", 255, 128, 256),
    ("amd-rdna2", 64, 32, 4 * 16 * 32),
    ("amd-rdna2", 128, 32, 4 * 8 * 32),
    ("amd-rdna2", 256, 32, 4 * 4 * 32),
    ("amd-rdna3", 96, 32, 4 * 16 * 32),
    ("amd-rdna3", 192, 32, 4 * 8 * 32),
    ("intel-arc", 64, 16, 2048),
    ("intel-arc", 65, 16, 1024),
    ("adreno-7xx", 96, 128, 8 * 64),
    ("adreno-7xx", 192, 64, 4 * 64),
]


@pytest.mark.parametrize(("name", "words", "threads", "resident"), PUBLISHED)
def test_resident_threads_as_published(name, words, threads, resident):
    said = predict(BY_NAME[name], Footprint(words, 0, 0, threads))
    expected = resident if said.limiter != "workgroups" else BY_NAME[name].most_workgroups * threads
    assert said.workgroups * threads == expected
    assert said.limits["registers"] * threads == resident or said.limits["threads"] * threads == resident


def test_the_scarcest_resource_limits(tried):
    for profile in PROFILES:
        free = predict(profile, Footprint(8, 0, 0, 64))
        tight = predict(profile, Footprint(8, 0, profile.workgroup_memory_bytes // 2, 64))
        assert tight.workgroups == 2 and tight.limiter == "workgroup memory"
        assert predict(profile, Footprint(8, 0, profile.workgroup_memory_bytes + 4, 64)).workgroups == 0
        before = free.workgroups
        for words in range(8, 400, 8):
            said = predict(profile, Footprint(words, 64, 0, 64))
            assert said.workgroups <= before, "more words never hold more"
            assert said.workgroups == min(said.limits.values()) and 0 <= said.share <= 1
            assert said.spilled_words == max(0, words - profile.most_words)
            more = predict(profile, Footprint(words, 64, 0, 64), arrays_in_registers=True)
            assert more.workgroups <= said.workgroups
            before = said.workgroups
            tried("residencies")


def test_every_profile_names_its_source():
    text = (Path(__file__).parents[2] / "docs" / "occupancy.md").read_text()
    for profile in PROFILES:
        assert profile.name in text


def test_the_command_says_that_it_is_a_model(capsys):
    app.invoke(["occupancy", "msm", "--variant", "coop:g=8", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert "a model" in said["is"] and len(said["profiles"]) == len(PROFILES)
    assert said["kernel"]["workgroup_bytes"] > 0
    app.invoke(["occupancy", "msm", "--pass", "reduce"])
    shown = capsys.readouterr().out
    assert "a model" in shown and "limited by" in shown and "mali-valhall" in shown
    for words, kind in (
        (["msm", "--pass", "nothing"], BadInput),
        (["msm", "--variant", "x"], BadInput),
        (["graph"], Unsupported),
    ):
        with pytest.raises(kind) as caught:
            app.invoke(["occupancy", *words])
        assert caught.value.cure
