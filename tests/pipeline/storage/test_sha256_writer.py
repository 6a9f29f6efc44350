"""Digests computed in parallel with writing."""

from __future__ import annotations

import mmap
import time
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.pipeline.storage import sha256_writer
from medsanitize.pipeline.storage.sha256_writer import Sha256Writer


@given(st.lists(st.binary(max_size=12)))
def test_the_digest_covers_all_blocks_in_order(blocks: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sha256_writer, "LARGE", 5)
        with Sha256Writer() as digest:
            for block in blocks:
                digest.update(block)
            assert digest.digest() == sha256(b"".join(blocks)).digest()


def test_a_block_waits_for_its_predecessor(monkeypatch: pytest.MonkeyPatch) -> None:
    take, delays = Sha256Writer._take, iter((0.2, 0, 0))

    def slowly(digest: Sha256Writer, block: memoryview) -> None:
        time.sleep(next(delays))
        take(digest, block)

    monkeypatch.setattr(sha256_writer, "LARGE", 1)
    monkeypatch.setattr(Sha256Writer, "_take", slowly)
    with Sha256Writer() as digest:
        for block in (b"a", b"b", b"c"):
            digest.update(block)
        assert digest.digest() == sha256(b"abc").digest()


def test_mapped_windows_are_released_after_a_failed_write(tmp_path: Path) -> None:
    path = tmp_path / "slide"
    path.write_bytes(bytes(3 * sha256_writer.LARGE))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        with pytest.raises(OSError, match="disk"):
            _digest_and_fail(data)
        data.close()
    assert data.closed


def _digest_and_fail(data: mmap.mmap) -> None:
    with Sha256Writer() as digest:
        for start in range(0, len(data), sha256_writer.LARGE):
            with memoryview(data) as view, view[start : start + sha256_writer.LARGE] as window:
                digest.update(window)
        raise OSError("the disk failed")
