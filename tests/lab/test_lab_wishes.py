"""Links that start a comparison by themselves: what a page may ask for, and that it is run once, on its own device."""

from __future__ import annotations

import json
import time

import pytest
from simulated import Page, post, saxpy
from test_lab_devices import SAXPY, lab
from test_lab_page import LIMIT_S, chromium, connected, opened
from test_lab_security import HELLO

from whet.evidence.store import Store
from whet.lab import wishes as wishing
from whet.lab.ways_in import link
from whet.lab.wire import Wish
from whet.lab.wishes import Wishes, words_of

__all__ = ["chromium"]


def wish(**more):
    return {"variants": ["walker", "coop:g=8,slots=4"], "n": "2^10", **more}


def test_a_wish_is_a_command_that_somebody_could_have_typed():
    words = words_of(Wish(variants=["walker", "coop:g=8"], n="2^10"), "phone")
    assert words == ["ab", "msm", "walker", "coop:g=8", "--n", "2^10", "--device", "lab:phone", "--quick"]


@pytest.mark.parametrize(
    "asked",
    [
        wish(engine="/tmp/engine.py"),
        wish(engine="engine.py"),
        wish(engine="--help"),
        wish(engine="msm@main"),
        wish(variants=["--build=touch x"]),
        wish(variants=["candidate.py:fast"]),
        wish(variants=["/etc/passwd:x"]),
        wish(variants=["walker@main"]),
        wish(variants=["walker\n"]),
        wish(variants=[]),
        wish(variants=["walker"] * 17),
        wish(n="2^999"),
        wish(n="0"),
        wish(n="-1"),
        wish(n="10;x"),
        wish(device="lab:other"),
        wish(seconds=10**9),
        "walker",
    ],
)
def test_what_is_no_plain_word_is_refused(asked):
    with lab() as server:
        assert post(server.port, "hello", {**HELLO, "wish": asked})[0] == 400
        assert not server.hub.devices
        assert post(server.port, "hello", {**HELLO, "wish": wish()})[0] == 200


def asked_of(server):
    async def look():
        return server.hub.next_wish()

    return server.call(look())


def test_a_wish_is_told_once_and_waits_until_its_device_is_free():
    with lab() as server:
        page = Page(server.port, "phone")
        assert page.hello(wish=wish()) == 200
        lease = server.hub.take("phone")
        assert asked_of(server) is None
        server.hub.give_back("phone", lease)
        device, found = asked_of(server)
        assert device == "phone" and found.variants == wish()["variants"] and found.engine == "msm"
        assert asked_of(server) is None


def finished(wishes, limit_s=LIMIT_S):
    deadline = time.monotonic() + limit_s
    while wishes._running is not None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        yield from wishes.look()


@pytest.mark.slow
def test_what_cannot_be_run_is_said_on_the_page_and_the_server_goes_on(tmp_path, capfd):
    told = []

    def compute(header, parts):
        told.append(header.get("view", {}).get("note", ""))
        return saxpy(header, parts)

    with lab(operator_path=tmp_path / "lab.sock") as server:
        page = Page(server.port, "phone", compute)
        assert page.hello(wish=wish(variants=["nosuch", "walker"])) == 200
        page.run_without_hello()
        wishes = Wishes(server, tmp_path / "lab.sock", ("--store", str(tmp_path / "runs.sqlite")))
        assert wishes.look() == [
            "asked for by its address: whet ab msm nosuch walker --n '2^10' --device lab:phone --quick"
        ]
        assert list(finished(wishes)) == ["what lab:phone asked for could not be run"]
        assert "nosuch" in capfd.readouterr().err
        assert any("could not be run" in note for note in told)
        page.stop()


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.xdist_group("lab")
def test_a_link_with_variants_and_n_starts_by_itself(chromium, tmp_path, monkeypatch):
    """In Chromium, as one parameter and as several; a reload does not start it once more.

    What is run is a kernel that compiles faster than a sum, in the place of the sum that the link asks for.
    """
    path, store, asked = tmp_path / "lab.sock", tmp_path / "runs.sqlite", []

    def instead(wish, device):
        asked.append(words_of(wish, device))
        return ["ab", str(SAXPY), "small", "large", "--n", "64", "--device", f"lab:{device}", *SHORT]

    monkeypatch.setattr(wishing, "words_of", instead)
    with lab(operator_path=path) as server:
        wishes = Wishes(server, path, ("--store", str(store)))
        with opened(chromium, f"{server.url}?name=phone&variants=walker,coop:g=2,glv=true&n=2^4") as page:
            connected(server, "phone")
            (line,) = wishes.look()
            assert line.startswith("asked for by its address: whet ab ")
            assert asked == [words_of(Wish(variants=["walker", "coop:g=2,glv=true"], n="2^4"), "phone")]
            assert list(finished(wishes, 600)) == []
            page.reload()
            page.wait_for_function("() => document.getElementById('connection').textContent === 'connected'")
            assert wishes.look() == []
        farm = {"name": "farm", "variants": "../etc", "n": "2^4"}
        with opened(chromium, link("http", "localhost", server.port, settings=farm)) as page:
            connected(server, "farm")
            page.wait_for_function("() => document.getElementById('stage').textContent.includes('cannot be run')")
            assert wishes.look() == []
    with Store.open(store) as kept:
        (run,) = [kept.get(row.id) for row in kept.list()]
    assert run.device == "lab:phone" and run.variants == ["small", "large"]
    assert all(gate.green for gate in run.gates), json.dumps([str(gate.failure) for gate in run.gates])


SHORT = ["--quick", "--rounds", "1", "--seconds", "2", "--call-limit", "300"]
