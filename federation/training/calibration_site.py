"""What a site counts in a calibration: scores of its own calibration patients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medsanitize.errors import UsageError
from medsanitize.federation.training.calibrated_models import OpenedModels
from medsanitize.federation.training.site_images import images_read

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.privacy_gate.splits import Split
    from medsanitize.progress import Cancellation, Progress
    from medsanitize.verifiers.reid.labels import Labels
    from medsanitize.verifiers.reid.training.sums import Arrays
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class CalibrationSite:
    """The calibration patients of a site.

    Attributes
    ----------
    labels
        Rows of their images.
    terms
        Of the job.
    columns
        Names of the table's columns.
    models
        The models.
    progress, cancellation
        Of the site.
    """

    labels: Labels
    terms: Mapping[str, Any]
    columns: Mapping[str, str]
    models: OpenedModels
    progress: Progress
    cancellation: Cancellation

    def count_pairs(self, grid: NDArray[np.float64]) -> Arrays:
        """Count the scores of all pairs of images, each patient once.

        Raises
        ------
        UsageError
            A model was trained on these images: it matches them too well.
        """
        from medsanitize.verifiers.reid.evaluation.pairwise_auc import sum_pairs
        from medsanitize.verifiers.reid.overlap.score_images import calibrating, score_images
        from medsanitize.verifiers.reid.training.calibration_counts import count_pairs
        from medsanitize.verifiers.reid.training.training_dataset import digest_of_files

        models = self.models
        scored = score_images(
            self.labels, models.retrieval, models.verification, self.progress, self.cancellation
        )
        self._require_unseen(digest_of_files(scored.labels.paths))
        return count_pairs(sum_pairs(*calibrating(scored)), grid)

    def count_controls(self) -> Arrays:
        """Count the scores of positive controls, of strangers and of images of one patient.

        Raises
        ------
        UsageError
            A model was trained on these images, or a model is missing.
        """
        from medsanitize.generators.privacy_gate.pooled_controls import count_controls
        from medsanitize.verifiers.reid.training.calibration_counts import count_scores, score_grid

        controls, (genuine, highest) = self.score_controls()
        return {**count_controls(controls), **count_scores(genuine, highest, score_grid())}

    def score_controls(
        self,
    ) -> tuple[dict[str, NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Score positive controls by kind, images of one patient, and strangers; see `count_controls`."""
        from medsanitize.generators.privacy_gate.calibration_scores import (
            compare_everything,
            score_controls,
            score_patients,
        )
        from medsanitize.generators.privacy_gate.gate_embeddings import Verifiers, preprocess_images

        models = self.models
        if models.verification is None or models.generator is None:
            raise UsageError("The calibration of a gate needs a generator and a verification model")
        split = self._split(models.generator.classes)
        verifiers = Verifiers(models.retrieval, models.verification, self.progress, self.cancellation)
        squares = preprocess_images(
            split.pictures, models.generator.size, "read calibration images", self.progress, self.cancellation
        )
        own = verifiers.see(squares, "embed calibration images")
        strength = float(self.terms["strength"])
        controls = score_controls(
            squares, split, own, models.generator, strength, verifiers, compare_everything
        )
        return controls, score_patients(own, split.patients, verifiers)

    def _split(self, classes: tuple[str, ...]) -> Split:
        import numpy as np
        from medsanitize.generators.privacy_gate.splits import LazyImages, Split
        from medsanitize.verifiers.reid.labels import LabelColumns
        from medsanitize.verifiers.reid.training.class_labels import class_texts

        labels, said = self.labels, dict[Any, str]()
        if classes:
            texts = class_texts(labels, LabelColumns(**self.columns), str(self.terms["classes"]["column"]))
            said = dict(zip(labels.paths, texts, strict=True))
            labels = labels.keep(np.array([n for n, text in enumerate(texts) if text in classes], np.intp))
        examples = images_read(labels, self.progress, self.cancellation)
        self._require_unseen(examples.digest)
        numbers = [classes.index(said[path]) if classes else 0 for path in examples.paths]
        return Split(LazyImages(examples), examples.patients, np.array(numbers, np.int64))

    def _require_unseen(self, digest: str) -> None:
        if digest in self.models.learned:
            raise UsageError(
                "A model was trained on the calibration images of this site",
                "Name rows of patients that no model was trained on",
            )
