"""Cleaning of text elements (PS3.15 E.3.5, Clean Descriptors).

Texts are cleaned word by word; defined terms of the standard and product names are kept as a whole.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from medsanitize.policies.tables.coded_concepts import known_code
from medsanitize.policies.tables.vocabulary import defined_terms
from medsanitize.sanitize.dicom.coded_entries import CODE_MEANING, CONTEXT_IDENTIFIER, is_context_identifier
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
"""Attributes of manufacturers, models and software versions."""
_LONGEST_SHOWN = 1000

# Its defined terms also occur as names of persons.
_ETHNIC_GROUP = 0x00102160


def clean_foreign_text(
    job: ObjectState, scope: Scope, rule: Rule, tag: int, vr: bytes, value: bytes
) -> Outcome:
    """Clean a text in an attribute outside the IOD: remove it unless it is clean as a whole."""
    kept = clean_text(job, rule, tag, vr, value)
    if kept[1] is value and not scope.strict:
        return kept
    return remove_by_type(job, rule, tag, vr, value, "free-text")


def clean_text(job: ObjectState, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Clean a text by the policy, value by value where the VR allows several.

    Parameters
    ----------
    job : ObjectState
        Receives a review item for each uncertain value.
    rule : Rule
    tag : int
    vr, value : bytes

    Returns
    -------
    Outcome
    """
    text = charset.decode_text(value, job.charset)
    # In ST, LT and UT a backslash is text, not a delimiter (PS3.5 6.2).
    parts = [text] if vr in SINGLE_TEXT_VRS else text.split("\\")
    ban = job.subject.ban
    terms = _terms_of(job, tag)
    action = job.texts.action(tag)
    cleaned, foreign = [], False
    for part in parts:
        verdict = job.decided.get(text_location(job, tag, part)) if job.decided else None
        # The decision of a reviewer replaces the cleaning.
        if verdict is not None:
            cleaned.append(part if verdict == "keep" else "")
        elif part.strip() in terms or (tag in _PRODUCTS and _is_product(job, action, part)):
            cleaned.append(part)
        elif action == "clean":
            done = job.texts.cleaner.clean(part, job.subject.terms)
            cleaned.append(done.text)
            foreign = foreign or "language" in done.rules
            if done.doubtful:
                _add_review_item(job, tag, part, done.text)
        else:
            kept = action == "keep-vocabulary"
            cleaned.append(reduce_to_vocabulary(part, ban, job.texts.allowed) if kept else "")
    if job.texts.observe is not None:
        for before, after in zip(parts, cleaned, strict=True):
            job.texts.observe(tag, before, after)
    if cleaned == parts:
        return vr, value, "K:unchanged", ()
    why = "free-text-language" if foreign else "free-text"
    if not any(part.strip() for part in cleaned):
        return remove_by_type(job, rule, tag, vr, value, why)
    return vr, charset.encode_text("\\".join(cleaned), job.charset), f"C:{why}", ()


def _is_product(job: ObjectState, action: str, text: str) -> bool:
    """Whether a text is the name of a manufacturer, model or version."""
    ban = job.subject.ban
    # "clean" searches for the institutions themselves, so that their generic words need no ban.
    if action == "clean":
        ban = replace(ban, words=ban.words - INSTITUTION_WORDS)
    return is_product(text, ban)


def _add_review_item(job: ObjectState, tag: int, before: str, after: str) -> None:
    """Add a review item for a text that was cleaned with uncertainty."""
    shown = f"before: {before[:_LONGEST_SHOWN]}\nafter: {after[:_LONGEST_SHOWN]}"
    job.review_items.append(ReviewItem(text_location(job, tag, before), "free-text", shown))


def text_location(job: ObjectState, tag: int, text: str) -> str:
    """Return the location of a text for review: the tag and a keyed digest of the text.

    One attribute may contain many texts, each with a decision of its own.
    """
    return f"{tag_text(tag)} text {keyed_mac(job.keys.lookup, 'text', text)[:6].hex()}"


def _terms_of(job: ObjectState, tag: int) -> Collection[str]:
    """Texts that the standard defines for an attribute; for a Code Meaning, those of its code."""
    if tag == CODE_MEANING:
        return known_code(*job.code) or () if job.code else ()
    if tag == _ETHNIC_GROUP:
        return [term for term in defined_terms()[tag] if not is_named(term, job.subject.ban)]
    return defined_terms().get(tag, ())


def clean_coded_string(job: ObjectState, rule: Rule, tag: int, vr: bytes, value: bytes) -> Outcome:
    """Clean a CS value: keep defined terms, enumerated values and vocabulary words."""
    text = charset.decode_text(value, b"").rstrip("\0")
    parts = text.split("\\")
    terms = defined_terms().get(tag, frozenset())
    ban = job.subject.ban
    if tag == CONTEXT_IDENTIFIER and is_context_identifier(text.strip()) and not is_named(text, ban):
        return vr, value, "K:unchanged", ()
    good = [part.strip() in terms or reduce_to_vocabulary(part, ban) == part for part in parts]
    if all(good):
        return vr, value, "K:unchanged", ()
    if not any(ok and part.strip() for part, ok in zip(parts, good, strict=True)):
        return remove_by_type(job, rule, tag, vr, value, "not-a-defined-term")
    # A replacement keeps the position of the other values, which has a meaning (Image Type).
    kept = [part if ok else "OTHER" for part, ok in zip(parts, good, strict=True)]
    return vr, "\\".join(kept).encode("ascii", "ignore"), "C:not-a-defined-term", ()
