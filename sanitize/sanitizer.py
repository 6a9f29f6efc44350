"""Base class of the sanitizers for DICOM, raster images and slides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.quarantine import Excluded, Quarantined
from medsanitize.sanitize.result import Finding, ObjectRecord, Outcome, Sanitized

SourceT = TypeVar("SourceT")


class Sanitizer(ABC, Generic[SourceT]):
    """Sanitizes objects of one kind with one policy and its keys; called once per object.

    An instance holds only caches and models: the result depends on the arguments of the call only.

    Parameters
    ----------
    policy : Policy
    keys : SubKeys
        Sub-keys of the release's scope.
    """

    kind: ClassVar[str]
    nesting: ClassVar[str] = "structure"
    """Location that is reported when an object is nested too deeply."""

    def __init__(self, policy: Policy, keys: SubKeys) -> None:
        self._policy = policy
        self._keys = keys

    def __call__(self, source: SourceT, context: Context) -> Sanitized:
        """Sanitize one object.

        Parameters
        ----------
        source
            The complete object; pieces of the result refer to it.
        context : Context
            What is known of the object's patient, study and series.

        Returns
        -------
        Sanitized
            Files, record and links; or a quarantined or dropped record that names location and rule. No
            content of an object raises an exception.
        """
        try:
            if context.refuse:
                raise Quarantined(context.refuse)
            # Before anything is read: the limit protects the process from hostile files, too.
            if self._size(source) > self._policy.dicom.limits.object_bytes:
                raise Quarantined("object-too-large")
            return self._sanitize(source, context)
        except Quarantined as refused:
            record = self._settled(Outcome.QUARANTINED, refused.location, refused.rule)
            return Sanitized(record, review_items=refused.review_items)
        except Excluded as dropped:
            return Sanitized(self._settled(Outcome.DROPPED, dropped.location, dropped.rule))
        except RecursionError:  # fail closed: the stack may end before a limit is reached
            return Sanitized(self._settled(Outcome.QUARANTINED, self.nesting, "too-deep"))

    @abstractmethod
    def _size(self, source: SourceT) -> int:
        """Return the size of the object in bytes."""

    @abstractmethod
    def _sanitize(self, source: SourceT, context: Context) -> Sanitized:
        """Return the released object.

        Raises
        ------
        Quarantined, Excluded
            The object is not released.
        """

    def _settled(self, outcome: Outcome, location: str, rule: str) -> ObjectRecord:
        return ObjectRecord(outcome, self.kind, (Finding(location, rule),))
