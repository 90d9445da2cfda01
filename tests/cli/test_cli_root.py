"""The root command: quick help, one shape for every error, the documented exit codes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from whet import errors
from whet.cli import app, failure
from whet.errors import ExitCode

PROGRAM = [sys.executable, "-m", "whet"]


def cpu_seconds(command, env) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"]])
def test_help_needs_little_cpu_time(whet_env, arguments):
    script = Path(sys.executable).with_name("whet")
    command = [str(script)] if script.exists() else PROGRAM
    assert min(cpu_seconds([*command, *arguments], whet_env) for _ in range(7)) < 0.2


def test_help_lists_every_command_and_imports_none(whet):
    shown = whet("--help")
    assert shown.code == 0
    for name, (_, line) in app.COMMANDS.items():
        assert f"  {name} " in shown.out
        assert " ".join(line.split()[:3]) in shown.out
    probe = "import sys; from whet.cli import app; app.root.get_help(app.click.Context(app.root)); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "rich", "msgspec", "sqlite3", "jinja2"} & set(loaded)


@pytest.mark.parametrize("name", list(app.COMMANDS))
def test_every_command_in_the_table_loads_and_has_help(whet, name):
    shown = whet(name, "--help")
    assert shown.code == 0, shown
    assert shown.out.startswith(f"Usage: whet {name}")


def test_version(whet):
    assert whet("--version").out.startswith("whet 0.")


def test_unknown_command_suggests_the_near_one(whet):
    whet("completoin").assert_explained(64, "did you mean 'completion'?", "whet --help")


def test_usage_errors_exit_64(whet):
    whet("--nonsense").assert_explained(64, "--nonsense")
    whet("completion", "csh").assert_explained(64, "bash", "whet completion --help")
    whet("completion").assert_explained(64, "Missing argument", "fish")


def test_odd_arguments_are_usage_errors(tried):
    @settings(max_examples=300, deadline=None)
    @given(arguments=st.lists(st.text(max_size=12), min_size=1, max_size=4))
    def attempt(arguments):
        assume(arguments[0] not in app.COMMANDS)
        try:
            assert app.invoke(arguments) == ExitCode.OK
        except click.UsageError as error:
            assert failure.explain(error) == ExitCode.USAGE
        tried("malformed inputs")

    attempt()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_names_the_program(whet, shell):
    script = whet("completion", shell)
    assert script.code == 0
    assert "_WHET_COMPLETE" in script.out and "whet" in script.out


def test_completion_answers(whet):
    answer = whet(_WHET_COMPLETE="bash_complete", COMP_WORDS="whet com", COMP_CWORD="1")
    assert answer.code == 0
    assert "plain,completion" in answer.out.split()


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="needs bash")
def test_bash_accepts_the_script(whet, tmp_path):
    path = tmp_path / "whet.bash"
    path.write_text(whet("completion", "bash").out)
    done = subprocess.run(["/bin/bash", "-n", path], capture_output=True, check=False)
    assert done.returncode == 0, done


ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.WhetError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_each_error_prints_cause_cure_and_evidence(kind, capsys):
    code = failure.explain(kind("cause here\nsecond line", cure="do this", evidence="/some/file"))
    printed = capsys.readouterr()
    assert code == kind.exit_code
    assert printed.out == ""
    assert printed.err == "error: cause here second line\n  cure: do this\n  evidence: /some/file\n"


def test_escape_sequences_do_not_reach_the_terminal(capsys):
    failure.explain(errors.BadInput("file \x1b[2Jevil\x07"))
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (MemoryError(), 4),
        (PermissionError(13, "denied", "/x"), 4),
        (SystemExit(3), 3),
        (SystemExit(), 0),
    ],
)
def test_other_ends(error, code, capsys):
    assert failure.explain(error) == code
    assert "Traceback" not in capsys.readouterr().err


def test_a_fault_in_whet_is_saved_not_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    try:
        raise ZeroDivisionError("planted")
    except ZeroDivisionError as error:
        assert failure.explain(error) == ExitCode.INTERNAL
    printed = capsys.readouterr().err
    assert "Traceback" not in printed and "planted" in printed
    saved = Path(printed.split("evidence: ")[1].strip())
    assert "Traceback" in saved.read_text() and saved.is_relative_to(tmp_path)


def test_a_closed_pipe_is_silent(whet_env):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*PROGRAM, "--help"], env=whet_env, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.returncode == ExitCode.PIPE_CLOSED
    assert done.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_stdout_is_explained(whet_env):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*PROGRAM, "--help"], env=whet_env, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr.startswith(b"error: ") and b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_closed_stream_is_no_obstacle(whet_env, closed):
    program = f"exec {sys.executable} -m whet --help {closed}>&-"
    done = subprocess.run(["/bin/sh", "-c", program], env=whet_env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr


def test_an_interrupt_ends_cleanly(whet_env):
    source = "\n".join(
        (
            "import time",
            "from whet.cli import app",
            "app.invoke = lambda _: (print('on', flush=True), time.sleep(60))",
            "app.run()",
        )
    )
    child = subprocess.Popen(
        [sys.executable, "-c", source], env=whet_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "on\n"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == ExitCode.INTERRUPTED
    assert err.startswith("error: interrupted") and "Traceback" not in err
