"""Why an object is in quarantine and what its holder can do, in plain words."""

from __future__ import annotations

_NOT_INTACT = (
    "The file is not built as its format asks, so nobody can say what lies in it.",
    "Export it from the archive again; if it comes out the same, leave it out.",
)
_LIMIT = (
    "It is beyond a limit of the policy.",
    "If it is genuine, raise the limit in the policy (dicom: limits).",
)
_FORM = (
    "It uses a form of its format that this version does not take apart.",
    "Convert it with the archive's own tools, or leave it out.",
)
_PIXELS = (
    "The pixels cannot be decoded or do not fit what the header says of them.",
    "Export it from the archive again; if it comes out the same, leave it out.",
)
_EXACT = {
    "review": ("A person quarantined it in a review.", "Nothing: it stays out of this release."),
    "refused-in-review": ("A person quarantined it in a review.", "Nothing: it stays out of this release."),
    "burned-in-text-risk": (
        "Its header says that text such as a name may be burned into the pixels, and they are not cleaned.",
        "Switch pixel cleaning on (dicom: options: clean_pixel_data), or leave it out.",
    ),
    "burned-in-text-remains": (
        "Text was still read in the pixels after they had been cleaned.",
        "Look at the boxes above; blank what is left, or leave it out.",
    ),
    "face-not-removed": (
        "A face could not be removed for certain.",
        "Remove it with a tool of your own, or leave it out.",
    ),
    "face-not-looked-for": (
        "A face may be recognisable, and nobody looked for it.",
        "Switch face removal on in the policy, or leave it out.",
    ),
    "slide-outside-run": (
        "It is a whole-slide image, which only a run can audit against all files of its source.",
        "Release it with medsanitize run.",
    ),
    "pixels-undecodable": _PIXELS,
    "pixels-not-rewritten": (
        "Text in the pixels was to be blanked, and this encoding cannot be written back.",
        "Convert it to an uncompressed transfer syntax first.",
    ),
    "lossy-pixels": (
        "Blanking would have to compress lossy pixels once more, and the policy does not allow it.",
        "Allow it in the policy (pixels), or leave it out.",
    ),
    "two-patient-ids": (
        "It states two different patients.",
        "Correct it in the archive and export it again.",
    ),
    "two-patients-in-study": (
        "Objects of one study state different patients.",
        "Find out in the archive whose study it is, correct it, and export it again.",
    ),
    "sop-instance-conflict": (
        "Other objects with different contents state the same SOP Instance UID.",
        "Find out which one is right, and leave the others out.",
    ),
    "changed-since-inventory": (
        "The file changed while the run was at work.",
        "Let the export finish, then run again.",
    ),
    "unreadable": (
        "The file cannot be read as an image.",
        "Check that it may be read, and that it is an image.",
    ),
    "not-at-peer": (
        "The worklist names a study that the PACS does not have.",
        "Correct the worklist, or have the study sent to the PACS, then run again.",
    ),
    "listed-in-part": (
        "The PACS says that a study or series holds more than it lists; what it lists is read.",
        "Have the PACS rebuild its index of the study, then run again.",
    ),
    "not-given-by-peer": (
        "The PACS lists the object and, asked several times, does not give it.",
        "Look for it in the PACS; repair it there, or leave it out.",
    ),
    "multi-valued-uid": (
        "An identifier that must be one has several values.",
        "Correct it in the archive, and export again.",
    ),
    "recognizable-face": (
        "A face could be rendered from its series.",
        "Let the policy remove faces (pixels: faces: deface), or leave it out.",
    ),
    "photograph-of-person": (
        "It is a photograph that may show a person.",
        "Leave it out, unless you know that it shows nobody.",
    ),
    "raster-image": (
        "The policy leaves PNG, JPEG and TIFF files out.",
        "To have them cleaned, see raster in the policy.",
    ),
    "document-unreadable": ("The document cannot be read.", "Export it again, or leave it out."),
    "document-encrypted": ("The document is encrypted.", "Take the encryption away, or leave it out."),
    "document-not-rebuilt": ("The document cannot be made anew from cleaned pages.", "Leave it out."),
    "video-metadata": ("The video holds metadata that cannot be shown to be clean.", "Leave it out."),
    "unsettled": (
        "What it says of itself contradicts itself.",
        "Correct it in the archive, or leave it out.",
    ),
    "animated-png": _FORM,
    "big-tiff": _FORM,
    "slide-file-missing": (
        "The slide is made of several files, and not all of them are there.",
        "Export the whole slide again, with the folder and files beside it.",
    ),
    "slide-file-elsewhere": (
        "The slide is made of several files, and names one in another folder.",
        "Put the files into one folder and correct their names in the list.",
    ),
    "slide-tile-structure": _NOT_INTACT,
    "empty-file": ("The file is empty.", "Export it again, or leave it out."),
    "worker-died": (
        "A decoder died of it, twice.",
        "Export it from the archive again; if it comes out the same, leave it out.",
    ),
    "internal-error": (
        "This program failed on it.",
        "Leave it out, and report the rule and the kind of object.",
    ),
    "unknown-sop-class": (
        "It states a class of objects that the standard does not know.",
        "Leave it out, or export it as an object of a standard class.",
    ),
    "unknown-transfer-syntax": ("It is encoded in a way that the standard does not know.", _FORM[1]),
    "document-or-audio": (
        "It holds a document or a recording, which may say anything.",
        "See documents in the policy, or leave it out.",
    ),
    "duplicate-bytes": ("The policy quarantines byte-identical copies.", "Keep one of them in the export."),
    "duplicate-pixels": (
        "The policy quarantines objects with equal pixels.",
        "Keep one of them in the export.",
    ),
    "overlap": (
        "Its patient is in an earlier release, or may be, as far as images can tell.",
        "Look at the pairs in the state folder; leave the patient out, or let the policy flag (overlap).",
    ),
    "duplicate-registry": ("An earlier release holds it already.", "Leave it out of this export."),
}
_ENDINGS = {
    "-structure": _NOT_INTACT,
    "-truncated": _NOT_INTACT,
    "-loop": _NOT_INTACT,
    "-overlapping-data": _NOT_INTACT,
    "-too-large": _LIMIT,
    "-too-deep": _LIMIT,
    "-unsupported": _FORM,
    "-not-supported": _FORM,
    "-syntax": _PIXELS,
}
_BEGINNINGS = {
    "audit:": (
        "After it was cleaned, the audit still found something in it that should not be there.",
        "Leave it out, and report the rule and the kind of object.",
    ),
    "malformed": _NOT_INTACT,
    "truncated": _NOT_INTACT,
    "length-past": _NOT_INTACT,
    "too-": _LIMIT,
    "slide-": _FORM,
    "pixel": _PIXELS,
    "more-pixels": _PIXELS,
    "bits-": _PIXELS,
    "high-bit": _PIXELS,
}


def reason_for(rule: str) -> tuple[str, str]:
    """Why a rule refuses an object, and what can be done, each as one sentence."""
    if rule in _EXACT:
        return _EXACT[rule]
    for ending, told in _ENDINGS.items():
        if f"-{rule}".endswith(ending):
            return told
    for beginning, told in _BEGINNINGS.items():
        if rule.startswith(beginning):
            return told
    return "It could not be proved clean under this rule.", "Leave it out, or correct it in the archive."
