"""Unpacking of one container of any kind into a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from medsanitize.errors import MedsanitizeError
from medsanitize.pipeline.storage.containers.compressed import COMPRESSED, decompressed, name_inside
from medsanitize.pipeline.storage.containers.disk_image import unpack_disk_image
from medsanitize.pipeline.storage.containers.seven_zip import unpack_seven_zip
from medsanitize.pipeline.storage.containers.tar_files import unpack_tar
from medsanitize.pipeline.storage.containers.unpacking import (
    BLOCK,
    Budget,
    ContainerProblem,
    Member,
    Unpacking,
)
from medsanitize.pipeline.storage.containers.zip_files import unpack_zip
from medsanitize.pipeline.storage.protocol import Content
from medsanitize.pipeline.storage.spool import Spool
from medsanitize.policies.other_files import ContainerLimits
from medsanitize.sanitize.formats.container_kind import ContainerKind, container_kind

_UNPACKERS: Final[dict[ContainerKind, Callable[[Content, Unpacking], None]]] = {
    "zip": unpack_zip,
    "tar": unpack_tar,
    "7z": unpack_seven_zip,
    "iso": unpack_disk_image,
}
# The module of the extra `containers` that opens a kind; any of several suffices.
_MODULES: Final[dict[ContainerKind, tuple[str, ...]]] = {
    "7z": ("py7zr",),
    "iso": ("pycdlib",),
    "zstd": ("compression.zstd", "backports.zstd"),
}


def unpack(content: Content, name: bytes, folder: Path, limits: ContainerLimits) -> list[Member]:
    """Unpack a container.

    Parameters
    ----------
    content : bytes or mmap
        The complete container.
    name : bytes
        Its name, which names the file in a compressed file.
    folder : Path
        An empty folder, which receives the files under digests of their names.
    limits : ContainerLimits
        Limits of the policy.

    Returns
    -------
    list of Member
        All files, those that are quarantined unread included, in the byte order of names.

    Raises
    ------
    ContainerProblem
        The container is quarantined as a whole.
    EnvironmentFailure
        The disk is full or fails.
    """
    kind = container_kind(content)
    if kind is None:
        raise ContainerProblem("container-damaged")
    if not _is_supported(kind):
        raise ContainerProblem("container-extra-missing")
    into = Unpacking(folder, Budget(limits, len(content)))
    try:
        if kind in COMPRESSED:
            _unpack_compressed(content, kind, name, into, Budget(limits, len(content)))
        else:
            _UNPACKERS[kind](content, into)
    except (ContainerProblem, MedsanitizeError):
        raise
    except MemoryError:
        raise ContainerProblem("container-too-large") from None
    # Libraries raise anything on hostile input: fail closed.
    except Exception:  # noqa: BLE001
        raise ContainerProblem("container-damaged") from None
    return into.finished()


def _is_supported(kind: ContainerKind) -> bool:
    return kind not in _MODULES or any(map(_is_installed, _MODULES[kind]))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _unpack_compressed(
    content: Content, kind: ContainerKind, name: bytes, into: Unpacking, budget: Budget
) -> None:
    """Unpack a compressed file; a compressed tar is one container, not two."""
    spool = Spool()
    try:
        for block in decompressed(content, kind):
            budget.take(len(block))
            spool.write(block)
        inner = spool.content()
        if container_kind(inner) == "tar":
            unpack_tar(inner, into)
        else:
            into.store(name_inside(name), _blocks(inner))
    finally:
        spool.close()


def _blocks(content: Content) -> Iterator[bytes]:
    for start in range(0, len(content), BLOCK):
        yield bytes(content[start : start + BLOCK])
