"""Addresses of files in containers, as byte strings that contain all a worker needs.

The address of ``DIR/IM1`` in ``/in/export.zip`` is ``inside:/in/export.zip!/DIR/IM1``; a container in a
container adds another ``!/``. The characters ``!`` and ``%`` of names are written ``%21`` and ``%25``, so
that every address has one meaning; people read ``/in/export.zip!/DIR/IM1``.
"""

from __future__ import annotations

import re
from typing import Final

SCHEME: Final = b"inside:"
_BETWEEN: Final = b"!/"
# NUL separates the paths of a slide in the state (`pipeline.state.keys`).
_ESCAPED: Final = re.compile(rb"[%!\0]")
_ESCAPE: Final = re.compile(rb"%(25|21|00)")


def address_inside(container: bytes, name: bytes) -> bytes:
    """Return the address of a file in a container."""
    outer = container.removeprefix(SCHEME) if is_inside(container) else _quoted(container)
    return SCHEME + outer + _BETWEEN + _quoted(name)


def container_and_name(address: bytes) -> tuple[bytes, bytes]:
    """Return the address of the innermost container and the name of the file in it."""
    outer, _, name = address.removeprefix(SCHEME).rpartition(_BETWEEN)
    return (SCHEME + outer if _BETWEEN in outer else _plain(outer)), _plain(name)


def is_inside(address: bytes) -> bool:
    """Report whether an address is that of a file in a container."""
    return address.startswith(SCHEME)


def depth_of(address: bytes) -> int:
    """Return the number of containers around a file."""
    return address.count(_BETWEEN) if is_inside(address) else 0


def outermost(address: bytes) -> bytes:
    """Return the address of the outermost container of a file, or the address itself."""
    return _plain(address.removeprefix(SCHEME).partition(_BETWEEN)[0]) if is_inside(address) else address


def shown(address: bytes) -> bytes:
    """Return the form of an address that people read: it is not unique for names with ``!/``."""
    return _plain(address.removeprefix(SCHEME)) if is_inside(address) else address


def _quoted(part: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: b"%%%02X" % ord(found[0]), part)


def _plain(part: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), part)
