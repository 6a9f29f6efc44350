"""An export of files of every kind in nested containers, with every path that must be accounted for."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.containers import disk_image, seven_zip, tarred
from tests.helpers.hospital import real_file, write_ct
from tests.helpers.other_files import KINDS, zipped

Pack = Callable[[Mapping[str, bytes]], bytes]
_DEPTH = 3
_PACKS: dict[str, Pack] = {
    "zip": zipped,
    "tar": tarred,
    "tgz": lambda files: gzip.compress(tarred(files), mtime=0),
    "tbz2": lambda files: bz2.compress(tarred(files)),
    "txz": lambda files: lzma.compress(tarred(files)),
}
_EXTRA: dict[str, Pack] = {"7z": seven_zip, "iso": lambda files: disk_image(files, joliet=True)}


@dataclass
class FuzzedExport:
    """Files by path, and how often each path must occur in the account."""

    files: dict[str, bytes] = field(default_factory=dict)
    paths: Counter[str] = field(default_factory=Counter)
    kinds: set[str] = field(default_factory=set)


def fuzzed_export(count: int, seed: int, scratch: Path, *, extra: bool) -> FuzzedExport:
    """Make an export with ``count`` files, those of containers included and containers themselves not."""
    rng = random.Random(seed)  # noqa: S311  repeatable
    makers = _Makers({**_PACKS, **(_EXTRA if extra else {})}, _leaves(scratch), rng)
    made = FuzzedExport()
    _fill(made, count, makers, _DEPTH)
    content, hostile = _hostile()
    _add_container(made, "hostile.tar", content, hostile)
    return made


@dataclass
class _Makers:
    packs: dict[str, Pack]
    leaves: dict[str, bytes]
    rng: random.Random


def _fill(made: FuzzedExport, count: int, makers: _Makers, depth: int, *, gz: bool = True) -> None:
    rng, left = makers.rng, count
    while left > 0:
        name = f"{rng.choice(['', 'A/', 'A/B!/', 'C%21/'])}{rng.choice('xyz')}{len(made.files)}"
        choice = rng.random()
        if choice < 0.1 and depth:
            inner, size = FuzzedExport(), min(left, rng.randint(1, 40))
            form = rng.choice(sorted(makers.packs))
            _fill(inner, size, makers, depth - 1, gz=form != "iso")
            _pack(made, name, form, inner, makers)
            left -= size
            continue
        kind = rng.choice(sorted(makers.leaves))
        content = makers.leaves[kind]
        made.kinds.add(kind)
        if choice > 0.95 and depth and gz:
            inside = Counter({name.rpartition("/")[2]: 1})
            _add_container(made, name + ".gz", gzip.compress(content, mtime=0), inside)
        else:
            made.files[name] = content
            made.paths[name] += 1
        left -= 1


def _pack(made: FuzzedExport, name: str, form: str, inner: FuzzedExport, makers: _Makers) -> None:
    files, paths = inner.files, inner.paths
    if form == "iso":  # names of files on the disk are short
        short = {path: f"F{number}" for number, path in enumerate(files)}
        files = {short[path]: content for path, content in files.items()}
        paths = Counter({_renamed(path, short): count for path, count in paths.items()})
    _add_container(made, name, makers.packs[form](files), paths)
    made.kinds |= inner.kinds | {form}


def _add_container(made: FuzzedExport, name: str, content: bytes, paths: Counter[str]) -> None:
    made.files[name] = content
    made.paths[name] += 1
    made.paths += Counter({f"{name}!/{path}": count for path, count in paths.items()})


def _renamed(path: str, names: Mapping[str, str]) -> str:
    old = max((name for name in names if path == name or path.startswith(name + "!/")), key=len)
    return names[old] + path[len(old) :]


def _leaves(scratch: Path) -> dict[str, bytes]:
    from PIL import Image

    picture = io.BytesIO()
    Image.new("L", (8, 8), 77).save(picture, "png")
    return {
        **KINDS,
        "dicom": write_ct(scratch / "one", 1).read_bytes(),
        "dicom without preamble": real_file("no_meta.dcm").read_bytes(),
        "damaged dicom": write_ct(scratch / "two", 2).read_bytes()[:900],
        "dicomdir": real_file("dicomdirtests/DICOMDIR").read_bytes(),
        "picture": picture.getvalue(),
        "empty": b"",
    }


def _hostile() -> tuple[bytes, Counter[str]]:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", errors="surrogateescape") as tar:
        for name, kind in (
            *(("twice", tarfile.REGTYPE), ("twice", tarfile.REGTYPE), ("../up", tarfile.REGTYPE)),
            *(("link", tarfile.SYMTYPE), ("pipe", tarfile.FIFOTYPE), ("caf\udce9", tarfile.REGTYPE)),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "twice" if kind == tarfile.SYMTYPE else ""
            tar.addfile(info)
    return target.getvalue(), Counter({"twice": 2, "../up": 1, "link": 1, "pipe": 1, "caf\udce9": 1})
