"""A certificate made on the spot for the names and addresses that this machine has on its local network."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil
import trustme

from whet.errors import Unsupported


@dataclass(frozen=True)
class Certificate:
    """PEM files: the certificate with its chain, its key, and the authority that a device may install."""

    certificate: Path
    key: Path
    authority: Path


def local_addresses() -> list[str]:
    """Addresses by which others on the local network reach this machine, the likeliest first."""
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: it only asks which address would be used to reach the documentation's network.
            probe.connect(("192.0.2.1", 9))
            found.append(probe.getsockname()[0])
        except OSError:
            pass
    for addresses in psutil.net_if_addrs().values():
        found += [one.address for one in addresses if one.family == socket.AF_INET]
    return [one for one in dict.fromkeys(found) if not ipaddress.ip_address(one).is_loopback]


def local_names() -> list[str]:
    """Names by which others may reach it."""
    own = socket.gethostname().lower()
    return list(dict.fromkeys([own, own if own.endswith(".local") else f"{own.partition('.')[0]}.local"]))


def likeliest_address() -> str:
    found = local_addresses()
    if not found:
        raise Unsupported("this machine has no address on a local network", cure="connect it, or use --usb")
    return found[0]


def make_certificate(folder: Path, names: list[str]) -> Certificate:
    """A new authority and one certificate of it, in a folder that only this user can read."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = trustme.CA(organization_name="whet lab")
    issued = authority.issue_cert(*names, common_name=names[0])
    made = Certificate(folder / "certificate.pem", folder / "key.pem", folder / "authority.pem")
    made.key.touch(mode=0o600)
    issued.private_key_pem.write_to_path(made.key)
    for number, pem in enumerate(issued.cert_chain_pems):
        pem.write_to_path(made.certificate, append=number > 0)
    authority.cert_pem.write_to_path(made.authority)
    return made
