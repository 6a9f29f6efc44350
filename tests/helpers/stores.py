"""A bucket for a test, and a client of its server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.storage.protocol import SourceEntry
from medsanitize.pipeline.storage.sources import open_source_files, stamp_of, walk
from medsanitize.sanitize.pseudonyms import derive_sub_keys

from tests.helpers.hospital import CANARIES, KEY
from tests.helpers.s3_server import Answer, environment

SEAL = Seal(derive_sub_keys(KEY, scope="project"))
NAME = f"{CANARIES[0]}-{CANARIES[1]}.dcm"


@dataclass(frozen=True)
class Store:
    """A server, a direct client and a bucket."""

    port: int
    client: Any
    bucket: str

    def fill(self, folder: Path, prefix: str) -> str:
        """Copy a folder into the bucket; return its address."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())
        return f"s3://{self.bucket}/{prefix}"

    def put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=content)

    def get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def keys(self, prefix: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return sorted(one["Key"] for page in pages for one in page.get("Contents", ()))


def client_of(port: int) -> Any:
    import boto3

    facts = environment(port)
    return boto3.session.Session(
        facts["AWS_ACCESS_KEY_ID"], facts["AWS_SECRET_ACCESS_KEY"], region_name=facts["AWS_DEFAULT_REGION"]
    ).client("s3", endpoint_url=facts["AWS_ENDPOINT_URL"])


def list_store(address: str) -> dict[str, SourceEntry]:
    return {one.path.decode().removeprefix(address.rstrip("/") + "/"): one for one in walk((address,))}


def read_entry(found: SourceEntry) -> bytes:
    with open_source_files([one.path for one in found.files], SEAL, stamp_of(SEAL, found)) as contents:
        return bytes(contents[0])


def truncate(answer: Answer) -> Answer:
    """Truncate the body; the headers state its full length."""
    headers = [(name, value) for name, value in answer.headers if name.lower() != "content-length"]
    return Answer(answer.status, [*headers, ("Content-Length", str(len(answer.body)))], answer.body[:-3])


def failing(status: int, code: str, times: int) -> Callable[[str, str, Answer], Answer]:
    left = [times]

    def spoil(_method: str, path: str, answer: Answer) -> Answer:
        if left[0] == 0:
            return answer
        left[0] -= 1
        body = f"<Error><Code>{code}</Code><Message>{path}</Message></Error>".encode()
        return Answer(status, [("Content-Type", "application/xml")], body)

    return spoil
