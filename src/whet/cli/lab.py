"""`whet lab`: serve the page that makes a phone or a laptop a device, and show who is there."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whet.cli import options
from whet.errors import BadInput, Unsupported

if TYPE_CHECKING:
    from whet.lab.operator_app import Listed
    from whet.lab.serving import LabServer
    from whet.lab.wishes import Wishes

PORT = 8417
LOOK_EVERY_S = 0.5


@click.command("lab", short_help="phones and laptops as devices, through a browser")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes a free one.")
@click.option("--lan", is_flag=True, help="Serve the local network by https, with a token and a code to scan.")
@click.option(
    "--host", metavar="ADDRESS", help="The address of this machine that --lan takes; the likeliest unless given."
)
@click.option("--usb", is_flag=True, help="Make the page reachable as localhost on phones by adb.")
@click.option("--cert", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Your certificate, PEM.")
@click.option("--key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Its key, PEM.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name it goes by, as behind a tunnel."
)
@click.option("--list", "only_list", is_flag=True, help="List the devices of the lab that runs, and end.")
@options.as_json
def command(**given: Any) -> None:
    """Whoever opens the link is a device: `whet ab msm walker coop --device lab:NAME`.

    Without options it serves this machine alone, by http://localhost. A phone needs --usb or --lan, because browsers
    hide WebGPU from pages that are neither on localhost nor https. Ctrl-C ends it.
    """
    try:
        import whet.lab.serving  # noqa: F401
    except ModuleNotFoundError as error:
        raise Unsupported(f"the package {error.name} is not installed", cure="pip install 'whet[lab]'") from None
    if given.pop("only_list"):
        list_devices(given["as_json"])
    else:
        serve(**given)


def list_devices(as_json: bool) -> None:
    from whet.cli.console import print_json
    from whet.lab.operator_link import Operator

    found = Operator().devices()
    if as_json:
        print_json({"devices": found})
        return
    for device in found:
        click.echo(_line(device))
    if not found:
        click.echo("no device is connected; open the link that whet lab shows on one")


def serve(
    *,
    port: int,
    lan: bool,
    host: str | None,
    usb: bool,
    cert: Path | None,
    key: Path | None,
    hosts: tuple[str, ...],
    as_json: bool,
) -> None:
    from whet.lab import ways_in
    from whet.lab.operator_link import socket_path
    from whet.lab.serving import LabServer, check_certificate
    from whet.lab.wishes import Wishes

    if (cert is None) != (key is None):
        raise BadInput("a certificate and its key belong together", cure="give both --cert and --key")
    if host is not None and not lan:
        raise BadInput("--host is for the local network", cure="give --lan as well")
    with ExitStack() as stack:
        more: dict[str, Any] = {}
        if lan:
            more = _on_the_network(stack, host, (cert, key) if cert and key else None)
        if "certificate" in more:
            check_certificate(more["certificate"])
        names = [*more.pop("hosts", []), *hosts]
        server = stack.enter_context(LabServer(port=port, hosts=names, operator_path=socket_path(), **more))
        if usb:
            phones = stack.enter_context(ways_in.usb(server.port))
            click.echo(f"by USB on {', '.join(phones)}: open {ways_in.link('http', 'localhost', server.port)}")
        _show_ways(server, more)
        wishes = Wishes(server, socket_path())
        stack.callback(wishes.close)
        _show_devices(server, wishes)


def _on_the_network(stack: ExitStack, host: str | None, own: tuple[Path, Path] | None) -> dict[str, Any]:
    """Address, names, token and certificate."""
    import secrets
    import tempfile

    from whet.lab.certificate import likeliest_address, local_names, make_certificate

    address = host or likeliest_address()
    names = [address, *local_names(), "localhost", "127.0.0.1"]
    if own is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whet-lab-")))
        made = make_certificate(folder, names)
        click.echo(f"certificate made for {', '.join(names)}; its authority: {made.authority}")
        own = (made.certificate, made.key)
    return {"host": address, "hosts": names, "token": secrets.token_urlsafe(24), "certificate": own}


def _show_ways(server: LabServer, more: dict[str, Any]) -> None:
    from whet.lab import ways_in

    if not more:
        click.echo(f"on this machine: {server.url}")
        return
    link = ways_in.link("https", more["host"], server.port, more["token"])
    click.echo(ways_in.code(link), nl=False)
    click.echo(f"on the local network: {link}")
    click.echo("the browser warns about the certificate once; the token in the link keeps others out")


def _show_devices(server: LabServer, wishes: Wishes) -> None:
    """Who comes and goes and what they ask for, until the end."""
    import time

    known: dict[str, str] = {}
    while True:
        now = {device.name: _line(device) for device in server.listed()}
        for name, line in now.items():
            if name not in known:
                click.echo(f"connected: {line}")
        for name in known.keys() - now.keys():
            click.echo(f"gone: {name}")
        known = now
        for line in wishes.look():
            click.echo(line)
        time.sleep(LOOK_EVERY_S)


def _line(device: Listed) -> str:
    facts = device.facts
    named = " ".join(filter(None, (facts.vendor, facts.architecture, facts.description))) or "unknown adapter"
    state = "taken" if device.taken else "hidden" if device.hidden else "ready"
    return f"lab:{device.name}  {named}{' (software)' if facts.fallback else ''}  {state}"
