"""Input of the vendor modules: the files of one slide and its name in the release."""

from __future__ import annotations

from dataclasses import dataclass, field

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.formats.tiff.pyramid import PyramidTiff, looks_like_tiff, read_pyramid
from medsanitize.sanitize.wsi.tiles import TileCleaner


@dataclass(frozen=True, slots=True, repr=False)
class SourceFile:
    """One file of a slide.

    Attributes
    ----------
    name : str
        Path relative to the folder of the slide's main file.
    data : Buffer
        Content of the file, usually memory-mapped.
    """

    name: str
    data: Buffer

    # File names often contain accession numbers; they must not reach logs.
    def __repr__(self) -> str:
        return f"SourceFile({len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class SlideView:
    """All files of one slide.

    Attributes
    ----------
    files : tuple of SourceFile
        The main file is first.
    untouched : bool
        Tiles are kept as they are, without being read. Only for wiping in place
        (`medsanitize.sanitize.wsi.wipe`), never for a release.
    """

    files: tuple[SourceFile, ...]
    untouched: bool = False
    # A list, because the class is frozen and the parsed file is cached on first use.
    _tiff: list[PyramidTiff] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def data(self) -> Buffer:
        """Content of the main file."""
        return self.files[0].data

    def cleaner(self, rules: WholeSlides, file: int = 0) -> TileCleaner:
        """Create a tile cleaner for the file with index ``file``, configured by the policy."""
        return TileCleaner(
            self.files[file].data,
            file,
            untouched=self.untouched,
            metadata=rules.tile_metadata == "keep",
            profiles=rules.icc_profile == "keep",
        )

    @property
    def tiff(self) -> PyramidTiff:
        """TIFF directories of the main file, parsed once and cached.

        Raises
        ------
        Quarantined
            See `medsanitize.sanitize.formats.tiff.pyramid.read_pyramid`.
        """
        if not self._tiff:
            self._tiff.append(read_pyramid(self.data))
        return self._tiff[0]

    def said(self, tag: int) -> str:
        """Return a text tag of the main file's first directory, empty if absent or if it is not a TIFF."""
        return self.tiff.text(self.tiff.directories[0], tag) if looks_like_tiff(self.data) else ""


@dataclass(frozen=True, slots=True, repr=False)
class SlideName:
    """Name of a slide in the release.

    Attributes
    ----------
    instance : str
        Pseudonym of the slide; also the stem of its file names.
    key : bytes
        Sub-key from which `token` derives further identifiers.
    """

    instance: str
    key: bytes

    def token(self, purpose: str, length: int) -> bytes:
        """Derive ``length`` bytes (at most 32), for formats that require an identifier of a fixed length."""
        import hmac
        from hashlib import sha256

        return hmac.new(self.key, purpose.encode() + b"\0" + self.instance.encode(), sha256).digest()[:length]
