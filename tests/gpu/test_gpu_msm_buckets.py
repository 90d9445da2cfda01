"""The probe of `whet check msm walker --buckets`: sound kernels are right in every bucket, faults are located."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from msm_on_gpu import Subject

from whet.cli import app
from whet.errors import ExitCode
from whet.msm.point import R
from whet.msm.webgpu.bucket_model import BucketModel, device_points
from whet.msm.webgpu.bucket_probe import probe
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan import build

WALKER, COOP = Choice("walker", threads=64), Choice("coop", threads=64)


def on_a_gpu(test):
    return pytest.mark.gpu(pytest.mark.xdist_group("gpu")(test))


def look(device, subject, choice, **given):
    return probe(device, choice, subject.logs, subject.scalars, **given)


def planted(entry, old, new):
    def plant(name, source):
        if name == entry:
            assert old in source, "the fault is in the source"
            return source.replace(old, new)
        return source

    return plant


@pytest.mark.parametrize("glv", [False, True], ids=["whole", "halves"])
def test_the_model_adds_up_to_the_sum(glv):
    """Buckets times digits, windows times powers: the oracle's answer."""
    subject = Subject.of("collide", 60)
    geometry = build(subject.n, Choice(c=7, glv=glv)).geometry
    model = BucketModel.of(geometry, subject.logs, subject.scalars)
    total = sum((column + 1) * log << 7 * window for (window, column), log in model.logs.items()) % R
    assert total == sum(k * s for k, s in zip(subject.logs, subject.scalars, strict=True)) % R
    assert sum(map(len, model.handles.values())) == sum(model.counts(geometry.batches[0]))


def test_pieces_cover_each_bucket_once():
    subject = Subject(list(range(1, 701)), [random.Random(1).getrandbits(250) % 9 + 1 for _ in range(700)])
    geometry = build(subject.n, replace(WALKER, c=4)).geometry
    model = BucketModel.of(geometry, subject.logs, subject.scalars)
    batch = geometry.batches[0]
    for place, handles in model.handles.items():
        pieces = model.pieces(batch, place, 8)
        assert [n for piece in pieces for n in range(piece.first, piece.end)] == list(range(len(handles)))[
            : len(handles) if len(handles) > 1 else 0
        ]
    assert (device_points([0]) == 0).all()


@on_a_gpu
@pytest.mark.parametrize(
    ("choice", "profile"),
    [
        (WALKER, "collide"),
        (COOP, "random"),
        (replace(WALKER, glv=True, batches=3), "random"),
        (Choice("gpu_plain"), "D"),
    ],
)
def test_sound_kernels_are_right_in_every_bucket(shared_device, choice, profile):
    found = look(shared_device, Subject.of(profile, 300), choice)
    assert found.right and not found.lines()
    geometry = build(300, choice).geometry
    assert found.buckets == geometry.all_windows * geometry.columns and found.batches == geometry.batch_count


SORT = Subject.of("random", 300)
LONG = Subject(list(range(1, 1501)), [1] * 1400 + [2**200] * 100)
DOUBLING = Subject([9, 9, 5, 7], [3, 3, 2**60, 2**90])
FAULTS = {
    # name: choice, subject, (entry, old, new), what the lines have to say
    "count": (WALKER, SORT, ("count", ", params.rows)", ", params.rows - 1u)"), ("count, columns or starts",)),
    "scatter": (WALKER, SORT, ("scatter", "index | (found & 0x80000000u)", "index"), ("scatter (handles of bucket",)),
    "single point": (
        WALKER,
        SORT,
        ("classify", "load_point(handles[here.start])", "load_point(handles[here.start] & 0x7fffffffu)"),
        ("it holds 1 point", "written by classify", "gpu_plain has it right"),
    ),
    "doubling": (
        WALKER,
        DOUBLING,
        ("accumulate_walker", "fe_add(fe_add(m, m), m)", "fe_add(m, m)"),
        ("of window 0, batch 0", "holds 2 points", "to blame: accumulate", "task 0 (points 0 to 1, whole)"),
    ),
    "combine": (
        WALKER,
        LONG,
        ("combine", "|| j == RADIX", "|| j == 2u"),
        ("bucket 0 (digit 1", "holds 1,400 points", "goes over several tasks", "tail", "more"),
    ),
    "end of a walk": (
        COOP,
        SORT,
        (
            "accumulate_coop",
            "if ((*slot).position == (*slot).end)",
            "if ((*slot).position + 1u >= (*slot).end)",
        ),
        ("to blame: accumulate",),
    ),
    "second batch": (
        replace(WALKER, batches=2),
        SORT,
        ("scatter", "params.first_window + group.y", "group.y"),
        ("batch 1", "scatter"),
    ),
}


@on_a_gpu
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_located(shared_device, name, tried):
    choice, subject, (entry, old, new), words = FAULTS[name]
    found = look(shared_device, subject, choice, plant=planted(entry, old, new))
    said = "\n".join(found.lines())
    assert all(word in said for word in words), said
    tried("planted faults located")


@on_a_gpu
def test_a_fault_behind_the_buckets_names_its_window(shared_device, tried):
    """Equal sums in buckets 1 and 5 of 8 of window 2: the first fold of the reduction doubles."""
    subject, choice = Subject([9, 9], [1 << 8, 5 << 8]), replace(WALKER, c=4)
    found = look(shared_device, subject, choice, plant=planted("reduce", "if (fe_equal(l.y, r.y))", "if (false)"))
    assert found.bucket is None and found.window == 2
    assert "to blame: reduce or gather" in found.lines()[0]
    tried("planted faults located")


@on_a_gpu
def test_the_command_looks_at_every_bucket(shared_device, capsys):
    assert app.invoke(["check", "msm", "walker:threads=64", "--buckets", "--n", "64", "--seed", "7", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["seed"] == 7 and not said["inspected"]["walker:threads=64"]["findings"]
    assert "against the model" in said["inspected"]["walker:threads=64"]["compared"]


@pytest.mark.parametrize(
    "words", [["msm", "--buckets"], ["msm", "affine", "--buckets"], ["msm", "walker", "--buckets", "--task"]]
)
def test_what_has_no_buckets_says_so(words):
    with pytest.raises(Exception, match=r"buckets|look at inside") as caught:
        app.invoke(["check", *words])
    assert caught.value.cure and caught.value.exit_code in (ExitCode.USAGE, ExitCode.ENVIRONMENT)
