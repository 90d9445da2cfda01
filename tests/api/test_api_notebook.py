"""The notebook in examples/ runs, and what it shows is a page with the verdict."""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]


@pytest.mark.alone
def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "runs.sqlite"))
    # The kernel of this very interpreter, whatever kernels the machine knows.
    kernels = tmp_path / "kernels" / "python3"
    kernels.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernels / "kernel.json").write_text(
        json.dumps({"argv": command, "display_name": "Python 3", "language": "python"})
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = {at: cell.outputs[-1].data for at, cell in enumerate(notebook.cells) if cell.get("outputs")}
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', shown[2]["text/html"])[1]).replace("<wbr>", "")
    assert re.search(r"<h1>Ship horner: [\d.]+ times as fast as powers</h1>", page)
    assert "ship: horner" in shown[2]["text/plain"]
    assert "'horner', <Outcome.FASTER: 'FASTER'>" in " ".join(shown[4]["text/plain"].split())
    assert "red: hasty: wrong output at n=" in shown[6]["text/plain"]
