"""What a policy does with each attribute: `attribute_rules`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medsanitize.api.policy import PolicySource, object_policy

if TYPE_CHECKING:
    from medsanitize.sanitize.dicom.attribute_table import AttributeRule


def attribute_rules(policy: PolicySource, search: str = "") -> tuple[AttributeRule, ...]:
    """List what a policy does with each attribute that PS3.15 Table E.1-1 or the policy names.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`; the name of a preset is enough.
    search : str
        Words that tag, keyword, action or reason must contain. An attribute in neither table is found by its
        keyword or tag.

    Returns
    -------
    tuple of AttributeRule
        ``tag``, ``keyword``, ``action`` (D, Z, X, K, C, U or a choice by Type), ``effect``, ``source`` and
        ``reason``, ordered by tag.

    Examples
    --------
    >>> from medsanitize import attribute_rules
    >>> [one.effect for one in attribute_rules("research", "PatientName")]
    ['emptied, or replaced where the IOD requires a value']
    """
    from medsanitize.sanitize.dicom.attribute_table import attribute_table

    return attribute_table(object_policy(policy).dicom, search)
