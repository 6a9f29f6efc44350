"""What the policy says of texts, compiled once: the action of each attribute, and the cleaner."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from medsanitize.policies.model import TextAction, TextSection

if TYPE_CHECKING:
    from medsanitize.sanitize.text.cleaner import TextCleaner


class TextRules:
    """The text rules of one policy.

    Parameters
    ----------
    rules : TextRules
    """

    def __init__(self, rules: TextSection) -> None:
        self._rules = rules
        self._actions: dict[int, TextAction] = {}

    @cached_property
    def cleaner(self) -> TextCleaner:
        """The cleaner, with its hundred patterns, made when a text first needs it."""
        from medsanitize.sanitize.text.cleaner import TextCleaner

        return TextCleaner(self._rules)

    def action(self, tag: int) -> TextAction:
        """What happens to texts of ``tag``: the narrowest mask of the policy decides."""
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
