"""The release key: sources, rejected keys, and secrecy."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from medsanitize.errors import KeyMaterialError
from medsanitize.policies.model import Keys
from medsanitize.policies.release_key import generate_release_key, read_release_key

GOOD = bytes(range(7, 39))


def key_file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    file = folder / "release.key"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def refusal(keys: Keys) -> str:
    with pytest.raises(KeyMaterialError) as caught:
        read_release_key(keys)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_generated_key_is_read_back_as_32_bytes(tmp_path: Path) -> None:
    generate_release_key(tmp_path / "k")
    assert len(read_release_key(Keys(file=tmp_path / "k"))) == 32


def test_a_generated_key_has_mode_0600_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        generate_release_key(tmp_path / "k")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600


def test_generated_keys_differ(tmp_path: Path) -> None:
    for name in ("a", "b"):
        generate_release_key(tmp_path / name)
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    file = key_file(tmp_path, GOOD)
    with pytest.raises(KeyMaterialError, match="never overwritten"):
        generate_release_key(file)
    assert file.read_bytes() == GOOD


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(KeyMaterialError, match="never overwritten"):
        generate_release_key(tmp_path / "link")
    assert not (tmp_path / "target").exists()


def test_key_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyMaterialError, match="folder of the key file does not exist"):
        generate_release_key(tmp_path / "no" / "k")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (GOOD, GOOD),  # bytes
        (GOOD + b"\n", GOOD + b"\n"),  # binary keys are used unchanged
        (GOOD.hex().encode() + b"\n", GOOD),  # hexadecimal text
        (GOOD.hex().upper().encode(), GOOD),
        (b"correct horse battery staple 0123456789\r\n", b"correct horse battery staple 0123456789"),
    ],
)
def test_forms_of_a_key(tmp_path: Path, content: bytes, expected: bytes) -> None:
    assert read_release_key(Keys(file=key_file(tmp_path, content))) == expected


def test_file_variable_and_command_give_the_same_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = key_file(tmp_path, GOOD.hex().encode() + b"\n")
    monkeypatch.setenv("RELEASE_KEY", GOOD.hex())
    command = (sys.executable, "-c", f"print('{GOOD.hex()}')")
    assert (
        read_release_key(Keys(file=file))
        == read_release_key(Keys(env="RELEASE_KEY"))
        == read_release_key(Keys(command=command))
        == GOOD
    )


def test_a_missing_key_file_error_explains_how_to_create_one(tmp_path: Path) -> None:
    assert refusal(Keys(file=tmp_path / "none")) == (
        "The file in keys.file does not exist. Create one: medsanitize keygen FILE."
    )


@pytest.mark.parametrize("content", [b"", b"short", GOOD[:31], b"\n" * 3, GOOD[:16].hex().encode()[:30]])
def test_short_keys_are_rejected(tmp_path: Path, content: bytes) -> None:
    assert "fewer than 32 bytes" in refusal(Keys(file=key_file(tmp_path, content)))


@pytest.mark.parametrize(
    "content",
    [
        bytes(32),
        b"a" * 64,
        b"password" * 4,
        bytes(range(15)) * 5,
        b"00" * 32,
        b"0123" * 16,
    ],
)
def test_obviously_weak_keys_are_rejected(tmp_path: Path, content: bytes) -> None:
    assert "is weak" in refusal(Keys(file=key_file(tmp_path, content)))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o602, 0o660, 0o644, 0o700, 0o777])
def test_modes_wider_than_0600_are_rejected(tmp_path: Path, mode: int) -> None:
    assert refusal(Keys(file=key_file(tmp_path, GOOD, mode))).endswith("Run: chmod 600 FILE.")


def test_mode_0400_is_accepted(tmp_path: Path) -> None:
    assert read_release_key(Keys(file=key_file(tmp_path, GOOD, 0o400))) == GOOD


def test_a_key_of_another_user_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = key_file(tmp_path, GOOD)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert "owned by another user" in refusal(Keys(file=file))


def test_a_link_to_a_file_of_the_same_user_is_followed(tmp_path: Path) -> None:
    file = key_file(tmp_path, GOOD)
    (tmp_path / "link").symlink_to(file)
    assert read_release_key(Keys(file=tmp_path / "link")) == GOOD


def test_a_link_to_an_exposed_file_is_rejected(tmp_path: Path) -> None:
    file = key_file(tmp_path, GOOD, 0o644)
    (tmp_path / "link").symlink_to(file)
    assert "chmod 600" in refusal(Keys(file=tmp_path / "link"))


def test_a_folder_and_a_pipe_are_rejected_as_keys(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "regular file" in refusal(Keys(file=tmp_path))
    assert "regular file" in refusal(Keys(file=tmp_path / "pipe"))


def test_a_large_file_is_rejected_as_key(tmp_path: Path) -> None:
    assert "too large" in refusal(Keys(file=key_file(tmp_path, GOOD * 4096)))


@pytest.mark.parametrize("value", [None, ""])
def test_variable_not_set(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("RELEASE_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("RELEASE_KEY", value)
    text = refusal(Keys(env="RELEASE_KEY"))
    assert "is not set" in text
    assert "RELEASE_KEY" not in text  # it may be the key, written there by mistake


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/no/such/program",), "cannot be executed"),
        ((sys.executable, "-c", "raise SystemExit(3)"), "exited with code 3"),
        ((sys.executable, "-c", "pass"), "printed nothing"),
    ],
)
def test_commands_that_fail(command: tuple[str, ...], message: str) -> None:
    assert message in refusal(Keys(command=command))


def test_the_command_runs_without_a_shell() -> None:
    script = "import sys; print(sys.argv[1] + '0123456789abcdefghijklmnopqrstuvwxyz')"
    assert read_release_key(Keys(command=(sys.executable, "-c", script, "$HOME"))).startswith(b"$HOME")


@pytest.mark.parametrize("keys", [Keys(), Keys(file=Path("a"), env="B")])
def test_exactly_one_key_source_is_required(keys: Keys) -> None:
    assert "exactly one source" in refusal(keys)


def test_key_errors_do_not_show_the_key(tmp_path: Path) -> None:
    content = b"secretsecretsecretsecretsecretsecret"
    with pytest.raises(KeyMaterialError) as caught:
        read_release_key(Keys(file=key_file(tmp_path, content)))
    shown = str(caught.value) + repr(caught.value) + repr(caught.value.__context__)
    assert "secretsecret" not in shown
