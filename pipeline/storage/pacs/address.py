"""Addresses of PACS services and their objects, as byte strings that contain all a worker needs.

A service is ``dicomweb+https://[token:NAME@]host/path`` (``NAME`` is an environment variable, never a secret)
or ``dimse://PEER@host:port/CALLING/get`` (or ``/move:PORT``). After ``?`` follows the selection, after ``#``
one object: study, series, instance and, if the peer reports it, SOP class.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode

from medsanitize.errors import UsageError
from medsanitize.policies.base import EnvName
from medsanitize.policies.inputs import DicomWeb, Dimse
from medsanitize.policies.validate_inputs import is_valid_service, may_carry_credentials
from pydantic import TypeAdapter, ValidationError

SCHEMES: Final = (b"dicomweb+", b"dimse://")
PACS_NAME: Final = "The PACS"

_TITLE: Final = re.compile(r"[A-Za-z0-9_.-]{1,16}")
_PEER: Final = re.compile(r"([A-Za-z0-9_.-]{1,16})@([A-Za-z0-9.-]+):([0-9]{1,5})")
_WEB: Final = re.compile(r"dicomweb\+(https?://)(?:(token|login):(\w+)@)?(.+)")
_DIMSE: Final = re.compile(r"dimse://([^@]+)@([^:/]+):(\d+)/([^/]+)/(get|move:(\d+))")


@dataclass(frozen=True, slots=True, repr=False)
class WebService:
    """A DICOMweb service: its URL, and the environment variable that holds its credential.

    ``str`` gives ``name``, so that messages, logs and ``return.json`` contain no host.
    """

    url: str
    credential: str = ""
    variable: str = ""
    name: str = field(default=PACS_NAME, compare=False)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return "WebService(...)"


@dataclass(frozen=True, slots=True, repr=False)
class DimsePeer:
    """A DICOM peer and how to call it; ``port`` receives C-MOVE, None for C-GET.

    ``str`` gives ``name``, so that messages, logs and ``return.json`` contain no host, AE title or port.
    """

    title: str
    host: str
    number: int
    calling: str
    port: int | None = None
    name: str = field(default=PACS_NAME, compare=False)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return "DimsePeer(...)"


@dataclass(frozen=True, slots=True)
class Instance:
    """UIDs of one object of a PACS; ``sop_class`` is empty if the peer does not report it."""

    study: str
    series: str
    instance: str
    sop_class: str = ""


def target_of(text: str, calling: str, credential: str = "", variable: str = "") -> WebService | DimsePeer:
    """Parse a destination: the URL of a DICOMweb service, or ``AET@host:port``.

    Parameters
    ----------
    text : str
        The destination.
    calling : str
        Our AE title.
    credential : str
        ``token`` or ``login``; empty for none.
    variable : str
        Name of the environment variable that holds the credential.

    Raises
    ------
    UsageError
        The destination has neither form, the credential would be sent unencrypted, or ``variable`` is not a
        valid name.
    """
    # A secret written in place of the name must not appear in the message.
    if variable and not _is_name(variable):
        raise UsageError(
            "This is not a valid name of an environment variable",
            "Give the name of the variable that holds the token or login; if this was the secret, replace it",
        )
    if text.startswith(("http://", "https://")):
        # An "@", "?" or "#" would change how the address is parsed later.
        if "@" in text or "?" in text or "#" in text or not is_valid_service(text):
            raise UsageError("This is not an address of a DICOMweb service", "Write https://host/path")
        if variable and not may_carry_credentials(text):
            raise UsageError("Credentials would be sent unencrypted", "Write https://")
        return WebService(text.rstrip("/"), credential, variable)
    found = _PEER.fullmatch(text)
    if found is None or not 0 < int(found[3]) < 65536 or not _TITLE.fullmatch(calling):
        raise UsageError(
            "This is neither a DICOMweb service nor a DICOM peer",
            "Write https://host/path, or AET@host:port (AE titles: at most 16 letters, digits, -, _ and .)",
        )
    if variable:
        raise UsageError("A DICOM peer takes no token or login", "Leave it out")
    return DimsePeer(found[1], found[2], int(found[3]), calling)


def _is_name(variable: str) -> bool:
    """Report whether a policy could name this variable."""
    try:
        return bool(TypeAdapter(EnvName).validate_python(variable))
    except ValidationError:
        return False


def root_of(one: DicomWeb | Dimse) -> bytes:
    """Return the address of an input: service and selection."""
    wanted = dict(one.query) if one.worklist is None else {"": str(one.worklist), **one.query}
    return service_of(one) + b"?" + urlencode(sorted(wanted.items())).encode("ascii")


def service_of(one: DicomWeb | Dimse) -> bytes:
    """Return the address of an input's service."""
    if isinstance(one, Dimse):
        way = "get" if one.retrieve == "get" else f"move:{one.port}"
        return f"dimse://{one.dimse}/{one.calling}/{way}".encode("ascii")
    credential, variable = ("token", one.token) if one.token else ("login", one.login)
    scheme, _, rest = one.dicomweb.rstrip("/").partition("://")
    # Credentials stand in the address only as names of variables: addresses are stored in the state.
    user = f"{credential}:{variable}@" if variable else ""
    return f"dicomweb+{scheme}://{user}{rest}".encode("ascii")


def service_in(address: bytes) -> bytes:
    """Return the service part of an address."""
    return re.split(rb"[?#]", address, maxsplit=1)[0]


def parse_service(service: bytes, name: str = PACS_NAME) -> WebService | DimsePeer:
    """Parse the address of a service; messages use ``name`` for it."""
    text = service.decode("ascii")
    if found := _WEB.fullmatch(text):
        scheme, credential, variable, rest = found.groups()
        return WebService(scheme + rest, credential or "", variable or "", name)
    found = _DIMSE.fullmatch(text)
    if found is None:
        raise ValueError("no address of a PACS")
    title, host, number, calling, _, port = found.groups()
    return DimsePeer(title, host, int(number), calling, int(port) if port else None, name)


def selection_in(root: bytes) -> tuple[Path | None, Mapping[str, str]]:
    """Return the worklist and the query of an input's address."""
    wanted = dict(parse_qsl(root.partition(b"?")[2].decode("ascii")))
    worklist = wanted.pop("", None)
    return (Path(worklist) if worklist else None), wanted


def address_of(service: bytes, *parts: str) -> bytes:
    """Return the address of an entry of a service, from study, series, instance and SOP class."""
    return service + b"#" + "/".join(parts).encode("utf-8")


def instance_in(address: bytes) -> Instance:
    """Return the object that an address names."""
    return Instance(*address.partition(b"#")[2].decode("utf-8").split("/"))
