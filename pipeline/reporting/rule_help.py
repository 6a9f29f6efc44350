"""Reasons for quarantine, and what the data controller can do, for the review page and the manual."""

from __future__ import annotations

_NOT_INTACT = (
    "The file does not have the structure that its format requires, so its content cannot be accounted for.",
    "Export it from the archive again. If the copy is quarantined as well, leave it out.",
)
_LIMIT = (
    "It exceeds a limit of the policy.",
    "If the object is genuine, raise the limit in the policy (dicom: limits).",
)
_SIZE = (
    "It exceeds a size that this version processes.",
    "Split it with the archive's own tools, or leave it out.",
)
_FORM = (
    "It uses a variant of its format that this version does not support.",
    "Convert it with the archive's own tools, or leave it out.",
)
_PIXELS = (
    "The pixel data cannot be decoded, or does not match the header.",
    "Export it from the archive again. If the copy is quarantined as well, leave it out.",
)
_REVIEW = ("A reviewer quarantined it.", "No action: it is not part of this release.")
_VOLUME = (
    "It is a volume in a format that this version does not read.",
    "Export the DICOM series. If it may be missing from the release, add its kind to ignore in the policy.",
)
_EXACT = {
    "review": _REVIEW,
    "refused-in-review": _REVIEW,
    "burned-in-text-risk": (
        "Its pixels may contain text such as a name, and the policy does not clean pixels.",
        "Turn on pixel cleaning (dicom: options: clean_pixel_data), or leave it out.",
    ),
    "burned-in-text-remains": (
        "Text that may identify was still read after the pixels had been cleaned.",
        "Check the areas shown above. Blank the rest with a region in the policy, or leave it out.",
    ),
    "burned-in-text-unread": (
        "A large part of its pixels looks like text that the reader cannot read.",
        "Look at it. Blank the text with a region in the policy, or leave it out.",
    ),
    "handwriting-unread": (
        "It is a digitized film, a scan or a drawing, and handwriting on it cannot be read.",
        "Look at it. To decide on each such image in the review, set pixels: handwriting: review.",
    ),
    "drawn-text": (
        "Lines of its graphic annotations look like text that somebody wrote or drew.",
        "Look at it. Remove the annotations in the archive, or leave it out.",
    ),
    "device-region-too-large": (
        "The regions into which its device is known to write text take more than 40 % of the image.",
        "Look at it. State the regions of its device in pixels.regions, with pixels.known_devices: false.",
    ),
    "face-not-removed": (
        "The removal of a face could not be proved.",
        "Remove the face with another tool, or leave it out.",
    ),
    "face-not-looked-for": (
        "The object may show a face, and face detection was not run on its series.",
        "Turn on face removal in the policy (pixels: faces: deface), or leave it out.",
    ),
    "slide-outside-run": (
        "It is a whole-slide image; only a run can audit it against all files of its source.",
        "Release it with medsanitize run.",
    ),
    "identifier-in-pixels": (
        "The audit found a known name or number in its pixel data: left over, or the same bytes by chance.",
        "Look at it with medsanitize review. If it is chance, say so there; else leave the object out.",
    ),
    "pixels-undecodable": _PIXELS,
    "pixels-not-rewritten": (
        "Text in the pixels must be blanked, and the pixels cannot be written back in this encoding.",
        "Convert it to an uncompressed transfer syntax first.",
    ),
    "pixels-too-large": _LIMIT,
    "lossy-pixels": (
        "Blanking would require decompressing lossy pixels, and the policy does not allow it.",
        "Allow it in the policy (pixels: lossy: decompress), or leave it out.",
    ),
    "encapsulated-pixels-in-native-syntax": _PIXELS,
    "native-pixels-in-encapsulated-syntax": _PIXELS,
    "two-patient-ids": (
        "It contains two different patient IDs.",
        "Correct it in the archive and export it again.",
    ),
    "two-patients-in-study": (
        "Objects of one study belong to different patients.",
        "Find out in the archive whose study it is, correct it, and export it again.",
    ),
    "sop-instance-conflict": (
        "Another object with the same SOP Instance UID has different content, or belongs to another patient.",
        "Find out which one is right, and leave the others out. See deduplicate.one_uid.",
    ),
    "changed-since-inventory": (
        "The file changed while the run was active.",
        "Wait for the export to finish, then run again.",
    ),
    "unreadable": (
        "The file cannot be read as an image.",
        "Check its permissions, and whether it is an image.",
    ),
    "dicomdir-unreadable": (
        "The DICOMDIR cannot be read, so that it is unknown which files should be there.",
        "Copy the medium again. If that does not help, check that all of its files are in the inputs.",
    ),
    "listed-but-missing": (
        "A DICOMDIR lists the file, and it is not in the inputs.",
        "Copy it from the medium, or export it from the archive again.",
    ),
    "container": (
        "The policy leaves archives and disk images closed.",
        "To open them, set containers: action: open in the policy.",
    ),
    "container-outside-run": (
        "It is an archive, a compressed file or a disk image, which only a run opens.",
        "Unpack it, or release it with medsanitize run.",
    ),
    "container-extra-missing": (
        "It is a 7z archive, a disk image or a file compressed by Zstandard, and the extra that opens it is"
        " missing.",
        "Install it with: pip install 'medsanitize[containers]'.",
    ),
    "container-too-large": (
        "Its files exceed the size, or the ratio to its own size, that the policy allows.",
        "If it is genuine, raise containers.limits.bytes or containers.limits.ratio in the policy.",
    ),
    "container-too-many-members": (
        "It contains more files than the policy allows.",
        "If it is genuine, raise containers.limits.members in the policy.",
    ),
    "container-too-deep": (
        "It is in more containers than the policy allows.",
        "Unpack the outer one, or raise containers.limits.depth in the policy.",
    ),
    "container-damaged": (
        "Its structure is damaged, or it hides files, so that not all of its files can be accounted for.",
        "Create or copy it again, or unpack it with another tool.",
    ),
    "container-encrypted": ("It is encrypted.", "Decrypt it, or leave it out."),
    "member-encrypted": (
        "It is encrypted in its archive.",
        "Decrypt the archive, or leave it out.",
    ),
    "member-damaged": (
        "Its content does not match the checksum in its archive, or ends early.",
        "Create or copy the archive again.",
    ),
    "member-link": (
        "It is a link in an archive; links are not followed.",
        "Put the file itself into the archive, or leave it out.",
    ),
    "member-special": ("It is a device or a pipe in an archive.", "Leave it out."),
    "member-name-unsafe": (
        "Its name in an archive leads out of the archive.",
        "Create the archive again with relative names, or leave it out.",
    ),
    "member-name-twice": (
        "Its archive contains several files of this name; which is right is unknown.",
        "Unpack the archive, and give each file a name of its own.",
    ),
    "member-not-supported": (
        "It is stored in its archive in a way that cannot be read.",
        "Unpack the archive with another tool.",
    ),
    "other-file:link": (
        "It is a symbolic link; links are not followed.",
        "Put the file itself into the inputs, or let the policy leave out links (ignore: [link]).",
    ),
    "other-file:special": (
        "It is a pipe, a socket or a device, which is never opened.",
        "Leave it out, or let the policy do so (ignore: [special]).",
    ),
    "other-file:dicomdir": (
        "The policy does not leave out DICOMDIRs.",
        "Set ignore: [dicomdir] in the policy.",
    ),
    "other-file:nifti": _VOLUME,
    "other-file:nrrd": _VOLUME,
    "other-file:metaimage": _VOLUME,
    "other-file:unknown": (
        "Its content is of no known kind.",
        "Find out what it is. If it may be missing from the release, set ignore: [unknown] in the policy.",
    ),
    "not-dicom": (
        "The file is not a DICOM file.",
        "Check whether it is an image; if not, leave it out.",
    ),
    "not-at-peer": (
        "The worklist names a study that the PACS does not have.",
        "Correct the worklist, or send the study to the PACS, then run again.",
    ),
    "listed-in-part": (
        "The PACS reports more objects in a study or series than it lists. The listed objects are read.",
        "Rebuild the index of the study in the PACS, then run again.",
    ),
    "not-given-by-peer": (
        "The PACS lists the object but does not return it, after several requests.",
        "Repair the object in the PACS, or leave it out.",
    ),
    "multi-valued-uid": (
        "An identifier that must have one value has several.",
        "Correct it in the archive, and export it again.",
    ),
    "recognizable-face": (
        "A recognizable face could be rendered from its series.",
        "Let the policy remove faces (pixels: faces: deface), or leave it out.",
    ),
    "photograph-of-person": (
        "It is a photograph that may show a person.",
        "Leave it out, unless you know that it shows no person.",
    ),
    "raster-image": (
        "The policy leaves out PNG, JPEG and TIFF files.",
        "To clean them, set raster: action: clean in the policy.",
    ),
    "slide": (
        "The policy leaves out whole-slide images.",
        "To clean them, set wsi: action: clean in the policy.",
    ),
    "slide-not-supported": (
        "No module of this version reads its slide format, such as Olympus VSI or a slide without tiles.",
        "Convert it to tiled OME-TIFF, as Bio-Formats does (bfconvert -tilex 512 -tiley 512), or to DICOM.",
    ),
    "slide-picture-unknown": (
        "The instance of a slide does not state whether it shows tissue, the label or the whole glass.",
        "Correct Image Type in the archive, or leave it out.",
    ),
    "document-unreadable": ("The document cannot be read.", "Export it again, or leave it out."),
    "document-encrypted": ("The document is encrypted.", "Remove the encryption, or leave it out."),
    "document-too-large": (
        "The document has too many pages, or its page images exceed a limit of the policy.",
        "Raise the limit in the policy (dicom: limits), or leave it out.",
    ),
    "document-not-rebuilt": (
        "The document could not be rebuilt from cleaned page images.",
        "Leave it out.",
    ),
    "video-metadata": ("Video streams cannot be proved free of metadata.", "Leave it out."),
    "unsettled": (
        "Its header contradicts itself.",
        "Correct it in the archive, or leave it out.",
    ),
    "unsafe-pseudonym": (
        "Its pseudonym or a UID cannot be part of a file name.",
        "Correct the table of pseudonyms (pseudonyms: table), or leave it out.",
    ),
    "animated-png": _FORM,
    "big-tiff": _FORM,
    "tiff-too-large": (
        "The cleaned file would exceed 4 GB, the limit of classic TIFF.",
        "Convert it to BigTIFF with the archive's own tools, or leave it out.",
    ),
    "too-many-pages": _SIZE,
    "tiff-too-many-directories": _SIZE,
    "tiff-too-many-values": _SIZE,
    "slide-description-too-large": _SIZE,
    "slide-file-missing": (
        "The slide consists of several files, and some of them are missing.",
        "Export the whole slide again, with its folder and files.",
    ),
    "slide-file-elsewhere": (
        "The slide consists of several files, and one of them is in another folder.",
        "Put the files into one folder and correct their names in the list.",
    ),
    "slide-tile-structure": _NOT_INTACT,
    "slide-description": _NOT_INTACT,
    "slide-xml": _NOT_INTACT,
    "mirax-index": _NOT_INTACT,
    "mirax-positions": _NOT_INTACT,
    "empty-file": ("The file is empty.", "Export it again, or leave it out."),
    "worker-died": (
        "A worker process crashed twice while processing it.",
        "Export it from the archive again. If the copy is quarantined as well, leave it out.",
    ),
    "decoder-crashed": (
        "A decoder crashed twice on its pixels.",
        "Export it from the archive again, or convert it to another transfer syntax. Otherwise leave it out.",
    ),
    "introduced-error": (
        "dciodvfy or dicom-validator finds an error in the released object that its source has not.",
        "Leave it out, and report the SOP class and the error, which audit.json in the state folder names.",
    ),
    "pixels-differ": (
        "A foreign reader decodes other pixels than those of the source.",
        "Leave it out, and report the rule and the transfer syntax.",
    ),
    "internal-error": (
        "medsanitize failed while processing it.",
        "Leave it out, and report the rule and the kind of object.",
    ),
    "unknown-sop-class": (
        "Its SOP class is not in the standard.",
        "Leave it out, or export it as an object of a standard class.",
    ),
    "unknown-transfer-syntax": ("Its transfer syntax is not in the standard.", _FORM[1]),
    "document-or-audio": (
        "It contains a document, a model or a recording, whose content is not checked.",
        "See documents in the policy, or leave it out.",
    ),
    "duplicate-bytes": ("The policy quarantines byte-identical copies.", "Keep one of them in the export."),
    "duplicate-pixels": (
        "The policy quarantines objects with identical pixels.",
        "Keep one of them in the export.",
    ),
    "overlap": (
        "Image comparison found its patient, possibly or certainly, in an earlier release.",
        "Check the pairs in the state folder. Leave the patient out, or let the policy flag them (overlap).",
    ),
    "duplicate-registry": ("An earlier release contains it already.", "Leave it out of this export."),
}
_SUFFIXES = {
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
_PREFIXES = {
    "other-file:": (
        "It is no image; the kind of its content follows the colon.",
        "If files of this kind may be missing from the release, add the kind to ignore in the policy.",
    ),
    "audit:": (
        "After cleaning, the audit found data in it that must not be released.",
        "Leave it out, and report the rule and the kind of object.",
    ),
    "malformed": _NOT_INTACT,
    "truncated": _NOT_INTACT,
    "length-past": _NOT_INTACT,
    "too-": _LIMIT,
    "slide-": _FORM,
    "pixel": _PIXELS,
    "bits-": _PIXELS,
    "high-bit": _PIXELS,
}


def reason_for(rule: str) -> tuple[str, str]:
    """Return why a rule quarantines an object, and what can be done, each as one sentence."""
    if rule in _EXACT:
        return _EXACT[rule]
    for ending, told in _SUFFIXES.items():
        if f"-{rule}".endswith(ending):
            return told
    for beginning, told in _PREFIXES.items():
        if rule.startswith(beginning):
            return told
    return "It could not be proved clean under this rule.", "Leave it out, or correct it in the archive."
