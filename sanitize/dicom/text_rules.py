"""Text rules of a policy: the action for each attribute, and the text cleaner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from medsanitize.policies.model import TextAction, TextSection

if TYPE_CHECKING:
    from medsanitize.sanitize.text.cleaner import TextCleaner
    from medsanitize.sanitize.text.vocabulary_filter import FindSpans, ForbiddenWords


Observer = Callable[[int, str, str], None]


class TextRules:
    """The text rules of one policy.

    Parameters
    ----------
    rules : TextSection
        The ``text`` section of the policy.
    observe : callable, optional
        Receives tag, text before and text after of everything that is cleaned.
    """

    def __init__(self, rules: TextSection, observe: Observer | None = None) -> None:
        self._rules = rules
        self.observe = observe
        self._actions: dict[int, TextAction] = {}

    @cached_property
    def cleaner(self) -> TextCleaner:
        """The text cleaner."""
        # On demand: it compiles many patterns.
        from medsanitize.sanitize.text.cleaner import TextCleaner

        return TextCleaner(self._rules)

    @cached_property
    def allowed(self) -> FindSpans | None:
        """The search for the site's safe words; None without any."""
        from medsanitize.sanitize.text.allow_list import allow_list_of

        found = allow_list_of(self._rules)
        return found.spans if found else None

    def with_denied(self, ban: ForbiddenWords) -> ForbiddenWords:
        """Return forbidden words with the never-words of the site."""
        if not self._rules.deny_list:
            return ban
        # On demand: it compiles a search.
        from medsanitize.sanitize.text.deny_list import deny_list_of

        denied = deny_list_of(self._rules)
        return replace(ban, find_denied=denied.spans) if denied else ban

    def action(self, tag: int) -> TextAction:
        """Return the action for texts of ``tag``; the mask with the fewest wildcards decides."""
        found = self._actions.get(tag)
        if found is None:
            text = f"{tag:08x}"
            masks = [
                mask
                for mask in self._rules.attributes
                if all(m in ("x", t) for m, t in zip(mask, text, strict=True))
            ]
            best = min(masks, key=lambda mask: (mask.count("x"), mask), default=None)
            found = self._rules.action if best is None else self._rules.attributes[best]
            self._actions[tag] = found
        return found
