"""A codec that ends its process costs the object, not the program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pydicom
import pytest
from medsanitize.errors import EnvironmentFailure
from medsanitize.sanitize import child_process
from medsanitize.sanitize.formats.dicom import decoder_process
from medsanitize.sanitize.formats.dicom.decode import decode_frame, encode_frame
from medsanitize.sanitize.formats.dicom.image_pixel import Geometry
from medsanitize.sanitize.formats.dicom.transfer_syntax import TRANSFER_SYNTAXES
from medsanitize.sanitize.quarantine import Quarantined
from pydicom.data import get_testdata_file
from pydicom.encaps import get_frame

from tests.helpers.lossless_jpeg import lossless_jpeg

LOSSLESS = TRANSFER_SYNTAXES["1.2.840.10008.1.2.4.70"]


def geometry(bits: int) -> Geometry:
    return Geometry(16, 24, 1, 1, 8, bits, bits - 1, False, "MONOCHROME2")


def ramp(bits: int) -> np.ndarray:
    return (np.add.outer(np.arange(16), 3 * np.arange(24)) % (1 << bits)).astype(np.uint8)


def aborting() -> bytes:
    """A stream on which gdcm ends its process: no marker follows the frame header."""
    stream = bytearray(lossless_jpeg(ramp(8), 8))
    stream[stream.index(b"\xff\xc4")] = 0x33
    return bytes(stream)


@pytest.mark.parametrize("bits", range(2, 9))
def test_lossless_jpeg_of_few_bits_is_decoded(bits: int) -> None:
    found = decode_frame(lossless_jpeg(ramp(bits), bits), LOSSLESS, geometry(bits))

    assert np.array_equal(found, ramp(bits))


@pytest.mark.parametrize("bits", [2, 7])
def test_changed_samples_keep_the_precision_of_the_stream(bits: int) -> None:
    old = lossless_jpeg(ramp(bits), bits)

    new = encode_frame(ramp(bits)[::-1], old, LOSSLESS, geometry(bits))

    assert new[new.index(b"\xff\xc3") + 4] == bits
    assert np.array_equal(decode_frame(new, LOSSLESS, geometry(bits)), ramp(bits)[::-1])


def test_a_stream_that_ends_the_decoder_is_refused_and_the_next_one_is_decoded() -> None:
    with pytest.raises(Quarantined) as refused:
        decode_frame(aborting(), LOSSLESS, geometry(8))

    assert refused.value.rule == "decoder-crashed"
    assert np.array_equal(decode_frame(lossless_jpeg(ramp(8), 8), LOSSLESS, geometry(8)), ramp(8))


def test_a_codec_that_does_not_end_counts_as_crashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_process, "_decoder", decoder_process._Decoder())
    # A decoder that starts as the real one does and never answers.
    monkeypatch.setattr(child_process, "_START", "import time; print('ready', flush=True); time.sleep(600)")
    monkeypatch.setattr(decoder_process, "_LONGEST", 0.3)

    with pytest.raises(Quarantined, match="decoder-crashed"):
        decode_frame(lossless_jpeg(ramp(8), 8), LOSSLESS, geometry(8))


def test_threads_get_the_answers_to_their_own_streams() -> None:
    def decoded(number: int) -> bool:
        samples = np.full((16, 24), number, np.uint8)
        return np.array_equal(decode_frame(lossless_jpeg(samples, 8), LOSSLESS, geometry(8)), samples)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(decoded, range(40)))


def test_a_forked_process_has_a_decoder_of_its_own() -> None:
    decode_frame(lossless_jpeg(ramp(8), 8), LOSSLESS, geometry(8))
    child = os.fork()
    if child == 0:
        found = decode_frame(lossless_jpeg(ramp(7), 7), LOSSLESS, geometry(7))
        os._exit(0 if np.array_equal(found, ramp(7)) else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(decode_frame(lossless_jpeg(ramp(8), 8), LOSSLESS, geometry(8)), ramp(8))


def test_a_decoder_that_cannot_start_is_no_statement_about_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoder_process, "_decoder", decoder_process._Decoder())
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")

    with pytest.raises(EnvironmentFailure):
        decode_frame(lossless_jpeg(ramp(8), 8), LOSSLESS, geometry(8))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_decoder_process_ends_with_its_parent() -> None:
    program = (
        "from medsanitize.sanitize.formats.dicom import decoder_process\n"
        "print(decoder_process._start().process.pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    deadline = time.monotonic() + 20
    while _is_running(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_running(int(done.stdout))


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_jpeg_ls_with_surplus_bytes_is_decoded() -> None:
    data_set = pydicom.dcmread(str(get_testdata_file("MR_small_jpeg_ls_lossless.dcm", download=False)))
    stream = get_frame(data_set.PixelData, 0, number_of_frames=1)
    end = stream.rindex(b"\xff\xd9")
    shape = Geometry(64, 64, 1, 1, 16, 16, 15, True, "MONOCHROME2")

    found = decode_frame(
        stream[:end] + b"\0" + stream[end:], TRANSFER_SYNTAXES["1.2.840.10008.1.2.4.80"], shape
    )

    assert np.array_equal(found, data_set.pixel_array)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_decoder_process_gets_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELEASE_KEY", "quixleyvane")

    started = decoder_process._start()
    environment = Path(f"/proc/{started.process.pid}/environ").read_bytes()
    started.end()

    assert b"quixleyvane" not in environment
    assert b"PATH=" in environment
