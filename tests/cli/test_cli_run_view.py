"""A run on the terminal: what stands beside the verdict, and when it stays silent."""

from __future__ import annotations

import msgspec
import pytest

from scripted_runs import blocked_run, scripted_run, scripted_sweep
from whet.cli.growth_view import show_growth
from whet.cli.run_view import exit_code, show_run
from whet.errors import ExitCode
from whet.evidence.record import CONTROL, EMPTY, Gate, Outcome


@pytest.fixture
def shown(capsys):
    def text(run, **options) -> str:
        show_run(run, **options)
        return capsys.readouterr().out

    return text


def test_the_noise_floor_the_errors_and_the_floor_are_told(shown):
    out = shown(blocked_run(1))
    assert "control   plain against itself: 1.00 (0.981 to 1.03); a ratio inside that interval may be noise" in out
    assert "floor     pippenger:glv=true is at the floor: nothing left to gain" in out
    assert "34.0 %" in out and " error " in out.splitlines()[1]
    assert CONTROL not in out and EMPTY not in out
    assert "task      never examined" in out
    examined = msgspec.structs.replace(blocked_run(1), task_examined=True)
    assert "never examined" not in shown(examined)


def test_a_weaker_isolation_is_a_line_and_a_usual_one_is_not(shown):
    assert "isolation" not in shown(blocked_run(1))
    assert "isolation weaker than usual: system call filter: the kernel refused it (EINVAL)" in shown(
        blocked_run(1, weaker=True)
    )


def test_tails_show_when_asked_for_or_when_they_disagree(shown):
    assert "p99" not in shown(blocked_run(2))
    assert "p99" in shown(blocked_run(2), tails=True)
    out = shown(blocked_run(2, tails=True))
    assert "p99" in out and "but its mean says slower: 1.69 times the baseline's" in out


def test_checks_are_said_in_words(shown):
    run = scripted_run(1)
    gates = [Gate(variant=name, green=True, full_checks=29, digest_checks=163) for name in run.variants]
    out = shown(msgspec.structs.replace(run, gates=gates))
    told = "by the oracle: 29 of 163 outputs of each variant; in the other rounds the variants had to agree"
    assert told in out and "29/163" not in out
    all_of_them = [msgspec.structs.replace(gate, full_checks=163) for gate in gates]
    out = shown(msgspec.structs.replace(run, gates=all_of_them))
    assert "163 of 163 outputs of each variant\n" in out
    unequal = [msgspec.structs.replace(gates[0], full_checks=7), *gates[1:]]
    assert "7 of 163 outputs of plain, 29 of 163 outputs of pippenger," in shown(
        msgspec.structs.replace(run, gates=unequal)
    )


def test_the_spread_is_that_of_the_page(shown):
    run = blocked_run(1)
    from whet import units
    from whet.evidence.report import render_report

    spread = units.percent(run.tails["plain"].spread)
    assert spread in shown(run) and f">{spread}<" in render_report([run])


def test_a_red_variant_has_no_time(shown):
    run = scripted_run(1, refused=(2,))
    planted = msgspec.structs.replace(run.samples[0], variant=run.variants[2], wall_ns=123_000_000)
    out = shown(msgspec.structs.replace(run, samples=[*run.samples, planted]))
    assert "123 ms" not in out and "RED" in out


def test_an_older_run_shows(shown):
    out = shown(msgspec.structs.replace(scripted_run(1), schema_version=1))
    assert "ship: pippenger:glv=true; 1.57 times as fast as plain" in out
    for absent in ("control", "isolation", "floor", "task", "error"):
        assert absent not in out


def test_a_sweep_names_crossings_and_noise(capsys):
    show_growth(scripted_sweep())
    out = capsys.readouterr().out
    assert "pippenger overtakes plain at about n = 2,700" in out
    assert out.count("noise floor") == 5 and "plain: time grows as elements^1.00" in out


def test_a_sweep_says_where_variants_of_a_gpu_ran(capsys):
    adapter = {"adapter": {"key": "gpu-vulkan"}}
    runs = [msgspec.structs.replace(run, environment={**run.environment, **adapter}) for run in scripted_sweep()]
    show_growth(runs)
    assert "device=cpu + webgpu:gpu-vulkan " in capsys.readouterr().out


def test_exit_codes_do_not_depend_on_the_arms_of_the_trial():
    run = blocked_run(1, tails=True, weaker=True)
    assert exit_code([run]) == ExitCode.OK
    undecided = [msgspec.structs.replace(v, outcome=Outcome.UNDECIDED) for v in run.verdicts]
    assert exit_code([msgspec.structs.replace(run, verdicts=undecided)]) == ExitCode.UNDECIDED
