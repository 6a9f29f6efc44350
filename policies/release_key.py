"""Read, check and create the release key. Key material is never in a message, log or repr.

Text of 64 or more hexadecimal digits is decoded; other printable text is used as its bytes, without trailing
line ends; binary content is used unchanged. So a key file, an environment variable and the output of a
command can contain the same key.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import subprocess
from pathlib import Path

from medsanitize.errors import EnvironmentFailure, KeyMaterialError
from medsanitize.policies.model import Keys, RegistryKey

MIN_BYTES = 32
# 16 distinct bytes: random keys of 32 bytes have far more, repeated or typed patterns fewer.
MIN_DISTINCT = 16
_MAX_BYTES = 65536
# A key is small: a larger file or a slow command is a mistake, which must not hang the run.
_COMMAND_SECONDS = 60
_CREATE = "Create one: medsanitize keygen FILE"


def read_release_key(keys: Keys) -> bytes:
    """Read the release key from the source that a policy sets.

    Parameters
    ----------
    keys : Keys
        Exactly one of ``file``, ``env`` and ``command`` is set.

    Returns
    -------
    bytes
        The key, at least 32 bytes.

    Raises
    ------
    KeyMaterialError
        The key is missing, shorter than 32 bytes, evidently weak (fewer than 16 distinct bytes), or other
        users can read or replace it.
    """
    given = [name for name in ("file", "env", "command") if getattr(keys, name) is not None]
    if len(given) != 1:
        raise KeyMaterialError(
            "The release key must have exactly one source",
            "Set one of keys.file, keys.env and keys.command",
        )
    if keys.file is not None:
        raw = read_private_file(keys.file, name="keys.file", remedy=_CREATE)
    elif keys.env is not None:
        raw = _from_environment(keys.env, "keys.env")
    else:
        raw = _from_command(keys.command or ())
    return require_strong(raw, "release key")


def read_registry_key(key: RegistryKey) -> bytes:
    """Read the key of the registry's embeddings; raises as `read_release_key`."""
    if key.file is not None:
        raw = read_private_file(key.file, name="the registry's key", remedy=_CREATE)
    else:
        raw = _from_environment(key.env or "", "registry.key.env")
    return require_strong(raw, "key of the registry")


def require_strong(raw: bytes, what: str) -> bytes:
    """Decode a key and check its strength.

    Parameters
    ----------
    raw : bytes
        Content of a key file or variable.
    what : str
        Name of the key in messages.

    Returns
    -------
    bytes
        The decoded key.

    Raises
    ------
    KeyMaterialError
        The key is shorter than 32 bytes, or has fewer than 16 distinct bytes.
    """
    material = _material(raw)
    if len(material) < MIN_BYTES:
        raise KeyMaterialError(f"The {what} has fewer than {MIN_BYTES} bytes", _CREATE)
    if len(set(material)) < MIN_DISTINCT:
        raise KeyMaterialError(
            f"The {what} is weak: it has fewer than {MIN_DISTINCT} distinct bytes", _CREATE
        )
    return material


def generate_release_key(path: Path) -> None:
    """Write a new release key: 256 random bits as hexadecimal text, mode 0600.

    Raises
    ------
    KeyMaterialError
        The file exists (it is never overwritten), or its folder does not.
    EnvironmentFailure
        The disk is full or not writable.
    """
    write_private_file(path, secrets.token_hex(32).encode() + b"\n")


def read_private_file(path: Path, *, name: str, remedy: str) -> bytes:
    """Read a small file that no other user can read or replace.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        The setting that contains the path, such as ``keys.file``; messages show it instead of the path.
    remedy : str
        What to do if the file is missing.

    Raises
    ------
    KeyMaterialError
        The file is missing, not a regular file, wider than mode 0600, owned by another user, or too large.
    """
    try:
        # Non-blocking: opening a named pipe must not hang the run.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            _only_mine(os.fstat(handle), os.lstat(path), name, remedy)
            content = _read_all(handle, _MAX_BYTES + 1)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise KeyMaterialError(f"The file in {name} does not exist", remedy) from None
    except OSError as error:
        what = f"The file in {name} cannot be read: {error.strerror}"
        raise KeyMaterialError(what, "Check its owner and mode (chmod 600 FILE)") from None
    if len(content) > _MAX_BYTES:
        raise KeyMaterialError(f"The file in {name} is too large to be a key", remedy)
    return content


def write_private_file(path: Path, content: bytes) -> None:
    """Create a file of mode 0600 durably; existing files are never overwritten.

    Parameters
    ----------
    path : Path
        The file to create, in an existing folder.
    content : bytes
        The whole content.

    Raises
    ------
    KeyMaterialError
        The file exists, or its folder does not.
    EnvironmentFailure
        The disk is full or not writable; no partial file remains.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        what = "The key file already exists; keys are never overwritten"
        raise KeyMaterialError(
            what, "Choose another file name, or move the existing key to a safe place"
        ) from None
    except (FileNotFoundError, NotADirectoryError):
        raise KeyMaterialError(
            "The folder of the key file does not exist", "Create the folder with mode 0700"
        ) from None
    except OSError as error:
        raise EnvironmentFailure(
            f"The key file cannot be created: {error.strerror}", "Check the folder"
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            # The mode of open() is reduced by the umask, which might remove the owner's own rights.
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # The folder too, so that the new name survives a power failure.
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise EnvironmentFailure(
            f"The key file cannot be written: {error.strerror}",
            "Free some disk space and run the same command again",
        ) from None


def _only_mine(opened: os.stat_result, named: os.stat_result, name: str, remedy: str) -> None:
    if not stat.S_ISREG(opened.st_mode):
        raise KeyMaterialError(f"{name} is not a regular file", remedy)
    # The owner of the file, or of a link to it, can replace the key.
    if {opened.st_uid, named.st_uid} != {os.geteuid()}:
        what = f"The file in {name} is owned by another user"
        raise KeyMaterialError(what, "Change its owner: chown USER FILE")
    if stat.S_IMODE(opened.st_mode) & 0o177:
        what = f"The file in {name} is accessible to other users"
        raise KeyMaterialError(what, "Run: chmod 600 FILE")


def _read_all(handle: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit > 0 and (part := os.read(handle, limit)):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _from_environment(name: str, setting: str) -> bytes:
    value = os.environb.get(os.fsencode(name))
    if not value:
        # The name is not repeated: it may be the key itself, entered by mistake.
        what = f"The environment variable in {setting} is not set"
        raise KeyMaterialError(what, "Set it to the key, or use a key file")
    return value


def _from_command(command: tuple[str, ...]) -> bytes:
    remedy = "Run the command manually and check that it prints only the key"
    try:
        done = subprocess.run(  # noqa: S603  the policy names the command; there is no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KeyMaterialError(f"keys.command took longer than {_COMMAND_SECONDS} seconds", remedy) from None
    except (OSError, ValueError):
        raise KeyMaterialError("keys.command cannot be executed", remedy) from None
    if done.returncode:
        raise KeyMaterialError(f"keys.command exited with code {done.returncode}", remedy)
    if not done.stdout:
        raise KeyMaterialError("keys.command printed nothing", remedy)
    return done.stdout


def _material(raw: bytes) -> bytes:
    """Decode the content of a key file or variable; see the module docstring."""
    # Editors and echo append line ends, which are no part of the key.
    text = raw.rstrip(b"\r\n")
    if not re.fullmatch(rb"[ -~]*", text):
        return raw
    if len(text) >= 64 and len(text) % 2 == 0 and re.fullmatch(rb"[0-9A-Fa-f]+", text):
        return bytes.fromhex(text.decode())
    return text
