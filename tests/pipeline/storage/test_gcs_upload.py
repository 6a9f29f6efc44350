"""Uploads of large files to Google Cloud Storage: a lost upload is restarted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.config import conf
from medsanitize.errors import EnvironmentFailure, MedsanitizeError, UsageError
from medsanitize.pipeline.storage import retry, upload
from medsanitize.pipeline.storage.filesystem import file_system
from medsanitize.pipeline.storage.gcs_upload import upload_resumable
from medsanitize.pipeline.storage.retry import ObjectNotFound
from medsanitize.pipeline.storage.upload import UploadTarget
from medsanitize.progress import Cancellation
from medsanitize.release.layout import ROOT, SUMS

from tests.helpers.gcs_server import BUCKET, Bucket, GcsServer

# gcsfs passes parts of files to aiohttp unchanged.
pytestmark = [
    pytest.mark.stores,
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]

SLIDE = "data/a.svs"
OTHER = "data/b.dcm"
WHOLE = sorted([f"out/{name}" for name in (SLIDE, OTHER, SUMS, ROOT)])
# More than gcsfs uploads with one request.
SIZE = 6 * 2**20
LOST = pytest.mark.parametrize("status", [404, 410])


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """The bucket that the product reaches through gcsfs."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(retry, "PATIENCE", 0.3)
    monkeypatch.setattr(upload, "PART", 2**22)
    server = GcsServer()
    monkeypatch.setitem(conf, "gs", {"token": "anon", "endpoint_url": server.address})
    file_system.cache_clear()
    yield server.bucket
    file_system.cache_clear()
    server.close()


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A release stand-in with a slide of two parts."""
    folder = tmp_path / "release"
    (folder / "data").mkdir(parents=True)
    (folder / SLIDE).write_bytes(os.urandom(SIZE))
    (folder / OTHER).write_bytes(b"small")
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (SLIDE, OTHER)}
    (folder / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    (folder / ROOT).write_text("{}\n")
    return folder


def put(release: Path) -> None:
    UploadTarget(f"gs://{BUCKET}/out").put(release, Cancellation(), lambda _: None)


def test_a_release_is_uploaded_unchanged(bucket: Bucket, release: Path) -> None:
    put(release)
    assert sorted(bucket.objects) == WHOLE
    assert bucket.objects[f"out/{SLIDE}"] == (release / SLIDE).read_bytes()


@LOST
def test_an_interrupted_upload_is_restarted(bucket: Bucket, release: Path, status: int) -> None:
    bucket.losses, bucket.status = 1, status
    put(release)
    assert (bucket.begun, sorted(bucket.objects)) == (2, WHOLE)


@LOST
def test_a_store_that_loses_every_upload_is_reported(bucket: Bucket, release: Path, status: int) -> None:
    bucket.losses, bucket.status = 99, status
    with pytest.raises(EnvironmentFailure, match="lost an upload"):
        put(release)
    assert (bucket.begun, f"out/{ROOT}" in bucket.objects) == (3, False)


def test_an_upload_rejected_as_invalid_is_restarted(bucket: Bucket, release: Path) -> None:
    bucket.losses, bucket.status, bucket.said = 1, 410, "invalid upload"
    put(release)
    assert (bucket.begun, sorted(bucket.objects)) == (2, WHOLE)


def test_a_request_rejected_as_invalid_is_reported(bucket: Bucket, release: Path) -> None:
    bucket.status, bucket.said, bucket.refuses = 400, "invalid argument", True
    with pytest.raises(MedsanitizeError) as told:
        put(release)
    assert told.value.exit_code != 70


def test_a_missing_bucket_is_reported(bucket: Bucket, release: Path) -> None:
    bucket.gone = True
    with pytest.raises(UsageError, match="the bucket does not exist"):
        put(release)


def test_a_bucket_removed_before_a_large_upload_is_reported(bucket: Bucket, release: Path) -> None:
    """A file name may look like the address of an upload: it is quoted in the request."""
    bucket.gone = True
    with pytest.raises(ObjectNotFound):
        upload_resumable(release / SLIDE, f"gs://{BUCKET}/upload_id=7", 2**22, {}, mode="create")
