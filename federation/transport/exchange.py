"""A whole session of the asking party: over HTTPS, or message by message in a folder."""

from __future__ import annotations

from pathlib import Path

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.federation.messages.sealed import digest_of
from medsanitize.federation.private_overlap.ask import Asked, Asking, proceed, start
from medsanitize.federation.private_overlap.session_files import (
    forget,
    read_private,
    session_file,
    session_lock,
    write_private,
)
from medsanitize.federation.transport.folder import message_path, put_message, read_message
from medsanitize.federation.transport.https_client import post_message
from pydantic import ValidationError


def ask_over_https(asking: Asking, address: str) -> Asked:
    """Ask a partner's server, and return the finished session.

    Raises
    ------
    UsageError, IntegrityError, EnvironmentFailure
        See `proceed` and `post_message`.
    """
    asked, sealed = start(asking)
    following: bytes | None = sealed
    while following is not None:
        reply = post_message(
            asking.party, asking.partner, address, following, most_bytes=asking.terms.most_bytes
        )
        asked, following = proceed(asking, asked, reply)
    return asked


def ask_by_folder(asking: Asking, folder: Path) -> Asked:
    """Take the partner's next message from a folder, if it is there, and leave the next question.

    Parameters
    ----------
    asking : Asking
        The asking party.
    folder : Path
        The folder that both parties use.

    Returns
    -------
    Asked
        The session so far; without ``counts`` the partner's answer is still missing.

    Raises
    ------
    UsageError, IntegrityError, EnvironmentFailure
        See `proceed`.
    """
    if not folder.is_dir():
        raise UsageError("There is no folder for messages here", "Create the folder that both parties use")
    name = f"ask-{asking.partner.name}"
    file = session_file(asking.party.folder, f"{name}.json")
    with session_lock(asking.party.folder, name):
        asked = _open_asked(file)
        if asked is None:
            asked, sealed = start(asking)
            _send(asking, folder, file, asked, sealed)
            return asked
        number = len(asked.messages) + 1
        path = message_path(folder, asking.party.identity, asked.session, number)
        if not path.is_file():
            _send_again(asking, folder, file, asked)
            return asked
        sealed = read_message(path, most_bytes=asking.terms.most_bytes)
        try:
            asked, following = proceed(asking, asked, sealed)
        except (IntegrityError, UsageError):
            # A refused or damaged session cannot go on: the next call starts a new one.
            forget(file, _outgoing(file))
            raise
        if following is None:
            forget(file, _outgoing(file))
            return asked
        _send(asking, folder, file, asked, following)
        return asked


def _send(asking: Asking, folder: Path, file: Path, asked: Asked, sealed: bytes) -> None:
    """Keep a message, then the session that has sent it, then leave the message in the folder."""
    write_private(_outgoing(file), sealed)
    write_private(file, asked.model_dump_json().encode())
    put_message(folder, asking.partner, asked.session, len(asked.messages), sealed)


def _send_again(asking: Asking, folder: Path, file: Path, asked: Asked) -> None:
    """Leave the last message in the folder, if this party was ended before it could."""
    number, kept = len(asked.messages), read_private(_outgoing(file))
    is_last = kept is not None and digest_of(kept) == asked.messages[-1]
    path = message_path(folder, asking.partner, asked.session, number)
    if kept is not None and is_last and not path.exists():
        put_message(folder, asking.partner, asked.session, number, kept)


def _outgoing(file: Path) -> Path:
    return file.with_suffix(".message")


def _open_asked(file: Path) -> Asked | None:
    content = read_private(file)
    if content is None:
        return None
    try:
        return Asked.model_validate_json(content)
    except ValidationError:
        forget(file)
        raise IntegrityError(
            "The file of the session is damaged; it was removed", "Run the same command again"
        ) from None
