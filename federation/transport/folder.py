"""Messages as files in a folder that two parties share, or carry: SFTP, a stick, a mailbox.

A file is named by its session, the number of the message and the first digits of the recipient's fingerprint.
Its content is sealed, so that whoever carries it learns its size and the recipient, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from medsanitize.errors import UsageError
from medsanitize.federation.parties.identity import Identity
from medsanitize.release.atomic_io import storage_errors, write_atomic

_NAME: Final = re.compile(r"([0-9a-f]{32})-([1-6])-([0-9a-f]{16})\.sealed")
_DIGITS: Final = 16


def put_message(folder: Path, recipient: Identity, session: str, number: int, sealed: bytes) -> Path:
    """Write a message for a party; the same message again changes nothing."""
    path = message_path(folder, recipient, session, number)
    write_atomic(path, sealed, sync=True)
    return path


def message_path(folder: Path, recipient: Identity, session: str, number: int) -> Path:
    """Return where the message of a session lies."""
    return folder / f"{session}-{number}-{recipient.fingerprint[:_DIGITS]}.sealed"


def messages_for(folder: Path, recipient: Identity) -> Iterator[tuple[str, int, Path]]:
    """Yield session, number and file of each message for a party, in order.

    Raises
    ------
    UsageError
        There is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(
            "There is no folder for messages at this path", "Name the folder that both parties use"
        )
    with storage_errors():
        files = sorted(folder.iterdir())
    for path in files:
        named = _NAME.fullmatch(path.name)
        if named and named[3] == recipient.fingerprint[:_DIGITS] and path.is_file() and not path.is_symlink():
            yield named[1], int(named[2]), path


def read_message(path: Path, *, most_bytes: int) -> bytes:
    """Read a message of limited size.

    Raises
    ------
    UsageError
        The file is larger.
    """
    with storage_errors(), path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UsageError(
            "A message in the folder is larger than the policy's limits allow", "Ask the partner for it again"
        )
    return content
