"""Free text: identifiers are cut and the rest stays, or only a controlled vocabulary stays."""

from medsanitize.sanitize.text.vocabulary import (
    NOTHING_FORBIDDEN,
    Forbidden,
    fold,
    forbidden,
    is_named,
    is_product,
    reduce,
)

__all__ = ["NOTHING_FORBIDDEN", "Forbidden", "fold", "forbidden", "is_named", "is_product", "reduce"]
