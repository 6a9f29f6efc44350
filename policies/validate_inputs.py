"""Rules about inputs that are a PACS, and about object store URLs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from medsanitize.errors import Problem
from medsanitize.policies.inputs import (
    LONGEST_ADDRESS,
    OBJECT_STORES,
    SERIES_KEYS,
    STORES,
    STUDY_KEYS,
    is_url,
)
from medsanitize.policies.strict_yaml import display_key

if TYPE_CHECKING:
    from medsanitize.policies.draft import Draft, Steps

# Credentials to this machine do not cross a network.
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_EXAMPLES: Final = "s3://bucket/prefix, gs://bucket/prefix or abfs://container/prefix"
_CHOOSE = "Write worklist: ./worklist.csv, or query: {StudyDate: 20240101-20241231}"


def check_pacs(draft: Draft) -> Iterator[Problem]:
    """Yield every contradiction in inputs that are a PACS."""
    for index, one in enumerate(draft.items("inputs")):
        if isinstance(one, dict):
            yield from _wanted(draft, ("inputs", index), one)
            yield from _peer(draft, ("inputs", index), one)
            yield from _web(draft, ("inputs", index), one)


def _wanted(draft: Draft, path: Steps, one: dict[str, Any]) -> Iterator[Problem]:
    """Yield problems of a query; one that would match the whole PACS is refused."""
    query = one.get("query")
    values = query if isinstance(query, dict) else {}
    for keyword, value in values.items():
        place = (*path, "query", keyword)
        if keyword not in STUDY_KEYS | SERIES_KEYS:
            near = difflib.get_close_matches(str(keyword), sorted(STUDY_KEYS | SERIES_KEYS), n=1, cutoff=0.6)
            remedy = f"Did you mean '{near[0]}'?" if near else f"Known here: {_known()}"
            yield draft.problem(
                place, f"The keyword {display_key(str(keyword))} is not supported in queries", remedy
            )
        elif isinstance(value, str) and (not value.isprintable() or "\\" in value):
            what = "The value contains a backslash or a control character"
            yield draft.problem(place, what, "Write a single value, or list several studies in a worklist")
        # UIDs support list matching only (PS3.4 C.2.2.2.2).
        elif isinstance(value, str) and keyword.endswith("UID") and set(value) & set("*?"):
            yield draft.problem(place, "UIDs do not support wildcard matching", "Write the complete UID")
        elif isinstance(value, str) and keyword.endswith("Time") and not _is_time(value):
            what = "Not a time of day or a range of times"
            yield draft.problem(place, what, "Write it like '0930' or 0800-1159, without wildcards")
    if one.get("worklist") is not None:
        return
    if not values:
        yield draft.problem(path, "This input would retrieve the whole PACS", _CHOOSE)
    # Series keys do not narrow a query at study level.
    elif not any(key in STUDY_KEYS and _narrows(key, value) for key, value in values.items()):
        what = "The query matches every study and would retrieve the whole PACS"
        yield draft.problem(
            (*path, "query"), what, "Add a study-level key such as StudyDate or ModalitiesInStudy"
        )


def _narrows(keyword: str, value: object) -> bool:
    if not isinstance(value, str):
        return True
    if keyword.endswith("Time") and "-" in value:
        first, _, last = value.strip().partition("-")
        return first.ljust(6, "0") > "000000" or last.ljust(6, "9") < "235959"
    return bool(value.strip(" *?-^="))


def _is_time(value: str) -> bool:
    """Whether every answer can be compared with a time; empty and ``*`` match all answers."""
    time = r"(\d{2}(\d{2}(\d{2}(\.\d{1,6})?)?)?)"
    return (
        not value.strip(" *") or re.fullmatch(f"{time}|{time}?-{time}?", value.strip(), re.ASCII) is not None
    )


def _known() -> str:
    return ", ".join(sorted(STUDY_KEYS | SERIES_KEYS))


def _peer(draft: Draft, path: Steps, one: dict[str, Any]) -> Iterator[Problem]:
    peer = one.get("dimse")
    if (
        isinstance(peer, str)
        and (found := re.search(r":([0-9]{1,5})$", peer))
        and int(found[1]) not in _PORTS
    ):
        yield draft.problem((*path, "dimse"), "Invalid port", "Write a port from 1 to 65535")
    if peer is None:
        return
    moves, port = one.get("retrieve") == "move", one.get("port")
    if moves and port is None:
        what = "retrieve: move requires port, the local C-MOVE destination port"
        yield draft.problem(path, what, "Add port: 11112, and configure it as a move destination on the peer")
    elif port is not None and not moves:
        yield draft.problem((*path, "port"), "port has no effect without retrieve: move", "Delete it")


_PORTS = range(1, 65536)


def _web(draft: Draft, path: Steps, one: dict[str, Any]) -> Iterator[Problem]:
    given = [name for name in ("token", "login") if one.get(name) is not None]
    address = one.get("dicomweb")
    if not isinstance(address, str):
        return
    if len(given) > 1:
        what = "A DICOMweb service accepts one credential: token or login"
        yield draft.problem((*path, "login"), what, "Delete one of the two")
    if not is_valid_service(address):
        yield draft.problem((*path, "dicomweb"), "Invalid service URL", "Write https://host/path")
    elif given and not may_carry_credentials(address):
        what = "Credentials would be sent unencrypted"
        yield draft.problem((*path, "dicomweb"), what, "Write https://")


def is_valid_service(address: str) -> bool:
    """Whether the URL of a DICOMweb service has a valid host and port."""
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and (parts.port is None or parts.port in _PORTS)
    except ValueError:
        return False


def may_carry_credentials(address: str) -> bool:
    """Whether credentials may be sent to this service: over TLS, or to this machine."""
    parts = urlsplit(address)
    return parts.scheme == "https" or parts.hostname in _LOOPBACK


def check_stores(draft: Draft) -> Iterator[Problem]:
    """Yield problems of every URL that a policy reads or writes."""
    addresses: list[tuple[Steps, str]] = []
    for index, value in enumerate(draft.items("inputs")):
        if is_url(value):
            addresses.append((("inputs", index), value))
    output = draft.get("output")
    if is_url(output):
        addresses.append((("output",), output))
    for number, (path, address) in enumerate(addresses):
        wrong = _problem(address, STORES if path[0] == "inputs" else OBJECT_STORES)
        if wrong is not None:
            yield draft.problem(path, *wrong)
        elif any(_within(address, other) or _within(other, address) for _, other in addresses[:number]):
            what = "overlaps an address listed before" if path[0] == "inputs" else "overlaps an input"
            yield draft.problem(path, f"This {what}", "List each location once, and none inside another")


def _problem(address: str, schemes: tuple[str, ...]) -> tuple[str, str] | None:
    """Return message and remedy if an address cannot be used, else None."""
    scheme, _, rest = address.partition("://")
    if scheme not in schemes:
        if scheme in STORES:
            return "A release cannot be written to this kind of address", f"Write a folder, {_EXAMPLES}"
        return "Unsupported kind of address", f"Write a folder, {_EXAMPLES}"
    if len(address) > LONGEST_ADDRESS:  # it would be taken for a local path
        return f"The address is longer than {LONGEST_ADDRESS:,} characters", "Write a shorter one"
    if not address.isprintable() or re.search(r"\s", address):
        return "The address contains a space or control character", "Remove it, or rename the location"
    host, _, below = rest.partition("/")
    if not host:
        return "The address has no bucket or server", f"Write {_EXAMPLES}"
    web = scheme in ("http", "https")
    # A policy must not contain credentials.
    if web and "@" in urlsplit(address).netloc:
        return "The address contains a user or password", "Keep credentials in the environment (~/.netrc)"
    if web and {"?", "#"} & set(address):
        return "The address contains a query", "Use the URL of one file, or of a listing that ends in a slash"
    parts = below.removesuffix("/").split("/")
    if below and any(part in ("", ".", "..") for part in parts):
        return "The address contains an empty or dots-only path segment", "Write it without"
    if not web and {"?", "*", "["} & set(below):
        return (
            "The address contains a character that storage libraries treat as a wildcard",
            "Rename the prefix",
        )
    return None


def _within(inner: str, outer: str) -> bool:
    one, other = (address.rstrip("/") + "/" for address in (inner, outer))
    return one.startswith(other)
