"""A run that comes home from another machine: paths as they are here, evidence beside the store, checked to be ours."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from whet.cluster.travel import unpack
from whet.cluster.trial_messages import Finished, RunTrial
from whet.errors import WrongAnswer
from whet.evidence.record import Gate, Run
from whet.evidence.store import plain


def bring_home(
    finished: Finished, asked: RunTrial, *, engine_ref: str, root: Path, evidence_folder: Path, cluster: dict[str, str]
) -> Run:
    """The run as if it had been made here, but for its environment, which gets `cluster`: address, kind and machine."""
    _require_same(finished.run, asked, cluster)
    there = {finished.files_folder: str(root), finished.evidence_folder: str(evidence_folder)}
    kept = {str(evidence_folder / sent.path) for sent in finished.evidence}
    if finished.evidence:
        unpack(finished.evidence, evidence_folder)
    run = _renamed(finished.run, there)
    gates = [_at_home(was, now, there, kept) for was, now in zip(finished.run.gates, run.gates, strict=True)]
    return msgspec.structs.replace(
        run, engine_ref=engine_ref, gates=gates, environment={**run.environment, "cluster": cluster}
    )


def _require_same(run: Run, asked: RunTrial, cluster: dict[str, str]) -> None:
    """A run about something else is no answer, wherever it comes from."""
    for what, got, wanted in (
        ("case", run.case, asked.case),
        ("seed", run.seed, asked.seed),
        ("engine", run.engine_sha256, asked.engine_sha256),
    ):
        if got != wanted:
            raise WrongAnswer(
                f"{cluster['machine']} sent a run of another {what}: {got}",
                cure="install the same whet on every machine",
            )


def _renamed(run: Run, there: dict[str, str]) -> Run:
    """Folders of the other machine by their names here; they are made for one trial, so nothing else is called so."""
    text = msgspec.json.encode(run, enc_hook=plain)
    for folder, name in there.items():
        text = text.replace(_inside(folder), _inside(name))
    return msgspec.json.decode(text, type=Run)


def _inside(name: str) -> bytes:
    """A name as it stands inside of a JSON string."""
    return msgspec.json.encode(name)[1:-1]


def _at_home(was: Gate, now: Gate, there: dict[str, str], kept: set[str]) -> Gate:
    """The command that fails again is quoted for a shell, so its words are renamed one by one."""
    if was.failure is None or now.failure is None:
        return now
    words = shlex.split(was.failure.command)
    for folder, name in there.items():
        words = [word.replace(folder, name) for word in words]
    path = now.failure.inputs_path if now.failure.inputs_path in kept else None
    failure = msgspec.structs.replace(now.failure, command=shlex.join(words), inputs_path=path)
    return msgspec.structs.replace(now, failure=failure)
