"""The command ``explain``: explains an image by the nearest images of a catalog, and writes the page."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import storage_errors

if TYPE_CHECKING:
    from medsanitize.generators.explain.explain import Explanation
    from medsanitize.generators.explain.relevance_judgments import Ranking
    from medsanitize.verifiers.reid.models.protocols import Classification, Encoder

EXPLANATION: Final = "explanation"
RANKING: Final = "ranking"


@dataclass(frozen=True, slots=True, repr=False)
class ExplanationRequest:
    """The arguments of the command ``explain``."""

    image: Path
    catalog: Path
    everything: bool
    model: Path | None
    count: int
    output: Path | None

    def __repr__(self) -> str:
        return "ExplanationRequest(...)"


@dataclass(frozen=True, slots=True)
class _Model:
    """The model whose features are compared; ``classifier`` if it has classes."""

    name: str
    encoder: Encoder
    classifier: Classification | None


def run_explain(request: ExplanationRequest, progress: Progress, cancellation: Cancellation) -> Explanation:
    """Explain one image by the nearest images of a catalog.

    Raises
    ------
    UnreadablePicture
        The image cannot be read.
    UsageError
        Image, catalog and model cannot be used together.
    IntegrityError
        The catalog or the model was changed.
    """
    check_extra("verify")
    from medsanitize.generators.explain.catalog import read_catalog
    from medsanitize.generators.explain.explain import explain
    from medsanitize.generators.explain.explain_embeddings import embed_catalog
    from medsanitize.generators.explain.explanation_report import explanation_page
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.images.read import read_image

    image = read_image(request.image, kind=Modality.RADIOGRAPH)
    model = _open(request.model)
    progress.stage("verify catalog", None)
    catalog = read_catalog(request.catalog, everything=request.everything)
    looked = embed_catalog(catalog, [image], model.encoder, progress, cancellation)
    found = explain(looked, request.count, model.name, model.encoder.digest, model.classifier)
    if request.output is not None:
        page = explanation_page(found, image, request.catalog)
        _write(request.output, EXPLANATION, json.dumps(found.to_json(), indent=1, sort_keys=True), page)
    return found


def run_ranking(
    request: ExplanationRequest, table: Path, progress: Progress, cancellation: Cancellation
) -> Ranking:
    """Evaluate the rankings of several images against a table of judgments; raises as ``run_explain``.

    ``request.image`` is the folder of the table's files.
    """
    check_extra("verify")
    from medsanitize.generators.explain.catalog import read_catalog
    from medsanitize.generators.explain.explain_embeddings import embed_catalog
    from medsanitize.generators.explain.explanation_report import ranking_page
    from medsanitize.generators.explain.relevance_judgments import rank, read_judgments
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.images.read import read_image

    judgments = read_judgments(table)
    home = request.image.resolve()
    files = [(home / name).resolve() for name in judgments.of]
    # A table must not name files outside the folder.
    if any(not file.is_relative_to(home) or not file.is_file() for file in files):
        raise UsageError(
            "An image of the judgments is not in the folder", "Pass the folder of the files in the table"
        )
    images = [read_image(file, kind=Modality.RADIOGRAPH) for file in files]
    model = _open(request.model)
    progress.stage("verify catalog", None)
    objects = judgments.objects()
    entries = read_catalog(request.catalog, everything=request.everything)
    catalog = [entry for entry in entries if entry.object_id in objects]
    if len(catalog) < len(objects):
        raise UsageError(
            f"{len(objects) - len(catalog)} objects of the judgments are not in the catalog",
            "Pass the catalog that was judged; --all includes real images",
        )
    looked = embed_catalog(catalog, images, model.encoder, progress, cancellation)
    found = rank(judgments, looked, model.name, model.encoder.digest)
    if request.output is not None:
        results = json.dumps(found.to_json(), indent=1, sort_keys=True)
        _write(request.output, RANKING, results, ranking_page(found))
    return found


def _open(folder: Path | None) -> _Model:
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.models.load import open_classification
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

    if folder is None:
        return _Model("packaged ImageNet features", packaged_retrieval(Modality.RADIOGRAPH), None)
    classifier = open_classification(folder)
    return _Model("a trained classifier", classifier, classifier)


def _write(output: Path, name: str, results: str, page: bytes) -> None:
    """Write both files with mode 0600, because a page may show a patient."""
    with storage_errors():
        output.mkdir(parents=True, exist_ok=True)
        for suffix, data in (("json", results.encode() + b"\n"), ("html", page)):
            path = output / f"{name}.{suffix}"
            # Removed first, because O_EXCL and O_NOFOLLOW then exclude a planted file or link.
            path.unlink(missing_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
