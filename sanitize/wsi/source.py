"""What a vendor's module is given: the files of one slide, and what the release calls it."""

from __future__ import annotations

from dataclasses import dataclass, field

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.formats.tiff.pyramid import PyramidTiff, looks_like_tiff, read_pyramid
from medsanitize.sanitize.wsi.tiles import TileCleaner


@dataclass(frozen=True, slots=True, repr=False)
class SourceFile:
    """One file of a slide: its path relative to the folder of the slide's main file, and its bytes."""

    name: str
    data: Buffer

    def __repr__(self) -> str:
        return f"SourceFile({len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class SlideView:
    """All files of one slide, the main one first. ``untouched``: its tiles are not to be read."""

    files: tuple[SourceFile, ...]
    untouched: bool = False
    _tiff: list[PyramidTiff] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def data(self) -> Buffer:
        """The bytes of the main file."""
        return self.files[0].data

    def cleaner(self, rules: WholeSlides, file: int = 0) -> TileCleaner:
        """What cleans the tiles of one of the files, the main one unless told, as the policy says."""
        return TileCleaner(
            self.files[file].data,
            file,
            untouched=self.untouched,
            metadata=rules.tile_metadata == "keep",
            profiles=rules.icc_profile == "keep",
        )

    @property
    def tiff(self) -> PyramidTiff:
        """The main file's directories, read once however many vendors ask.

        Raises
        ------
        Refused
            See `medsanitize.sanitize.formats.tiff.pyramid.read_pyramid`.
        """
        if not self._tiff:
            self._tiff.append(read_pyramid(self.data))
        return self._tiff[0]

    def said(self, tag: int) -> str:
        """A text of the main file's first directory; nothing where there is none, or the file is no TIFF."""
        return self.tiff.text(self.tiff.directories[0], tag) if looks_like_tiff(self.data) else ""


@dataclass(frozen=True, slots=True, repr=False)
class SlideName:
    """What the release calls a slide.

    ``instance`` is its pseudonym, also the stem of its files. ``token`` gives keyed bytes for a
    purpose, where a vendor's format demands an identifier of a certain length.
    """

    instance: str
    key: bytes

    def token(self, purpose: str, length: int) -> bytes:
        """``length`` keyed bytes (at most 32)."""
        import hmac
        from hashlib import sha256

        return hmac.new(self.key, purpose.encode() + b"\0" + self.instance.encode(), sha256).digest()[:length]
