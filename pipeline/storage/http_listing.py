"""Folder listings of web servers, read from the links of an HTML page.

A page counts as a listing only if it links to an entry of its own folder: servers also answer 200 with
sign-in or maintenance pages.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote_to_bytes, urljoin, urlsplit

from medsanitize.pipeline.storage.entries import Entry, entry_named
from medsanitize.pipeline.storage.retry import UnexpectedResponse

_OTHER_SCHEMES: Final = ("data:", "javascript:", "mailto:", "tel:")
# Query parameters with which Apache, nginx and Caddy sort listings.
_SORTING: Final = frozenset(["C", "O", "order", "sort"])


def entries_of_page(page: bytes, folder: str) -> list[Entry]:
    """Convert an HTML listing of a folder to entries, in the byte order of names.

    Links out of the folder and links that sort the listing are ignored. A link to something below the folder
    that cannot be followed (with a query, or with another scheme, port or spelling) becomes ``unlisted``.

    Parameters
    ----------
    page : bytes
        Body of the response.
    folder : str
        Address of the folder, without a trailing slash.

    Raises
    ------
    UnexpectedResponse
        No link of the page names a file or folder below the address.
    """
    base = urlsplit(folder + "/")
    entries: dict[tuple[bytes, str], Entry] = {}
    for link in _links_of(page.decode("utf-8", "replace")):
        entry = _entry(link, base)
        if entry is not None:
            entries[entry.name, entry.sort] = entry
    if not any(one.sort != "unlisted" for one in entries.values()):
        raise UnexpectedResponse
    return sorted(entries.values(), key=lambda one: (one.name, one.sort))


def _links_of(page: str) -> list[str]:
    links = _Links()
    try:
        links.feed(page)
        links.close()
    except AssertionError:  # html.parser raises it on some malformed input
        raise UnexpectedResponse from None
    return links.found


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.extend(value.strip() for name, value in attrs if name == "href" and value)


def _entry(link: str, base: SplitResult) -> Entry | None:
    if link.lower().startswith(_OTHER_SCHEMES):
        return None
    try:
        target = urlsplit(urljoin(base.geturl(), link))
        same_origin = _origin(target) == _origin(base)
    except ValueError:
        return _unlisted(link)
    if not target.netloc:  # in a name with a colon, the part before it parses as a scheme
        return _unlisted(link)
    # Servers link to the parent folder and to other sites; these are no entries.
    if target.hostname != base.hostname:
        return None
    depth = base.path.count("/")
    folder, rest = target.path.split("/")[:depth], "/".join(target.path.split("/")[depth:])
    own = base.path.split("/")[:depth]
    # Case-insensitive, because some servers list with another spelling of the path than the request's.
    if [one.lower() for one in _plain(folder)] != [one.lower() for one in _plain(own)]:
        return None
    if target.query and (rest or not _only_sorts(target.query)):
        return _unlisted(f"{rest}?{target.query}")
    # Not resolved by urljoin if quoted (%2E%2E), and not an entry of this folder.
    if not rest or unquote_to_bytes(rest.removesuffix("/")) in (b".", b".."):
        return None
    # Another scheme, port or spelling could be another server or folder; fail closed.
    if not same_origin or _plain(folder) != _plain(own):
        return _unlisted(rest)
    quoted = rest.removesuffix("/").encode()
    return entry_named(unquote_to_bytes(quoted), quoted, is_folder=rest.endswith("/"))


def _only_sorts(query: str) -> bool:
    asked = parse_qsl(query.replace(";", "&"), keep_blank_values=True)
    return {name for name, _ in asked} <= _SORTING


def _origin(address: SplitResult) -> tuple[str, str | None, int | None]:
    return address.scheme, address.hostname, address.port or {"http": 80, "https": 443}.get(address.scheme)


def _plain(names: list[str]) -> list[bytes]:
    return [unquote_to_bytes(name) for name in names]


def _unlisted(link: str) -> Entry:
    return Entry(unquote_to_bytes(link), link.encode(), "unlisted")
