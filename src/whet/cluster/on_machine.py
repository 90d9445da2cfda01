"""The process that runs a trial on a machine of the cluster: `python -P -m whet.cluster.on_machine`.

The first line of its input is the request; what follows is silence, and the end of it is the order to stop. It answers
on its output, one record per line, and says every few seconds that it is there. From here on everything is as in
`whet ab` on that machine: the same rig, the same confined processes.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from whet import __version__
from whet.cluster.travel import unpack
from whet.cluster.trial_messages import Answer, AskFacts, Facts, Failed, Finished, Progress, Request, RunTrial, Sent
from whet.errors import BadInput, Unsupported, WhetError
from whet.evidence.alone import alone
from whet.evidence.record import Run

HEARTBEAT_S = 2.0
FOLDER_PREFIX = "whet-away-"
# After an order to stop: a trial tells what it measured, and this is how long it may take.
STOP_LIMIT_S = 60.0
MOST_EVIDENCE_BYTES = 64 << 20


class Voice:
    """What this process says. Its own descriptor: whatever else is printed goes to the errors."""

    def __init__(self) -> None:
        self._stream = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._lock = threading.Lock()
        self._last = Progress(share=0.0, note="starting")

    def say(self, answer: Answer) -> None:
        with self._lock:
            if isinstance(answer, Progress):
                self._last = answer
            with contextlib.suppress(OSError):
                self._stream.write(msgspec.json.encode(answer, enc_hook=_plain) + b"\n")
                self._stream.flush()

    def progress(self, share: float, note: str) -> None:
        self.say(Progress(share=share, note=note))

    def keep_beating(self) -> None:
        """A machine that says nothing for long is taken for lost, and a long call is no reason to say nothing."""
        while True:
            time.sleep(HEARTBEAT_S)
            self.say(self._last)


def main() -> None:
    # Threads of a Ray worker block signals, and what they start inherits that. The order to stop is such a signal.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    voice = Voice()
    line = sys.stdin.buffer.readline()
    threading.Thread(target=voice.keep_beating, daemon=True).start()
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    try:
        request = msgspec.json.decode(line, type=Request)
        voice.say(facts(adapter=request.adapter) if isinstance(request, AskFacts) else trial(request, voice.progress))
    except WhetError as error:
        voice.say(Failed(kind=type(error).__name__, cause=error.cause, cure=error.cure))
    except msgspec.MsgspecError as error:
        cause = f"whet {__version__} on that machine does not know this request: {error}"
        voice.say(Failed(kind="Unsupported", cause=cause, cure="install the same whet on every machine"))
    except KeyboardInterrupt:
        voice.say(Failed(kind="Cancelled", cause="interrupted before anything was measured", cure="run it again"))


def facts(*, adapter: bool) -> Facts:
    from whet.evidence import environment
    from whet.evidence.adapter import identify

    found = environment.capture().get("cpu", {})
    name = ""
    if adapter:
        with contextlib.suppress(WhetError):
            name = str(identify("webgpu")["device"])
    return Facts(
        whet=__version__,
        python=platform.python_version(),
        cpu=str(found.get("model", platform.machine())),
        cores=int(found.get("usable_cores") or os.cpu_count() or 1),
        adapter=name,
    )


def trial(asked: RunTrial, on_progress: Callable[[float, str], None]) -> Finished:
    """Gate, trial, verdict, as anywhere; raises what the command line would show."""
    if asked.whet != __version__:
        raise Unsupported(
            f"that machine has whet {__version__}, and whet {asked.whet} asked for the trial",
            cure="install the same version of whet on every machine",
        )
    niceness = full_priority()
    waits = "waits for another trial on this machine"
    with alone(lambda: on_progress(0.0, waits)), fresh_folder() as folder:
        files = folder / "files"
        files.mkdir()
        unpack(asked.files, files)
        os.chdir(files)
        try:
            run, left_out = _compared(asked, folder, on_progress)
        finally:
            os.chdir("/")
        return Finished(
            run=_with_priority(run, niceness),
            files_folder=str(files),
            evidence_folder=str(folder / "evidence"),
            evidence=list(_evidence(folder / "evidence")),
            left_out=left_out,
        )


def _compared(asked: RunTrial, folder: Path, on_progress: Callable[[float, str], None]) -> tuple[Run, dict[str, str]]:
    """The run, and the variants that have no device there, each with the reason."""
    from whet.evidence.adapter import reachable
    from whet.evidence.comparison import baseline_of, make_plan, run_comparison
    from whet.evidence.registry import load
    from whet.evidence.store import Store

    try:
        loaded = load(asked.engine)
    except (BadInput, Unsupported) as error:
        raise Unsupported(
            f"engine {asked.engine} cannot be loaded on that machine: {error.cause}",
            cure="install there what it imports, or let files travel with --send PATH",
        ) from error
    if loaded.sha256 != asked.engine_sha256:
        raise Unsupported(
            f"engine {asked.engine} of that machine is not the one that was asked for: its source differs",
            cure="install the same package there, or name the engine's file, which travels",
        )
    variants, missing = asked.variants, dict[str, Unsupported]()
    if not variants:
        variants, missing = reachable(loaded.engine, asked.device)
        if not variants:
            raise next(iter(missing.values()))
    plan = make_plan(
        loaded, variants, device=asked.device, seed=asked.seed, clock=asked.clock, call_limit_s=asked.call_limit_s
    )
    with Store.open(folder / "runs.sqlite") as store:
        run = run_comparison(
            loaded,
            plan,
            asked.case,
            baseline=baseline_of(loaded, plan, asked.baseline),
            budget=asked.budget,
            effect=asked.effect,
            judge=asked.judge,
            regime=asked.regime,
            command=asked.command,
            store=store,
            on_progress=on_progress,
        )
    left_out = {name: error.cause for name, error in missing.items()}
    return msgspec.structs.replace(run, task_examined=asked.task_examined), left_out


def full_priority() -> int:
    """Ray nices its workers and what they start. Undone where the system allows it; what is left of it otherwise."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    return os.getpriority(os.PRIO_PROCESS, 0)


def _with_priority(run: Run, niceness: int) -> Run:
    from whet.evidence.warnings import low_priority

    if not niceness:
        return run
    return msgspec.structs.replace(
        run,
        warnings=[*run.warnings, *low_priority(niceness)],
        environment={**run.environment, "niceness": niceness},
    )


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """A folder of this trial's own. What killed trials left behind goes first: whoever is here is alone."""
    for old in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True) as name:
        yield Path(name).resolve()


def _evidence(folder: Path) -> Iterator[Sent]:
    """What shows why a variant was refused, smallest first, as far as it is small enough to travel."""
    total = 0
    for path in sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size):
        total += path.stat().st_size
        if total > MOST_EVIDENCE_BYTES:
            return
        yield Sent(path=path.relative_to(folder).as_posix(), content=path.read_bytes())


def _stop_at_end_of_input() -> None:
    """Whoever asked is gone, or wants an end: as Ctrl-C would do it, and with force if that takes too long."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(STOP_LIMIT_S)
    os._exit(1)


def _plain(value: object) -> object:
    from whet.evidence.store import plain

    return plain(value)


if __name__ == "__main__":
    main()
