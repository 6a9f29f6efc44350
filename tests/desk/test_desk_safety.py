"""What an attacker on the network, on another site or on this machine gets from the desk: nothing."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner
from medsanitize import UsageError
from medsanitize.cli import cli
from medsanitize.desk.desk import Desk
from medsanitize.desk.roots import Roots
from medsanitize.desk.sessions import Sessions

from tests.helpers.desk import DeskProcess, open_desk
from tests.helpers.hospital import policy_text, prepare

pytestmark = pytest.mark.desk


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("desk") / "projects"
    prepare(base / "one")
    (base / "one" / "export").mkdir()
    secret = base.parent / "secret.yaml"
    secret.write_text((base / "one" / "policy.yaml").read_text().replace("chest-ct", "secret-ct"))
    (base / "linked.yaml").symlink_to(secret)
    (base / "out").symlink_to(base.parent)
    return base


@pytest.fixture(scope="module")
def desk(root: Path) -> Iterator[DeskProcess]:
    with open_desk(root) as found:
        first = found.enter()
        assert (first.status, bool(found.cookie)) == (200, True)
        yield found


def test_a_session_lists_the_policies_of_its_roots_and_nothing_behind_links(desk: DeskProcess) -> None:
    page = desk.get("/")
    assert page.status == 200
    assert "chest-ct" in page.text
    assert "secret-ct" not in page.text


def test_every_answer_forbids_storing_framing_and_inline_code(desk: DeskProcess) -> None:
    for path in ("/", "/enter", "/assets/desk.css", "/nothing"):
        headers = desk.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] in ("no-store", "no-cache")
    assert desk.get("/").headers["cache-control"] == "no-store"


def test_the_cookie_is_for_the_desk_alone(root: Path) -> None:
    with open_desk(root) as other:
        stated = other.enter().headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", "path=/"} <= set(stated.replace(" ", "").split(";"))


def test_the_token_works_once(root: Path) -> None:
    with open_desk(root) as other:
        assert other.enter().status == 200
        mine = other.cookie
        assert other.enter().status == 403
        other.cookie = mine
        assert other.get("/").status == 200


@pytest.mark.parametrize("cookie", ["", "x", "a" * 43])
def test_without_a_session_nothing_is_shown(desk: DeskProcess, cookie: str) -> None:
    page = desk.get("/", Cookie=f"desk={cookie}")
    assert (page.status, page.headers["location"]) == (303, "/enter")
    assert desk.request("POST", "/leave", Cookie=f"desk={cookie}").status == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost:1", ""])
def test_a_name_that_resolves_to_this_machine_is_refused(desk: DeskProcess, host: str) -> None:
    answer = desk.get("/", Host=host)
    assert answer.status in (400, 421)
    assert "chest-ct" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_form_of_another_site_changes_nothing(desk: DeskProcess, headers: dict[str, str]) -> None:
    assert desk.request("POST", "/leave", **headers).status == 403
    assert desk.get("/").status == 200


def test_another_site_cannot_load_a_page(desk: DeskProcess) -> None:
    assert desk.get("/", Sec_Fetch_Site="cross-site").status == 403
    assert desk.request("PUT", "/").status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../app.py",
        "/assets/%2e%2e/app.py",
        "/assets/..%2fapp.py",
        "/assets//etc/passwd",
        "/project/..%2f..%2fsecret.yaml",
        "/project/L2V0Yy9wYXNzd2Q",
        "/project/" + "A" * 5000,
    ],
)
def test_paths_cannot_be_put_together(desk: DeskProcess, path: str) -> None:
    answer = desk.get(path)
    assert answer.status in (404, 409)
    assert "root:" not in answer.text
    assert "Route(" not in answer.text


def test_a_large_form_is_refused(desk: DeskProcess) -> None:
    assert desk.request("POST", "/leave", "x" * (3 * 2**20)).status == 413


def test_no_address_on_a_page_names_a_file(desk: DeskProcess) -> None:
    page = desk.get("/").text
    links = [part.partition('"')[0] for part in page.split('href="')[1:]]
    assert any(link.startswith("/project/") for link in links)
    assert not any("chest" in link or "one" in link or ".yaml" in link for link in links)


def test_an_idle_session_ends() -> None:
    now = [0.0]
    sessions = Sessions("token", None, 60.0, clock=lambda: now[0])
    cookie = sessions.enter_with_token("token")
    assert cookie is not None
    now[0] = 59.0
    assert sessions.find(cookie) is not None
    now[0] = 110.0
    # What a page asks for by itself does not keep an unattended session.
    assert sessions.find(cookie, touch=False) is not None
    now[0] = 120.0
    assert sessions.find(cookie) is None
    assert sessions.is_over()


def test_passwords_are_delayed_after_five_wrong_ones() -> None:
    now = [0.0]
    sessions = Sessions(None, "correct horse battery", 60.0, clock=lambda: now[0])
    for _ in range(5):
        assert sessions.enter_with_password("wrong", "a") is None
    assert sessions.enter_with_password("correct horse battery", "a") is None
    now[0] = 31.0
    assert sessions.enter_with_password("correct horse battery", "a") is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "::"], "TLS and a password"),
        (["--listen", "192.0.2.1"], "TLS and a password"),
        (["--listen", "desk.example.org"], "TLS and a password"),
        (["--public", "https://desk.example.org"], "needs a password"),
    ],
)
def test_nothing_is_served_beyond_loopback_without_tls_and_password(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = CliRunner().invoke(cli, ["desk", str(tmp_path), "--no-browser", *arguments])
    assert done.exit_code == 2
    assert message in done.output


def test_a_password_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("correct horse battery")
    file.chmod(stat.S_IRUSR | stat.S_IROTH)
    done = CliRunner().invoke(cli, ["desk", str(tmp_path), "--no-browser", "--password-file", str(file)])
    assert done.exit_code == 2
    assert "accessible to other users" in done.output


def test_nothing_that_is_shown_is_logged(root: Path) -> None:
    with open_desk(root) as other:
        other.enter()
        other.get("/")
        other.get("/nothing?value=QUIXLEYVANE")
        other.process.terminate()
        out, err = other.process.communicate(timeout=20)
    assert (out, err) == ("", "")


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"output": "../../elsewhere"}, "outside the folders of this desk"),
        ({"state": "/var/state"}, "outside the folders of this desk"),
        ({"inputs": "[../../secret]"}, "outside the folders of this desk"),
        ({"inputs": "[../out]"}, "outside the folders of this desk"),
        ({"exclude": "/etc/passwd"}, "outside the folders of this desk"),
        ({"keys": "{command: [touch, CANARY]}"}, "starts no program"),
    ],
)
def test_a_policy_leads_nowhere_out_of_the_roots(
    tmp_path: Path, sections: dict[str, str], message: str
) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "root" / "p" / "export").mkdir(parents=True)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "root" / "out").symlink_to(tmp_path / "hidden")
    text = policy_text(**{name: value.replace("CANARY", str(canary)) for name, value in sections.items()})
    path = tmp_path / "root" / "p" / "policy.yaml"
    path.write_text(text)
    desk = Desk(Roots([tmp_path / "root"]), Sessions("token", None, 60))
    with pytest.raises(UsageError, match=message):
        desk.policy(path)
    assert not canary.exists()


def test_files_of_others_are_unchanged_and_licensed() -> None:
    folder = files("medsanitize.desk").joinpath("assets", "codemirror")
    listed = [line.split() for line in folder.joinpath("SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in listed} == {
        one.name for one in folder.iterdir() if one.name.endswith((".js", ".css"))
    }
    for digest, name in listed:
        assert sha256(folder.joinpath(name).read_bytes()).hexdigest() == digest
    assert "MIT License" in folder.joinpath("LICENSE").read_text()
