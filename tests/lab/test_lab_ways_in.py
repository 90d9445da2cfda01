"""How devices get in: https with a certificate of one's own, the code that leads there, WebDriver, USB; what leaves."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from simulated import Page, post

from needs import needed
from whet.cli.app import root
from whet.errors import BadInput, Unsupported
from whet.lab import ways_in
from whet.lab.certificate import local_names, make_certificate
from whet.lab.chromium import own_flags
from whet.lab.serving import LabServer, check_certificate

EXAMPLE = Path(__file__).parents[2] / "examples" / "saxpy_webgpu.py"


def matrix_of(drawn):
    """The dots of a code in a terminal, from half blocks; True is dark."""
    rows = []
    for line in drawn.splitlines():
        upper = [character in " ▄" for character in line]
        lower = [character in " ▀" for character in line]
        rows += [upper, lower]
    return rows


def read_code(drawn):
    zxingcpp = pytest.importorskip("zxingcpp") if os.environ.get("CI") != "true" else __import__("zxingcpp")
    import numpy as np

    plain = "\n".join(line for line in drawn.replace("\x1b[7m", "").replace("\x1b[0m", "").splitlines() if line)
    rows = matrix_of(plain)
    width = max(map(len, rows))
    dots = np.array([[*row, *[False] * (width - len(row))] for row in rows])
    image = np.where(np.kron(dots, np.ones((8, 8), bool)), 0, 255).astype(np.uint8)
    image = np.pad(image, 40, constant_values=255)
    (found,) = zxingcpp.read_barcodes(image)
    return found.text


def test_the_code_leads_to_a_link_that_works(tmp_path):
    """Read back as a camera would, then followed: the certificate is right for the address, the token is taken."""
    address, token = "127.0.0.1", "t0k3n-" * 5
    made = make_certificate(tmp_path / "made", [address, *local_names(), "localhost"])
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    assert stat.S_IMODE(made.key.stat().st_mode) & 0o077 == 0
    check_certificate((made.certificate, made.key))
    certificate = (made.certificate, made.key)
    with LabServer(host=address, hosts=[address], token=token, certificate=certificate, poll_s=0.05) as server:
        wanted = ways_in.link("https", address, server.port, token)
        found = read_code(ways_in.code(wanted))
        assert found == wanted
        trusted = ssl.create_default_context(cafile=str(made.authority))
        page = Page(server.port, token=found.partition("#token=")[2], context=trusted, host=address)
        assert page.hello() == 200 and page.next({})[0] == 204
        named = Page(server.port, token=token, context=trusted, host="localhost")
        assert named.hello() == 200
        assert post(server.port, "hello", {}, body=b"x", context=trusted, host=address)[0] == 401
        with pytest.raises(ssl.SSLCertVerificationError):
            post(server.port, "hello", {}, context=ssl.create_default_context(), host=address)
        with socket.create_connection((address, server.port), 10) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"whet" not in plain.recv(1000)


def test_a_certificate_that_is_none_is_refused(tmp_path):
    (tmp_path / "x.pem").write_text("nothing")
    with pytest.raises(BadInput, match="cannot be used"):
        check_certificate((tmp_path / "x.pem", tmp_path / "x.pem"))


def test_the_certificate_is_for_this_machine_on_its_network(tmp_path):
    """Every name and the address of the link stand in it, and nothing that it does not go by."""
    from cryptography import x509

    from whet.cli.lab import _on_the_network
    from whet.lab.certificate import local_addresses

    address = local_addresses()[0] if local_addresses() else "127.0.0.1"
    with contextlib.ExitStack() as stack:
        more = _on_the_network(stack, address, None)
        (made, *_) = x509.load_pem_x509_certificates(more["certificate"][0].read_bytes())
        told = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        named = {*told.get_values_for_type(x509.DNSName), *map(str, told.get_values_for_type(x509.IPAddress))}
        assert named == {address, *local_names(), "localhost", "127.0.0.1"} == set(more["hosts"])
        assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def with_authority(home, authority):
    """A home whose browsers know this authority, as after installing it by hand."""
    certutil = needed(lambda: executable_of("certutil", "libnss3-tools"))
    for folder in (home / ".pki" / "nssdb", home / ".local" / "share" / "pki" / "nssdb"):
        folder.mkdir(parents=True)
        kept = ["-d", f"sql:{folder}"]
        subprocess.run([certutil, *kept, "-N", "--empty-password"], check=True, timeout=60)
        installed = [certutil, *kept, "-A", "-n", "whet lab", "-t", "C,,", "-i", str(authority)]
        subprocess.run(installed, check=True, timeout=60)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.xdist_group("lab")
def test_chromium_with_the_authority_installed_follows_the_code(tmp_path):
    """The link as a camera reads it off the terminal, in a browser that knows the authority, without a flag for it."""
    made = make_certificate(tmp_path / "made", ["127.0.0.1", *local_names(), "localhost"])
    token = secrets.token_urlsafe(24)
    with_authority(tmp_path / "home", made.authority)
    (tmp_path / "other").mkdir()
    with LabServer(token=token, certificate=(made.certificate, made.key), poll_s=1) as server:
        scanned = read_code(ways_in.code(ways_in.link("https", "127.0.0.1", server.port, token)))
        assert scanned.startswith("https://127.0.0.1:")
        with browser_at(tmp_path / "other") as page:
            # A browser that does not know it shows a warning in the place of the page.
            with pytest.raises(Exception, match="ERR_CERT_AUTHORITY_INVALID"):
                page.goto(scanned)
            assert not server.hub.devices
        with browser_at(tmp_path / "home") as page:
            page.goto(scanned)
            device = server.call(server.hub.arrived("", 180))
            assert device.facts.isolated and page.evaluate("isSecureContext && !location.hash")


@contextlib.contextmanager
def browser_at(home):
    """A Chromium with this home."""

    def start():
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            raise Unsupported("no playwright", cure="pip install playwright") from None
        return sync_playwright()

    with needed(start) as driver:
        executable = needed(lambda: executable_of("chromium", "chromium"))
        browser = driver.chromium.launch(
            executable_path=executable, args=own_flags(), env={**os.environ, "HOME": str(home)}, timeout=180_000
        )
        page = browser.new_page()
        page.set_default_timeout(180_000)
        yield page
        browser.close()


def executable_of(name, package):
    found = shutil.which(name)
    if found is None:
        raise Unsupported(f"no {name}", cure=f"apt install {package}")
    return found


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.xdist_group("lab")
def test_a_browser_behind_a_webdriver_server(tmp_path):
    driver = needed(lambda: executable_of("chromedriver", "chromium-driver"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        words = ["ab", str(EXAMPLE), "small", "large", "--n", "64", "--quick", "--rounds", "1", "--json"]
        device = f"webdriver:http://127.0.0.1:{port}"
        done = CliRunner().invoke(root, [*words, "--device", device, "--store", str(tmp_path / "s")])
        assert done.exit_code in (0, 2), done.output
        run = json.loads(done.stdout)
        assert run["device"] == device and all(gate["green"] for gate in run["gates"]), [
            gate["failure"] and gate["failure"]["detail"] for gate in run["gates"]
        ]
    finally:
        serving.terminate()
        serving.wait(20)


def test_a_webdriver_server_that_is_not_there_is_said():
    from whet.lab.webdriver import open_webdriver

    with pytest.raises(BadInput, match="no address"), open_webdriver("nonsense"):
        pass
    with pytest.raises(Unsupported, match="no WebDriver server"), open_webdriver("http://127.0.0.1:1"):
        pass


def test_usb_asks_adb_for_every_phone(tmp_path, monkeypatch):
    """A program in the place of adb writes down what it is asked."""
    said = tmp_path / "said"
    fake = tmp_path / "adb"
    phones = 'printf "List\\nabc\\tdevice\\nxyz\\toffline\\n"'
    fake.write_text(f'#!/bin/sh\necho "$@" >> {said}\n[ "$1" = devices ] && {phones}\nexit 0\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with ways_in.usb(8417) as phones:
        assert phones == ["abc"]
    assert said.read_text().splitlines() == [
        "devices",
        "-s abc reverse tcp:8417 tcp:8417",
        "-s abc reverse --remove tcp:8417",
    ]
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(Unsupported, match="adb is not installed"), ways_in.usb(1):
        pass


def test_a_sweep_over_all_devices_and_what_it_measured_as_one_file(tmp_path, monkeypatch):
    """Device by variant by size from one command; the runs leave as a file, and another store takes them in."""
    monkeypatch.setenv("WHET_LAB", str(tmp_path / "lab.sock"))
    store, other, file = (str(tmp_path / name) for name in ("one.sqlite", "other.sqlite", "runs.json"))
    with LabServer(operator_path=tmp_path / "lab.sock", poll_s=0.2) as server:
        pages = [Page(server.port, name).start() for name in ("phone", "tablet")]
        words = [
            "sweep",
            str(EXAMPLE),
            "small",
            "large",
            "--axis",
            "n=8,64",
            "--quick",
            "--rounds",
            "1",
            "--seconds",
            "2",
        ]
        report = tmp_path / "matrix.html"
        done = CliRunner().invoke(root, [*words, "--device", "lab:all", "--store", store, "--report", str(report)])
        assert done.exit_code == 0, done.output
        picture = report.read_text(encoding="utf-8").partition('class="matrix"')[2].partition("</table>")[0]
        # Two devices, two variants, two sizes.
        assert picture.count('<td class="cell') == 8 and "lab:phone" in picture and "lab:tablet" in picture
        tuned = CliRunner().invoke(
            root, ["tune", str(EXAMPLE), "--n", "64", "--device", "lab:phone", "--store", store, "--json"]
        )
        assert tuned.exit_code == 0, tuned.output
        assert {row["variant"] for row in json.loads(tuned.stdout)["tried"]} == {"small", "large"}
        for page in pages:
            page.stop()
    listed = json.loads(CliRunner().invoke(root, ["runs", "--json", "--store", store]).stdout)
    assert sorted(run["device"] for run in listed) == ["lab:phone"] * 3 + ["lab:tablet"] * 2
    ids = [run["id"] for run in listed]
    assert CliRunner().invoke(root, ["report", *ids, "--format", "json", "-o", file, "--store", store]).exit_code == 0
    taken = CliRunner().invoke(root, ["runs", "--import", file, "--json", "--store", other])
    assert taken.exit_code == 0 and {run["id"] for run in json.loads(taken.stdout)} == set(ids)
    again = CliRunner().invoke(root, ["runs", "--import", file, "--json", "--store", other])
    assert len(json.loads(again.stdout)) == len(ids)


def test_whet_lab_shows_who_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_LAB", str(tmp_path / "lab.sock"))
    import sys

    command = [sys.executable, "-m", "whet", "lab", "--port", "0"]
    lab = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        first = lab.stdout.readline()
        port = int(first.rstrip("/\n").rpartition(":")[2])
        page = Page(port, "phone").start()
        assert "connected: lab:phone" in lab.stdout.readline()
        listed = CliRunner().invoke(root, ["lab", "--list"])
        assert "lab:phone" in listed.output
        page.stopped.set()
    finally:
        lab.send_signal(2)
        assert lab.wait(30) == 130
    assert "no lab is running" in str(CliRunner().invoke(root, ["lab", "--list"]).exception)
    assert threading.active_count() >= 1
