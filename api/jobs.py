"""Whole jobs as functions: `run`, `plan`, `propose_words`, `verify`, `audit` and `compare`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.api.policy import PolicySource, load_policy
from medsanitize.errors import UsageError
from medsanitize.progress import Cancellation, NoProgress, Progress, StageTiming

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.propose_words import WordProposals
    from medsanitize.pipeline.runtime.result import RunResult
    from medsanitize.release.verify import VerificationResult
    from medsanitize.verifiers.leaks.audit import ReleaseAudit
    from medsanitize.verifiers.reid.overlap.overlap import Overlap

PathLike = str | os.PathLike[str]
Listener = Progress | Callable[[str], object]


class _Lines:
    """Adapt a function such as ``print`` to `Progress`; every event becomes a line of text."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self._print = show

    def stage(self, name: str, total: int | None) -> None:
        self._print(name if total is None else f"{name}: {total:,} objects")

    def advance(self, objects: int) -> None:
        """Ignored: one line per object would be too much output."""

    def finished(self, timing: StageTiming) -> None:
        self._print(f"{timing.name}: {timing.objects:,} objects in {timing.wall_seconds:.1f} s")

    def message(self, text: str) -> None:
        self._print(text)


def run(policy: PolicySource, *, workers: int | None = None, progress: Listener | None = None) -> RunResult:
    """Turn the inputs of a policy into a release, as ``medsanitize run`` does.

    After an interruption, the same call resumes the run.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`.
    workers : int, optional
        Number of worker processes; by default that of the policy, or one per core.
    progress : callable or Progress, optional
        A function that receives lines of text (such as ``print``), or an object with the methods of
        `Progress`. Neither receives file names or values.

    Returns
    -------
    RunResult
        ``ending`` is how the run ended (``published``, ``refused``, ...); see also ``outcomes``, ``gates``
        and ``exit_code``. A refused release raises no exception.

    Raises
    ------
    PolicyError, KeyMaterialError, UsageError
        The run cannot start; no input was read.
    EnvironmentFailure
        Disk, memory or a store failed; call again to resume.
    IntegrityError
        The state is damaged, or staged files were changed.

    Notes
    -----
    Worker processes import the caller's main module: guard scripts with ``if __name__ == "__main__":``.

    Examples
    --------
    >>> import medsanitize
    >>> result = medsanitize.run("policy.yaml", progress=print)  # doctest: +SKIP
    >>> result.ending, result.outcomes["quarantined"]  # doctest: +SKIP
    ('published', 0)
    """
    # Imported late, so that the other functions do not need the libraries of a run.
    from medsanitize.pipeline.run import Options
    from medsanitize.pipeline.run import run as run_policy

    return run_policy(load_policy(policy), Options(workers), progress=as_progress(progress))


def plan(policy: PolicySource, *, workers: int | None = None, progress: Listener | None = None) -> RunResult:
    """Determine what `run` would do, without writing anything.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`.
    workers : int, optional
        Number of worker processes; by default that of the policy, or one per core.
    progress : callable or Progress, optional
        See `run`.

    Returns
    -------
    RunResult
        ``ending`` is ``planned``. Checks that read written files (the audit, duplicates by pixels) are
        ``not_run``.

    Raises
    ------
    PolicyError, KeyMaterialError, UsageError
        The run could not start; no input was read.
    EnvironmentFailure
        Disk, memory or a store failed.

    Examples
    --------
    >>> import medsanitize
    >>> planned = medsanitize.plan("policy.yaml", workers=1)  # doctest: +SKIP
    >>> planned.ending, planned.outcomes["released"]  # doctest: +SKIP
    ('planned', 1)
    """
    from medsanitize.pipeline.plan import plan as plan_policy
    from medsanitize.pipeline.run import Options

    return plan_policy(load_policy(policy), Options(workers), progress=as_progress(progress))


def propose_words(
    policy: PolicySource,
    *,
    least_patients: int = 3,
    workers: int | None = None,
    progress: Listener | None = None,
) -> WordProposals:
    """Propose never-words and safe words of the site, and write drafts of both lists into the state folder.

    Parameters
    ----------
    policy : path, mapping or Policy
        See `load_policy`. Its own lists apply, so that only what is new is proposed.
    least_patients : int, optional
        Patients in whose texts a word must occur to be proposed.
    workers : int, optional
        Number of worker processes; by default that of the policy, or one per core.
    progress : callable or Progress, optional
        See `run`.

    Returns
    -------
    WordProposals
        Numbers of objects, patients and proposed entries, and the paths of both drafts, which contain PHI.

    Raises
    ------
    PolicyError, UsageError
        The policy is invalid, or drafts exist already; no input was read.
    EnvironmentFailure
        Disk, memory or a store failed.

    Examples
    --------
    >>> import medsanitize
    >>> proposed = medsanitize.propose_words("policy.yaml", workers=1)  # doctest: +SKIP
    >>> proposed.deny, proposed.deny_path.name  # doctest: +SKIP
    (12, 'chest-ct-1.0.deny-list.txt')
    """
    from medsanitize.pipeline.jobs.propose_words import propose_words as propose

    return propose(
        load_policy(policy), workers=workers, least_patients=least_patients, progress=as_progress(progress)
    )


def verify(release: PathLike, *, key: PathLike | None = None) -> VerificationResult:
    """Find changed, missing and added files of a release, and check its signature.

    Parameters
    ----------
    release : path or URL
        A folder, or an address in a store (``s3://``, ``gs://``, ``abfs://``, ``https://``; needs the extra
        ``stores``).
    key : path, optional
        Public key (PEM) of the signer. A release that this key did not sign is not intact.

    Returns
    -------
    VerificationResult
        ``status`` (``intact`` or ``not intact``), ``signer``, and ``problems`` per file.

    Raises
    ------
    UsageError
        There is no release at the path, or ``key`` is not a public key.
    EnvironmentFailure
        The release cannot be read.

    Examples
    --------
    >>> import medsanitize
    >>> medsanitize.verify("release").problems  # doctest: +SKIP
    ()
    """
    from medsanitize.pipeline.storage.open_store import is_in_store

    address, public = os.fspath(release), None if key is None else Path(key)
    # Local releases are verified without the extra stores.
    if not is_in_store(address):
        from medsanitize.release.verify import verify_release as verify_folder

        return verify_folder(Path(address), key=public)
    from medsanitize.pipeline.storage.remote_release import verify_in_store

    return verify_in_store(address, key=public)


def audit(release: PathLike, *, policy: PolicySource | None = None) -> ReleaseAudit:
    """Read a release with an independent reader and search it for identifiers and hidden data.

    Parameters
    ----------
    release : path or URL
        See `verify`.
    policy : path, mapping or Policy, optional
        Also search for the identifiers in the state of this policy. Without it, that check is ``not_run``.

    Returns
    -------
    ReleaseAudit
        ``passed``, and ``findings`` as pairs of path and `Finding`.

    Raises
    ------
    UsageError
        There is no release, or the policy has no state.
    IntegrityError
        The manifest cannot be read.

    Examples
    --------
    >>> import medsanitize
    >>> medsanitize.audit("release", policy="policy.yaml").passed  # doctest: +SKIP
    True
    """
    from medsanitize.pipeline.jobs.export_ledger import audit_with_state

    return audit_with_state(os.fspath(release), None if policy is None else load_policy(policy))


def compare(
    *datasets: PathLike,
    labels: Sequence[PathLike | None] | None = None,
    columns: Mapping[str, str] | None = None,
    models: Sequence[PathLike] = (),
    verifiers: Sequence[PathLike] = (),
    calibration: PathLike | None = None,
    target: float | None = None,
    output: PathLike | None = None,
    workers: int | None = None,
    progress: Listener | None = None,
) -> Overlap:
    """Decide whether datasets share images or patients. Needs the extra ``verify``.

    Parameters
    ----------
    *datasets : path
        Two or more releases, folders of images, or indexes made by ``medsanitize index``.
    labels : sequence of path or None, optional
        For each dataset, a CSV or Parquet table that maps files to patient IDs, or None.
    columns : mapping of str to str, optional
        Names of the columns ``file`` and ``patient_id`` in these tables.
    models, verifiers : sequence of path, optional
        Folders of retrieval and verification models, at most one per modality; packaged models otherwise.
    calibration : path, optional
        Calibration of the deciding score.
    target : float, optional
        Highest false match rate per pair of patients.
    output : path, optional
        Folder for pairs, figure and result. It contains PHI.
    workers : int, optional
        Number of worker processes; by default one per core.
    progress : callable or Progress, optional
        See `run`.

    Returns
    -------
    Overlap
        ``result`` is the worst verdict; ``comparisons`` has the verdict and bounds of each pair of datasets.

    Raises
    ------
    UsageError
        The datasets cannot be compared, or the extra is missing.
    IntegrityError
        A model, manifest or calibration was changed.

    Examples
    --------
    >>> import medsanitize
    >>> medsanitize.compare("release-2023", "release-2024").result  # doctest: +SKIP
    'exclusive'
    """
    from medsanitize.pipeline.jobs.compare_datasets import OverlapRequest, run_overlap
    from medsanitize.pipeline.runtime.machine import usable_cores
    from medsanitize.verifiers.reid.labels import LabelColumns
    from medsanitize.verifiers.reid.overlap.models import ModelPaths
    from medsanitize.verifiers.reid.overlap.overlap import TARGET_FALSE_MATCH

    if len(datasets) < 2:
        raise UsageError("Fewer than two datasets are named", "Name two or more")
    tables = labels if labels is not None else [None] * len(datasets)
    if len(tables) != len(datasets):
        raise UsageError("The numbers of labels and datasets differ", "Pass one, or None, per dataset")
    request = OverlapRequest(
        paths=tuple(map(Path, datasets)),
        labels=tuple(None if one is None else Path(one) for one in tables),
        columns=LabelColumns(**(columns or {})),
        models=ModelPaths(tuple(map(Path, models)), tuple(map(Path, verifiers))),
        calibration=None if calibration is None else Path(calibration),
        target=TARGET_FALSE_MATCH if target is None else target,
        output=None if output is None else Path(output),
    )
    return run_overlap(
        request, as_progress(progress) or NoProgress(), Cancellation(), workers=workers or usable_cores()
    )


def as_progress(progress: Listener | None) -> Progress | None:
    """Return a Progress unchanged; wrap a function in `_Lines`."""
    if progress is None or not callable(progress):
        return progress
    return _Lines(progress)
