"""Text elements: kept word by word, or whole where the standard or a maker gives the whole."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from medsanitize.policies.tables.coded_concepts import known_code
from medsanitize.policies.tables.vocabulary import defined_terms
from medsanitize.sanitize.dicom.coded_entries import CODE_MEANING
from medsanitize.sanitize.dicom.dummies import Outcome, remove_by_type
from medsanitize.sanitize.dicom.object_state import ObjectState
from medsanitize.sanitize.dicom.rules import Rule, Scope
from medsanitize.sanitize.formats.dicom import charset
from medsanitize.sanitize.formats.dicom.transfer_syntax import SINGLE_TEXT_VRS
from medsanitize.sanitize.pseudonyms import keyed_mac
from medsanitize.sanitize.quarantine import tag_text
from medsanitize.sanitize.result import ReviewItem
from medsanitize.sanitize.text.stop_words import INSTITUTION_WORDS
from medsanitize.sanitize.text.vocabulary_filter import is_named, is_product, reduce_to_vocabulary

_PRODUCTS = frozenset(
    int(tag, 16)
    for tag in (
        "00080070 00081090 00181020 00181016 00181018 00181019 0018101A 0018101B 00181017 0018702A 0018702B "
        "0016004F 00160050 00160051 00189004 00186031 00660031 00660036 00081091 00220030 300A0216"
    ).split()
)
"""Makers, models and software versions."""
_LONGEST_SHOWN = 1000

_ETHNIC_GROUP = 0x00102160
"""Its terms are words that people are called by as well."""


def clean_foreign_text(
    job: ObjectState, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes
) -> Outcome:
    """Text that does not belong to the SOP class: it stays only if nothing had to be cut."""
    kept = clean_text(job, rule, tag, vr, value)
    if kept[1] is value and not scope.strict:
        return kept
    return remove_by_type(job, rule, tag, vr, value, "free-text")


def clean_text(job: ObjectState, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Clean a text as the policy says, value by value where the VR allows several."""
    text = charset.decode_text(value, job.charset)
    parts = [text] if vr in SINGLE_TEXT_VRS else text.split("\\")
    ban = job.subject.ban
    terms = _terms_of(job, tag)
    action = job.texts.action(tag)
    cleaned, foreign = [], False
    for part in parts:
        verdict = job.decided.get(text_location(job, tag, part)) if job.decided else None
        if verdict is not None:
            cleaned.append(part if verdict == "keep" else "")
        elif part.strip() in terms or (tag in _PRODUCTS and _is_product(job, action, part)):
            cleaned.append(part)
        elif action == "clean":
            done = job.texts.cleaner.clean(part, job.subject.terms)
            cleaned.append(done.text)
            foreign = foreign or "language" in done.rules
            if done.doubtful:
                _doubt(job, tag, part, done.text)
        else:
            cleaned.append(reduce_to_vocabulary(part, ban) if action == "keep-vocabulary" else "")
    if cleaned == parts:
        return vr, value, "K:unchanged", ()
    why = "free-text-language" if foreign else "free-text"
    if not any(part.strip() for part in cleaned):
        return remove_by_type(job, rule, tag, vr, value, why)
    return vr, charset.encode_text("\\".join(cleaned), job.charset), f"C:{why}", ()


def _is_product(job: ObjectState, action: str, text: str) -> bool:
    """Whether a text names a maker, model or version; words that many institutions have say nothing
    against it where the first layer looks for the institutions themselves.
    """
    ban = job.subject.ban
    if action == "clean":
        ban = replace(ban, words=ban.words - INSTITUTION_WORDS)
    return is_product(text, ban)


def _doubt(job: ObjectState, tag: int, before: str, after: str) -> None:
    """Note what a language model or a long cut did, for the holder's review."""
    shown = f"before: {before[:_LONGEST_SHOWN]}\nafter: {after[:_LONGEST_SHOWN]}"
    job.doubts.append(ReviewItem(text_location(job, tag, before), "free-text", shown))


def text_location(job: ObjectState, tag: int, text: str) -> str:
    """A text's place as a decision names it: one attribute may hold many texts, each decided by itself."""
    return f"{tag_text(tag)} text {keyed_mac(job.keys.lookup, 'text', text)[:6].hex()}"


def _terms_of(job: ObjectState, tag: int) -> Collection[str]:
    """Whole texts that the standard itself gives an attribute; a meaning is given by its code."""
    if tag == CODE_MEANING:
        return known_code(*job.code) or () if job.code else ()
    if tag == _ETHNIC_GROUP:
        return [term for term in defined_terms()[tag] if not is_named(term, job.subject.ban)]
    return defined_terms().get(tag, ())


def clean_coded_string(job: ObjectState, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """CS: defined terms and enumerated values stay; anything else only word by word."""
    text = charset.decode_text(value, b"").rstrip("\0")
    parts = text.split("\\")
    terms = defined_terms().get(tag, frozenset())
    ban = job.subject.ban
    good = [part.strip() in terms or reduce_to_vocabulary(part, ban) == part for part in parts]
    if all(good):
        return vr, value, "K:unchanged", ()
    if not any(ok and part.strip() for part, ok in zip(parts, good, strict=True)):
        return remove_by_type(job, rule, tag, vr, value, "not-a-defined-term")
    kept = [part if ok else "OTHER" for part, ok in zip(parts, good, strict=True)]
    return vr, "\\".join(kept).encode("ascii", "ignore"), "C:not-a-defined-term", ()
