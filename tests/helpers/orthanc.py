"""A real Orthanc on loopback, with its own configuration, empty storage and free ports."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import requests

PROGRAM = shutil.which("Orthanc")
PLUGIN = Path("/usr/share/orthanc/plugins/libOrthancDicomWeb.so")
INSTALLED = PROGRAM is not None and PLUGIN.exists()

AET = "ARCHIVE"
CALLING = "MEDSANITIZE"
LOGIN = "steward:let-me-in"
VARIABLE = "TEST_PACS_LOGIN"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Orthanc:
    """One archive; ``move_port`` is its configured port of our storage SCP."""

    def __init__(self, folder: Path) -> None:
        self.http, self.dicom, self.move_port = free_port(), free_port(), free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.auth = tuple(LOGIN.split(":"))  # type: ignore[assignment]
        folder.mkdir(parents=True, exist_ok=True)
        self.set()

    def set(self, **changes: object) -> None:
        """Change settings; they take effect at the next start."""
        (self._folder / "orthanc.json").write_text(json.dumps({**self._settings(), **changes}))

    def _settings(self) -> dict[str, Any]:
        rights = dict.fromkeys(("AllowEcho", "AllowFind", "AllowGet", "AllowMove", "AllowStore"), True)
        us = {"AET": CALLING, "Host": "127.0.0.1", "Port": self.move_port, **rights}
        user, _, password = LOGIN.partition(":")
        return {
            "Name": "archive",
            "StorageDirectory": str(self._folder / "storage"),
            "IndexDirectory": str(self._folder / "storage"),
            "HttpPort": self.http,
            "DicomPort": self.dicom,
            "DicomAet": AET,
            "DicomCheckCalledAet": True,
            **dict.fromkeys(
                (f"DicomAlwaysAllow{one}" for one in ("Echo", "Find", "Get", "Move", "Store")), False
            ),
            "DicomModalities": {"us": us},
            "RemoteAccessAllowed": False,
            "AuthenticationEnabled": True,
            "RegisteredUsers": {user: password},
            "Plugins": [str(PLUGIN)],
            "DicomWeb": {"Enable": True, "Root": "/dicom-web/", "EnableWado": False},
            "UnknownSopClassAccepted": True,
            "HttpThreadsCount": 8,
        }

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.http}/dicom-web"

    @property
    def peer(self) -> str:
        return f"{AET}@127.0.0.1:{self.dicom}"

    def start(self) -> None:
        (self._folder / "storage").mkdir(exist_ok=True)
        settings = str(self._folder / "orthanc.json")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([PROGRAM or "", settings], stdout=log, stderr=log)
        for _ in range(200):
            try:
                if self._session.get(f"http://127.0.0.1:{self.http}/system", timeout=2).ok:
                    return
            except requests.ConnectionError:
                time.sleep(0.05)
        raise RuntimeError("Orthanc does not start")

    def kill(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def empty(self) -> None:
        for study in self._json("studies"):
            self._session.delete(f"http://127.0.0.1:{self.http}/studies/{study}").raise_for_status()

    def put(self, files: Iterable[Path]) -> None:
        for file in files:
            answer = self._session.post(f"http://127.0.0.1:{self.http}/instances", data=file.read_bytes())
            answer.raise_for_status()

    def objects(self) -> dict[str, bytes]:
        """Its objects by SOP Instance UID, byte for byte."""
        found = {}
        for one in self._json("instances"):
            uid = self._json(f"instances/{one}")["MainDicomTags"]["SOPInstanceUID"]
            content = self._session.get(f"http://127.0.0.1:{self.http}/instances/{one}/file").content
            found[uid] = content
        return found

    def remove(self, instance: str) -> None:
        for one in self._json("instances"):
            if self._json(f"instances/{one}")["MainDicomTags"]["SOPInstanceUID"] == instance:
                self._session.delete(f"http://127.0.0.1:{self.http}/instances/{one}").raise_for_status()

    def _json(self, path: str) -> Any:
        answer = self._session.get(f"http://127.0.0.1:{self.http}/{path}")
        answer.raise_for_status()
        return answer.json()
