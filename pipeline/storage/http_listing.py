"""What a web server's listing of a folder says: the links of a page, nothing that may be an entry left out.

A page is a listing because it links to something in its folder; servers also answer with pages to sign in, or
that they are being repaired, and say that all is well.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote_to_bytes, urljoin, urlsplit

from medsanitize.pipeline.storage.entries import Entry, entry_named
from medsanitize.pipeline.storage.retry import UnexpectedResponse

_ELSEWHERE: Final = ("data:", "javascript:", "mailto:", "tel:")
_SORTING: Final = frozenset(["C", "O", "order", "sort"])
"""What listings of Apache, nginx and Caddy call the ways to sort them."""


def entries_of_page(page: bytes, folder: str) -> list[Entry]:
    """What a listing says of a folder, in the byte order of names.

    Links that lead out of the folder and those that sort the listing are nothing; whatever else names
    something below it in a way that cannot be followed (with a query, under another scheme, port or
    spelling) becomes ``unlisted``.

    Parameters
    ----------
    page : bytes
        What the server answered with.
    folder : str
        Its address, without the slash at the end.

    Raises
    ------
    UnexpectedResponse
        No link of the page names a file or a folder of its own.
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
    except AssertionError:  # what the parser makes of some that is no HTML
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
    if link.lower().startswith(_ELSEWHERE):
        return None
    try:
        target = urlsplit(urljoin(base.geturl(), link))
        same_origin = _origin(target) == _origin(base)
    except ValueError:
        return _unlisted(link)
    if not target.netloc:  # of a name with a colon, what stands before it looks like a scheme
        return _unlisted(link)
    if target.hostname != base.hostname:
        return None
    depth = base.path.count("/")
    folder, rest = target.path.split("/")[:depth], "/".join(target.path.split("/")[depth:])
    own = base.path.split("/")[:depth]
    if [one.lower() for one in _plain(folder)] != [one.lower() for one in _plain(own)]:
        return None
    if target.query and (rest or not _only_sorts(target.query)):
        return _unlisted(f"{rest}?{target.query}")
    if not rest or unquote_to_bytes(rest.removesuffix("/")) in (b".", b".."):
        return None
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
