"""whet.toml: strict, small, and the working folder wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whet.cli.settings import Settings, load_settings, open_store
from whet.errors import BadInput


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("WHET_STORE", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def user_file(tmp_path: Path) -> Path:
    folder = tmp_path / "config" / "whet"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "whet.toml"


def test_defaults():
    assert load_settings() == Settings()


def test_the_working_folder_wins_key_by_key(tmp_path):
    user_file(tmp_path).write_text('effect = 0.05\nbudget = "quick"\n')
    Path("whet.toml").write_text('budget = "rigorous"\n')
    assert load_settings() == Settings(effect=0.05, budget="rigorous")


def test_the_store_is_named_relative_to_its_file(tmp_path, monkeypatch):
    user_file(tmp_path).write_text('store = "mine.sqlite"\n')
    with open_store(None) as store:
        assert store.path == tmp_path / "config" / "whet" / "mine.sqlite"
    Path("whet.toml").write_text('store = "here.sqlite"\n')
    with open_store(None) as store:
        assert store.path.absolute() == tmp_path / "work" / "here.sqlite"
    monkeypatch.setenv("WHET_STORE", str(tmp_path / "env.sqlite"))
    with open_store(None) as store:
        assert store.path == tmp_path / "env.sqlite"
    with open_store(tmp_path / "option.sqlite") as store:
        assert store.path == tmp_path / "option.sqlite"


BAD = {
    "colour = 1": "unknown key 'colour'",
    'effect = "2 %"': "effect",
    "effect = 0": "effect",
    "effect = 1.5": "effect",
    "effect = nan": "effect",
    'budget = "slow"': "budget",
    "budget = 3": "budget",
    "store = 7": "store",
    "store = []": "store",
    "[effect]\nx = 1": "effect",
    "effect = ": "not TOML",
    "effect 0.02": "not TOML",
    'budget = "quick"\nbudget = "quick"': "not TOML",
}


@pytest.mark.parametrize("content", BAD)
def test_what_is_wrong_is_named_with_file_key_and_cure(content, tried):
    Path("whet.toml").write_text(content)
    with pytest.raises(BadInput, match=BAD[content]) as caught:
        load_settings()
    assert "whet.toml" in caught.value.cause and caught.value.cure
    tried("malformed inputs")


def test_unreadable_files(tried):
    Path("whet.toml").mkdir()
    with pytest.raises(BadInput, match="cannot be read"):
        load_settings()
    tried("malformed inputs")


def test_any_bytes_are_settings_or_bad_input(tried):
    tables = st.dictionaries(st.sampled_from(["store", "effect", "budget", "x"]), st.text(max_size=8) | st.floats())
    lines = tables.map(lambda table: "\n".join(f"{k} = {v!r}" for k, v in table.items()).encode(errors="replace"))

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=60) | lines)
    def attempt(content):
        Path("whet.toml").write_bytes(content)
        try:
            assert isinstance(load_settings(), Settings)
        except BadInput as error:
            assert error.cure
        tried("malformed inputs")

    attempt()
