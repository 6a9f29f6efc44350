"""One object before and after: `Previewer`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.api.deidentifier import Deidentifier
from medsanitize.api.policy import PolicySource, load_policy
from medsanitize.api.release_key import ReleaseKey
from medsanitize.errors import KeyMaterialError, UsageError

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.preview_object import Preview

_ALONE = (
    "It is treated as an export of this object alone: identifiers that only other objects of the patient"
    " state are not searched for."
)
_OTHER_KEY = "The release key was not found: pseudonyms differ from those of a run."
_SLIDE = "A run copies the tissue, and treats label, macro image and metadata as the policy says (wsi)."


class Previewer:
    """Show objects of an export before and after, under a policy; nothing is written.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`. Its release key is used; without one, a key for this previewer alone.

    Raises
    ------
    PolicyError, UsageError
        The policy is invalid, or an extra that it needs is missing.

    Examples
    --------
    >>> from medsanitize import Previewer
    >>> shown = Previewer("policy.yaml")("export/scan.dcm")  # doctest: +SKIP
    >>> [row.tag for row in shown.header if row.state == "removed"]  # doctest: +SKIP
    """

    def __init__(self, policy: PolicySource) -> None:
        from medsanitize.policies.release_key import read_release_key

        loaded = load_policy(policy)
        self._notes: tuple[str, ...] = (_ALONE,)
        try:
            key = ReleaseKey(read_release_key(loaded.keys))
        except KeyMaterialError:
            key = ReleaseKey.generate()
            self._notes = (_ALONE, _OTHER_KEY)
        # The table of specimens concerns slides, and slides need a whole run.
        wsi = loaded.wsi.model_copy(update={"specimens": None})
        self._policy = loaded.model_copy(update={"wsi": wsi})
        self._deidentify = Deidentifier(self._policy, key)

    def __repr__(self) -> str:
        return "Previewer(...)"

    def __call__(self, file: str | os.PathLike[str]) -> Preview:
        """Show one file before and after.

        Parameters
        ----------
        file : path
            A file of the export.

        Returns
        -------
        Preview
            ``outcome``, ``findings``, ``header``, pictures and ``notes``. Contains PHI.

        Raises
        ------
        UsageError
            There is no file at the path.
        """
        from medsanitize.pipeline.jobs import preview_object

        result = self._deidentify(file)
        if result.kind == "slide":
            parts = preview_object.slide_parts(file)
            return preview_object.Preview(
                str(result.outcome), "slide", result.findings, parts=parts, notes=(_SLIDE,)
            )
        source = self._read(Path(file))
        released = result.to_bytes() if result.outcome == "released" else b""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            header: tuple[preview_object.HeaderChange, ...] = ()
            if result.kind not in ("raster", "other"):
                after = preview_object.read_header(released) if released else ()
                header = preview_object.header_changes(preview_object.read_header(source), after)
            kind = "raster" if result.kind == "raster" else "dicom"
            pictures = preview_object.picture_pair(kind, source, released)
        return preview_object.Preview(
            str(result.outcome), result.kind, result.findings, header, *pictures, notes=self._notes
        )

    def _read(self, file: Path) -> bytes:
        try:
            if file.stat().st_size > self._policy.dicom.limits.object_bytes:
                return b""
            return file.read_bytes()
        except OSError:
            raise UsageError("The file cannot be read", "Check its permissions") from None
