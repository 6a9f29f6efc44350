"""The folders within which the desk reads and writes, and opaque names for what lies in them."""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from medsanitize import UsageError


class OutsideRoots(UsageError):
    """{what}. {remedy}."""

    def __init__(self) -> None:
        super().__init__(
            "The path is outside the folders of this desk, or leads through a link",
            "Start the desk with the folder that contains it",
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A folder or file within a root."""

    path: Path
    is_folder: bool
    size: int


class Roots:
    """The folders named at start.

    Parameters
    ----------
    folders : sequence of Path
        Each exists; links in these paths are resolved once, here.

    Raises
    ------
    UsageError
        A folder does not exist.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        resolved = [folder.resolve() for folder in folders]
        if not resolved or not all(folder.is_dir() for folder in resolved):
            raise UsageError("A folder of the desk does not exist", "Name folders that exist")
        self.folders = tuple(dict.fromkeys(resolved))

    def __repr__(self) -> str:
        return f"Roots({len(self.folders)})"

    def check(self, path: Path) -> Path:
        """Return a path within a root through which no link leads.

        Raises
        ------
        OutsideRoots
            It is outside every root, or a part of it below the root is a link.
        """
        # normpath, not resolve: a link must be refused, not followed.
        wanted = Path(os.path.normpath(path))
        for root in self.folders:
            if wanted == root or wanted.is_relative_to(root):
                steps = wanted.relative_to(root).parts
                below = [root.joinpath(*steps[: number + 1]) for number in range(len(steps))]
                if any(step.is_symlink() for step in below):
                    raise OutsideRoots
                return wanted
        raise OutsideRoots

    def entries(self, folder: Path) -> Iterator[Entry]:
        """Yield the folders and regular files of a folder in order of their names; links are left out."""
        with os.scandir(self.check(folder)) as listed:
            found = [one for one in listed if not one.is_symlink() and (one.is_dir() or one.is_file())]
        for one in sorted(found, key=lambda entry: (entry.is_file(), os.fsencode(entry.name))):
            is_folder = one.is_dir(follow_symlinks=False)
            size = 0 if is_folder else one.stat(follow_symlinks=False).st_size
            yield Entry(Path(one.path), is_folder, size)


class Names:
    """Opaque names of paths: file names may be names of patients, so no address contains one.

    A name is the encrypted path (AES-SIV under a key of this process): equal paths have equal names, and
    nothing is stored.
    """

    def __init__(self) -> None:
        self._cipher = AESSIV(AESSIV.generate_key(256))

    def __repr__(self) -> str:
        return "Names(...)"

    def of(self, path: Path) -> str:
        """Return the name of a path."""
        return urlsafe_b64encode(self._cipher.encrypt(os.fsencode(path), None)).decode().rstrip("=")

    def path(self, name: str) -> Path:
        """Return the path of a name.

        Raises
        ------
        UsageError
            It is not a name that this process gave.
        """
        try:
            sealed = urlsafe_b64decode(name + "=" * (-len(name) % 4))
            return Path(os.fsdecode(self._cipher.decrypt(sealed, None)))
        except (InvalidTag, ValueError, UnicodeError):
            raise UsageError("This address is of an earlier start", "Go back to the projects") from None
