"""Runs that a command is given: ids, `last`, or files that `whet report --format json` wrote."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from whet.errors import BadInput, StoreError, WhetError

if TYPE_CHECKING:
    from whet.evidence.record import Export, Run
    from whet.evidence.store import Store

MOST_HISTORY = 30


class RunName(click.ParamType[str]):
    """A run's id, a unique beginning of it, `last`, `last-N` or an exported .json file. Completes from the store."""

    name = "run"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from whet.cli.settings import open_store

        try:
            with open_store(ctx.params.get("store_path"), read_only=True) as store:
                known = [(run.id, f"{run.engine}: {run.headline}") for run in store.list(limit=50)]
        except WhetError:
            return []
        return [
            CompletionItem(name, help=said)
            for name, said in [("last", "newest"), *known]
            if name.startswith(incomplete)
        ]


def find_run(which: str, store_path: Path | None) -> Run:
    """One run."""
    runs = find_export((which,), store_path).runs
    if len(runs) != 1:
        raise BadInput(f"{which} holds {len(runs)} runs", cure="export the one run that you mean")
    return runs[0]


def find_export(names: tuple[str, ...], store_path: Path | None) -> Export:
    """The runs of that name, in order, with what people decided about them. Files alone need no store."""
    from whet.evidence.record import Export

    runs, decisions = [], []
    with ExitStack() as stack:
        store: Store | None = None
        for name in names:
            if name.endswith(".json"):
                export = read_export(Path(name))
                runs += export.runs
                decisions += export.decisions
                continue
            if store is None:
                from whet.cli.settings import open_store

                store = stack.enter_context(open_store(store_path, read_only=True))
            run = store.get(name)
            runs.append(run)
            decisions += store.decisions(run.id)
    return Export(runs=runs, decisions=decisions)


def find_history(run: Run, store_path: Path | None) -> list[Run]:
    """Stored runs of the same engine, device and case, newest first: they tell how far runs of one code lie apart.

    None where there is no store that can be read: a comparison of two files does not need one.
    """
    from whet.cli.settings import open_store

    found: list[Run] = []
    with suppress(StoreError), open_store(store_path, read_only=True) as store:
        alike = (one.id for one in store.list(engine=run.engine, device=run.device) if one.case == str(run.case))
        for run_id in islice(alike, MOST_HISTORY):
            with suppress(StoreError):
                found.append(store.get(run_id))
    return found


def read_export(path: Path) -> Export:
    """What `whet report --format json` wrote."""
    import msgspec

    from whet.evidence.record import SCHEMA_VERSION, Export

    cure = "name a run, or a file that `whet report --format json` wrote; --import also takes pyperf's and hyperfine's"
    try:
        export = msgspec.json.decode(path.read_bytes(), type=Export)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", cure=cure) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"{path} is not an exported run: {error}", cure=cure) from error
    if export.schema_version > SCHEMA_VERSION:
        raise BadInput(f"{path} was written by a newer whet (version {export.schema_version})", cure="upgrade whet")
    return export
