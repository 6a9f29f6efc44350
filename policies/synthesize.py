"""Policy section for synthetic images in place of real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from medsanitize.policies.base import Section, Text
from pydantic import Field


class Reference(Section):
    """Training, held-out and calibration images of the generator, with a table of patients and splits.

    The gate compares synthetic images with them; `by-label` reads the labels of the inputs from the table.
    """

    images: Path
    """Folder of the files in the table; for `by-label` it must be an input, or contain or be inside one."""
    table: Path
    """CSV or Parquet, one row per image."""
    file: Text = "file"
    """Column with the image, relative to `images`."""
    patient: Text = "patient_id"
    """Column with the patient."""
    split: Text = "split"
    """Column with the split of the image's patient."""
    label: Text = "label"
    """Column with the image's label."""
    training: Text = "train"
    """Split the generator was trained on."""
    holdout: Text = "holdout"
    """Held-out split: neither generator nor verifier was trained on it; baseline for the training split."""
    calibration: Text = "calibration"
    """Held-out split that calibrates the threshold; one image per patient is enough. The bound follows from
    the number of its patients."""


class Reidentification(Section):
    """Limit of the exposure of training patients to re-identification from synthetic images."""

    limit: Annotated[float, Field(gt=0, lt=1)]
    """Maximum accepted upper bound on how much more often synthetic images than images of real strangers
    match a training patient, at a false match rate of 0.1 %."""


class Synthesize(Section):
    """Synthetic images in place of real ones, released only if the privacy gate passes."""

    replace: Literal["none", "flagged", "all", "by-label"]
    """Which images are excluded: flagged ones, all, or those of some labels. They stay excluded regardless of
    the gate's result."""
    labels: tuple[Text, ...] = ()
    """With `by-label`: labels of the images to replace."""
    model: Path
    """Folder of the generator, as written by ``train generator``."""
    verifier: Path
    """Folder of the verification model that scores pairs of images."""
    retrieval: Path | None = None
    """Folder of the retrieval model that finds the nearest images; by default packaged features."""
    reference: Reference
    """Training, held-out and calibration images of the generator."""
    federated_calibration: Path | None = None
    """Calibration of the gate by the patients of several hospitals (``medsanitize federation``), with its
    signature beside it. It is used in place of the calibration split if images score alike here and there."""
    per_patient: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Synthetic images per patient whose images are excluded; by default one per excluded image."""
    residual: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """Maximum accepted upper bound on the fraction of copies of training images among the synthetic images
    that are left after matching ones are removed. It determines how many images are generated and judged."""
    inconclusive: Literal["accept", "refuse"] = "refuse"
    """Treatment of an attack (membership inference, restoration) that the splits are too small for:
    ``refuse``: no synthetic image is released; ``accept``: the bound decides, and the report says so."""
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Largest accepted epsilon of the generator's differential privacy for a patient; generators without it,
    or with a larger one, are rejected. By default none is required."""
    reidentification: Reidentification | None = None
    """Limit of re-identification; by default the exposure is reported without a limit."""
    form: Literal["secondary-capture", "cr", "png"] = "secondary-capture"
    """DICOM Secondary Capture, DICOM Computed Radiography, or PNG with a JSON sidecar file."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device that generates images. Only the CPU gives reproducible bytes across machines of one
    architecture."""
