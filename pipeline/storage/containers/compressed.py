"""Files compressed by gzip, bzip2, xz and Zstandard."""

from __future__ import annotations

import bz2
import importlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from medsanitize.pipeline.storage.containers.unpacking import BLOCK, ContainerProblem
from medsanitize.pipeline.storage.protocol import Content
from medsanitize.sanitize.formats.container_kind import ContainerKind

# Memory that a dictionary may take: xz -9 needs 65 MiB, zstd --ultra -22 128 MiB.
_MEMORY: Final = 256 * 2**20
_INPUT: Final = 1 << 16
_NAMES: Final = (b".gz", b".bz2", b".xz", b".zst", b".zstd")
_TAR_NAMES: Final = (b".tgz", b".tbz2", b".txz", b".tzst")


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the methods of the others."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


def _zstd() -> _Decompressor:
    try:
        module: Any = importlib.import_module("compression.zstd")
    except ImportError:
        module = importlib.import_module("backports.zstd")
    limit = {module.DecompressionParameter.window_log_max: _MEMORY.bit_length() - 1}
    made: _Decompressor = module.ZstdDecompressor(options=limit)
    return made


_DECOMPRESSORS: Final[dict[ContainerKind, Callable[[], _Decompressor]]] = {
    "gzip": _Gzip,
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY),
    "zstd": _zstd,
}
COMPRESSED: Final = frozenset(_DECOMPRESSORS)


def decompressed(content: Content, kind: ContainerKind) -> Iterator[bytes]:
    """Yield the content of a compressed file; several compressed files in a row are one.

    Raises
    ------
    ContainerProblem
        ``container-damaged``: it is incomplete, or something else follows it.
    """
    at, left = 0, b""
    while True:
        decompressor = _DECOMPRESSORS[kind]()
        given = left
        while not decompressor.eof:
            block = decompressor.decompress(given, BLOCK)
            given = b""
            yield block
            if not block and not decompressor.eof:
                given = bytes(content[at : at + _INPUT])
                at += len(given)
                if not given:
                    raise ContainerProblem("container-damaged")
        left = decompressor.unused_data + bytes(content[at : at + _INPUT])
        at += _INPUT
        # Zeros may fill the last block of a tape.
        if not left.strip(b"\0"):
            if any(any(content[start : start + BLOCK]) for start in range(at, len(content), BLOCK)):
                raise ContainerProblem("container-damaged")
            return


def name_inside(name: bytes) -> bytes:
    """Return the name of the file in a compressed file, which has none of its own that could be trusted."""
    lower = name.lower()
    for suffix in _NAMES:
        if lower.endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    for suffix in _TAR_NAMES:
        if lower.endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)] + b".tar"
    return b"content"
