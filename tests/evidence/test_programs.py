"""Programs under the gate and the trial: what is compared, what is refused, what is left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whet.errors import BadInput, ExitCode
from whet.evidence.budgets import Budget
from whet.evidence.programs import Program, Setting, compare_programs, expand
from whet.evidence.programs.starting import Starter

WHET = Path(sys.executable).with_name("whet")
SHORT = Budget("short", 4, 5, 5, 2, 0.25, 1, keep_rounds=True)


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "runs.sqlite"))
    monkeypatch.chdir(tmp_path)


def ab(*words: str) -> subprocess.CompletedProcess:
    short = ("--blocks", "5", "--rounds", "1")
    done = subprocess.run([str(WHET), "ab", "--command", *words, *short], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def compared(*commands: str, **setting) -> object:
    programs = [Program(command, command) for command in commands]
    return compare_programs(programs, Setting(**setting), budget=SHORT)


@pytest.mark.alone
def test_a_program_that_sleeps_longer_is_slower(tmp_path):
    words = ("sleep 0.01; echo done", "sleep 0.06; echo done", "--fail-if-slower", "--json")
    done = ab(*words, "--report", "page.html", "--summary", "summary.md", "-n", "short", "-n", "long")
    run = json.loads(done.stdout)
    assert done.returncode == ExitCode.SLOWER
    assert run["variants"] == ["short", "long"] and run["verdicts"][0]["low"] > 1.5
    assert run["summaries"]["long"] == "sleep 0.06; echo done"
    assert run["control"] and run["floor"]["empty_ns"] < 1e8
    assert "1 SLOWER" in Path("summary.md").read_text()
    assert "Peak memory" in Path("page.html").read_text()


def test_wrong_output_has_no_time(tmp_path):
    Path("numbers").write_text("10\n9\n8\n")
    done = ab("sort -n numbers", "sort numbers", "--json")
    run = json.loads(done.stdout)
    assert done.returncode == ExitCode.REFUSED
    assert [gate["green"] for gate in run["gates"]] == [True, False]
    assert "line 1, byte 0: 10 instead of 8" in run["gates"][1]["failure"]["detail"]
    assert not run["samples"] and not run["tails"] and not run["resources"]


def test_a_command_that_fails_in_one_of_ten_runs(tmp_path):
    counter = "n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count"
    done = ab("echo same", f"{counter}; test $n -ne 6 || {{ echo torn >&2; exit 5; }}; echo same", "-n", "a", "-n", "b")
    assert done.returncode == ExitCode.REFUSED
    assert "red: b: failed at profile=as typed: exit code 5 in run 7, not 0" in done.stdout and "torn" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["false", "true"], 64, "the reference 'false' is no good: failed: exit code 1"),
        (["no-such-program-here", "true"], 64, "exit code 127"),
        (["-N", "no-such-program-here", "true"], 64, "it cannot be started: No such file"),
        (["-N", "echo 'a", "true"], 64, "cannot be split into words"),
        (["true", "true", "--prepare", "echo no >&2; exit 2"], 64, "ends with exit code 2: no"),
        (["true", "true", "--setup", "false"], 64, "the --setup command 'false'"),
        (["true", "true", "--input", "no-such-file"], 64, "--input no-such-file cannot be read"),
        (["true", "true", "--filter", "exit 7"], 64, "--filter 'exit 7' ends with exit code 7"),
        (["true", "true", "--prepare", "a", "--prepare", "b", "--prepare", "c"], 64, "3 times for 2 commands"),
        (["date +%N", "true"], 3, "its own first output (--filter"),
        (["sleep 30", "true", "--call-limit", "4"], 64, "hung: no end within 4 s"),
        (["true", "sleep 30", "--call-limit", "4"], 3, "hung: no end within 4 s"),
        (["true", "sleep 30 > /dev/null 2>&1 &"], 3, "left a process"),
        (["true", "setsid sleep 30 > /dev/null 2>&1 &"], 3, "left a process"),
        (["true", "kill -9 $$"], 3, "signal 9 in run 1, not 0"),
        (["true", "true", "-L", "a", "1", "-L", "a", "2"], 64, "a parameter is given twice"),
        (["true", "true", "-P", "a", "5", "1"], 64, "has no end"),
        (["true", "true", "-P", "a", "1", "x"], 64, "'x' is no number"),
        (["true", "true", "--n", "5"], 64, "programs have no sizes"),
        (["true", "true", "--baseline", "x"], 64, "is not among the commands"),
    ],
)
def test_what_is_no_good_is_told(words, code, said):
    done = ab(*words)
    assert done.returncode == code and said in done.stdout + done.stderr, done.stdout + done.stderr


def test_options_of_programs_need_the_word():
    done = subprocess.run([str(WHET), "ab", "msm", "--prepare", "x"], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.USAGE and "add --command" in done.stderr


def test_stdin_expected_file_filter_and_ignored_codes(tmp_path):
    Path("given").write_text("b\na\n")
    Path("right").write_text("a\nb\n")
    run = compared("sort", "cat", source="given", expect="right", filter="sort")
    assert all(gate.green for gate in run.gates)
    run = compared("sort", "cat", source="given", expect="right")
    assert [gate.green for gate in run.gates] == [True, False]
    assert all(gate.green for gate in compared("exit 3", "exit 3", ignored_codes=frozenset()).gates)
    assert not compared("exit 3", "exit 4", ignored_codes=frozenset()).gates[1].green
    assert compared("exit 0", "exit 4", ignored_codes=frozenset({4})).gates[1].green


def test_steps_run_when_they_should():
    program = Program("a", "echo a", prepare="echo p >> log", conclude="echo c >> log", cleanup="echo end >> log")
    compare_programs([program], Setting(setup="echo begin >> log"), budget=SHORT)
    first, *steps, last = Path("log").read_text().split()
    assert (first, last) == ("begin", "end")
    assert steps == ["p", "c"] * (len(steps) // 2) and len(steps) >= 2 * (2 + 10)


def test_parameters():
    lists = {"k": ["1", "2"], "mode": ["x"]}
    alone = expand([Program("p {k}", "run {k} {mode}")], Setting(), lists)
    assert [[one.command for one in programs] for programs, _ in alone] == [["run 1 x", "run 2 x"]]
    Path("in1").touch(), Path("in2").touch()
    each = expand([Program("a", "a {k}"), Program("a", "b {k}")], Setting(source="in{k}"), lists)
    assert [[one.command for one in programs] for programs, _ in each] == [["a 1", "b 1"], ["a 2", "b 2"]]
    assert [one.name for one in each[0][0]] == ["a", "a #2"]
    assert [Path(setting.source).name for _, setting in each] == ["in1", "in2"]
    done = ab("echo {k}", "printf '%s\\n' {k}", "-P", "k", "1", "2", "-D", "0.5", "--json")
    runs = json.loads(done.stdout)["runs"]
    assert [run["case"] for run in runs] == [
        {"sizes": {"k": 1}, "profile": "as typed"},
        {"sizes": {}, "profile": "k=1.5"},
        {"sizes": {"k": 2}, "profile": "as typed"},
    ]
    with pytest.raises(BadInput, match="combinations"):
        expand([Program("a", "a")], Setting(), {"k": ["1"] * 300})


def test_memory_and_processor_time_are_those_of_the_program():
    """A program that holds 64 MiB more shows them; what starts it holds a few."""
    take = (
        "import time; held = bytearray({} << 20); end = time.process_time() + {}\nwhile time.process_time() < end: pass"
    )
    with Starter() as starter:
        used = [
            starter.run([sys.executable, "-I", "-S", "-c", take.format(*one)], source="/dev/null", cores=[], limit_s=60)
            for one in ((0, 0), (64, 0.2))
        ]
        small = starter.run(["true"], source="/dev/null", cores=[], limit_s=60)
    assert abs(used[1].peak_bytes - used[0].peak_bytes - (64 << 20)) < 8 << 20
    assert 0.15e9 < used[1].user_ns + used[1].system_ns - used[0].user_ns - used[0].system_ns < 1e9
    assert small.peak_bytes < 24 << 20


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(how, tmp_path):
    """Ctrl-C, or the death of whet itself, in the middle of a program that has children of its own."""
    mark = f"31{os.getpid()}{int(how)}"
    command = f"setsid sleep {mark} & sleep {mark}"
    words = [str(WHET), "ab", "--command", command, "true"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    await_until(lambda: len(running(mark)) >= 2)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (ExitCode.INTERRUPTED if how == signal.SIGINT else -signal.SIGKILL)
    assert "Traceback" not in said
    await_until(lambda: not running(mark))


def running(mark: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"sleep") and mark.encode() in words:
            found.append(place.parent.name)
    return found


def await_until(true) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, shlex.quote("nothing of the kind within a minute")
        time.sleep(0.05)
