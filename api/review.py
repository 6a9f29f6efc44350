"""The review of a run, as it goes on: `open_review`, `decision_log` and `staged_frame`."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.api.policy import PolicySource, load_policy
from medsanitize.errors import UsageError

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.preview_object import FramePicture, Row
    from medsanitize.pipeline.review.queue import ReviewQueue
    from medsanitize.pipeline.state.judgments import LoggedDecision


def open_review(policy: PolicySource, *, reviewer: str = "") -> ReviewQueue:
    """Open the review of the last run of a policy; use the result in a ``with`` statement.

    Decisions are stored as they are made, where those of ``medsanitize review --decisions`` are stored.
    While it is open, no run of the policy can start.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`.
    reviewer : str, optional
        Name under which the person decides; it is kept in the state and nowhere in the release.

    Returns
    -------
    ReviewQueue
        ``counts``, ``items``, ``picture``, ``findings``, ``sample``, ``series``, ``decide``, ``approve`` and
        others. What it returns contains PHI. Use it in the thread that opened it.

    Raises
    ------
    UsageError
        The release is anonymous or published, or no run of this policy is complete.
    EnvironmentFailure, IntegrityError
        A run is at work, or the state is damaged.

    Examples
    --------
    >>> import medsanitize
    >>> with medsanitize.open_review("policy.yaml", reviewer="ann") as review:  # doctest: +SKIP
    ...     review.decide({item.name: "blank" for item in review.items()}, scope="alike")
    """
    from medsanitize.pipeline.review.queue import ReviewQueue

    return ReviewQueue(load_policy(policy), reviewer)


def decision_log(policy: PolicySource) -> list[LoggedDecision]:
    """Return who decided what in the reviews of a policy, in the order of the decisions.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`.

    Raises
    ------
    UsageError
        The release is anonymous, or there was no run.
    """
    from medsanitize.pipeline.review.decision_log import decision_log as read

    return read(load_policy(policy))


def staged_frame(file: str | os.PathLike[str], frame: int | None = None, *, edge: int = 1600) -> FramePicture:
    """Return a frame of a staged or released file as PNG.

    Decoders may crash on a hostile image: call it in a process that may end.

    Parameters
    ----------
    file : path
        A DICOM object or picture file.
    frame : int, optional
        From 1; the middle one by default.
    edge : int, optional
        Longest side of the picture, in pixels.

    Returns
    -------
    FramePicture
        ``png``; ``rows`` and ``columns`` of the frame itself; ``frame`` and ``frames``.

    Raises
    ------
    UsageError
        It has no image that can be decoded.
    """
    from medsanitize.pipeline.jobs.preview_object import frame_picture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return frame_picture(Path(file), frame, edge)
        except Exception:  # noqa: BLE001  decoders raise anything, and their messages may quote values
            raise UsageError("It has no image, or none that can be decoded", "Look at its header") from None


def staged_header(file: str | os.PathLike[str]) -> tuple[Row, ...]:
    """Return the header of a staged or released DICOM object.

    Parameters
    ----------
    file : path
        The file.

    Returns
    -------
    tuple
        Rows of depth, tag, name, VR and value, long values cut; empty for a file that is not DICOM.
    """
    from medsanitize.pipeline.jobs.preview_object import read_header

    path = Path(file)
    if path.suffix != ".dcm":
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_header(path)
