"""Federated training with real processes: results, deaths, refusals, and what travels."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from medsanitize.errors import PolicyError, UsageError
from medsanitize.federation.parties.identity import create_party, open_party
from medsanitize.federation.training.invitation import FILE, invite
from medsanitize.federation.training.site import LOG, open_site, shown
from medsanitize.federation.training.statement import statement_of
from medsanitize.pipeline.demo.federation import NAMES, RECIPE, Federation, prepare_federation
from medsanitize.pipeline.demo.two_hospitals import free_port
from medsanitize.pipeline.jobs.run_federation import program, result_of
from medsanitize.policies.federation import load_job, load_site_policy

pytestmark = [pytest.mark.federated, pytest.mark.verify]
SECONDS = 900


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """Three hospitals, whose invitation has been written."""
    federation = prepare_federation(tmp_path_factory.mktemp("federation") / "demo", patients=12, size=128)
    job = load_job(federation.job)
    invite(job, open_party(job.party))
    return federation


@pytest.fixture
def federation(prepared: Federation, tmp_path: Path) -> Federation:
    return copied(prepared, tmp_path / "demo")


def copied(prepared: Federation, folder: Path) -> Federation:
    """All parties in a folder of their own, on another port."""
    shutil.copytree(prepared.folder, folder)
    sites = {name: folder / name / "site.yaml" for name in NAMES}
    (port,) = re.findall(r"127\.0\.0\.1:(\d+)", prepared.job.read_text())
    new = str(free_port())
    for path in (folder / "job.yaml", *sites.values()):
        path.write_text(path.read_text().replace(port, new).replace(str(prepared.folder), str(folder)))
    return Federation(folder / "job.yaml", sites)


def invitation_of(federation: Federation) -> Path:
    return federation.folder / "job" / FILE


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*program(*arguments), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def server_of(federation: Federation) -> list[str]:
    return ["server", str(federation.job)]


def site_of(federation: Federation, name: str) -> list[str]:
    return ["site", str(federation.sites[name]), str(invitation_of(federation))]


def result(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    return result_of(process.communicate(timeout=SECONDS)[0])


def trained(federation: Federation) -> dict[str, Any]:
    """Run server and sites until the end; returns the server's result."""
    with started(*server_of(federation)) as server:
        sites = [
            subprocess.Popen([*program(*site_of(federation, name)), "--json"], stdout=subprocess.PIPE)
            for name in NAMES
        ]
        told = result(server)
        digests = {result(site)["digest"] for site in sites}
    assert digests == {told["digest"]}
    return told


@pytest.fixture(scope="module")
def undisturbed(prepared: Federation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of an undisturbed run."""
    return trained(copied(prepared, tmp_path_factory.mktemp("undisturbed") / "demo"))


def test_all_parties_end_with_the_same_model(undisturbed: Mapping[str, Any]) -> None:
    assert undisturbed["confirmed"] == list(NAMES)
    assert undisturbed["exit_code"] == 0
    assert "one colluder sees the sum of two" in undisturbed["statement"]


@pytest.mark.slow
def test_nobody_writes_a_model_that_may_betray_its_patients(federation: Federation) -> None:
    shutil.rmtree(federation.folder / "job")
    required = "attacks:\n  membership: {recognized: 0.01}\nrecipe:"
    job = load_job(edited(federation.job, "recipe:", required))
    invite(job, open_party(job.party))
    arguments = [server_of(federation), *(site_of(federation, name) for name in NAMES)]
    running = [
        subprocess.Popen([*program(*one), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for one in arguments
    ]
    try:
        told = [json.loads(one.communicate(timeout=SECONDS)[0].splitlines()[-1]) for one in running]
    finally:
        for one in running:
            if one.poll() is None:
                one.kill()
            one.wait()
    assert running[0].returncode == 3
    assert "may recognize its patients (membership" in told[0]["message"]
    # A site that asks after the server has ended is told so, and not why.
    assert {one.returncode for one in running[1:]} <= {2, 3}
    assert not list(federation.folder.rglob("weights.safetensors"))
    assert not job.output.exists()


@pytest.mark.parametrize(
    ("victim", "stage"),
    [
        pytest.param("server", "masked", marks=pytest.mark.slow),
        (NAMES[0], "shares"),
        pytest.param(NAMES[0], "unmask", marks=pytest.mark.slow),
    ],
)
def test_after_a_kill_the_same_command_ends_with_the_same_model(
    victim: str, stage: str, federation: Federation, undisturbed: Mapping[str, Any]
) -> None:
    commands = {name: site_of(federation, name) for name in NAMES} | {"server": server_of(federation)}
    running = {
        name: subprocess.Popen([*program(*arguments), "--json"], stdout=subprocess.PIPE)
        for name, arguments in commands.items()
    }
    try:
        seen = federation.folder / "job" / "round-0001" / f"{stage}.{NAMES[1]}"
        until = time.monotonic() + SECONDS
        while not seen.exists():
            assert time.monotonic() < until
            assert all(one.poll() is None for one in running.values())
            time.sleep(0.01)
        running[victim].send_signal(signal.SIGKILL)
        running[victim].communicate()
        running[victim] = subprocess.Popen([*program(*commands[victim]), "--json"], stdout=subprocess.PIPE)
        told = result(running["server"])
        assert {result(running[name])["digest"] for name in NAMES} == {told["digest"]}
        assert told["digest"] == undisturbed["digest"]
    finally:
        for one in running.values():
            if one.poll() is None:
                one.kill()
            one.wait()


def edited(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("retrieval/moments-256", "retrieval/moments", "its recipe"),
        ("[south-hospital, west-hospital]", "[south-hospital, east-hospital]", "one of its sites"),
        ("accept:\n", "accept:\n  least: 4\n", "so few sites"),
        ("accept:\n", "accept:\n  epsilon: 4\n", "epsilon above 4"),
        ("accept:\n", f"accept:\n  code: '{'0' * 64}'\n", "its program"),
    ],
)
def test_a_site_refuses_what_its_policy_does_not_accept(
    old: str, new: str, why: str, federation: Federation
) -> None:
    policy = load_site_policy(edited(federation.sites[NAMES[0]], old, new))
    with pytest.raises(UsageError, match=f"does not accept the job: not {why}"):
        open_site(policy, invitation_of(federation))


def test_a_site_refuses_that_the_server_sees_its_statistics(federation: Federation) -> None:
    shutil.rmtree(federation.folder / "job")
    job = load_job(edited(federation.job, "recipe:", "aggregation: plain\nrecipe:"))
    invite(job, open_party(job.party))
    with pytest.raises(UsageError, match="the server sees this site's statistics"):
        open_site(load_site_policy(federation.sites[NAMES[0]]), invitation_of(federation))
    accepting = load_site_policy(edited(federation.sites[NAMES[0]], "accept:\n", "accept:\n  plain: true\n"))
    site = open_site(accepting, invitation_of(federation))
    assert "the server sees the statistics of each" in shown(site)["statement"]


def test_a_site_refuses_an_invitation_that_was_changed(federation: Federation) -> None:
    edited(invitation_of(federation), '"seed": 0', '"seed": 1')
    with pytest.raises(Exception, match="not by the server's party"):
        open_site(load_site_policy(federation.sites[NAMES[0]]), invitation_of(federation))


def test_a_site_refuses_another_identity_under_a_trusted_name(federation: Federation, tmp_path: Path) -> None:
    """A server that plays two of three sites would see the vector of the third."""
    create_party(tmp_path / "false", NAMES[1])
    false = open_party(tmp_path / "false").identity
    trusted = federation.folder / "server" / "trusted" / f"{NAMES[1]}.json"
    shutil.copy(tmp_path / "false" / "identity.json", trusted)
    shutil.rmtree(federation.folder / "job")
    job = load_job(federation.job)
    assert invite(job, open_party(job.party)).sites[NAMES[1]] == false.fingerprint
    with pytest.raises(UsageError, match="another identity for south-hospital"):
        open_site(load_site_policy(federation.sites[NAMES[0]]), invitation_of(federation))


def test_show_counts_what_would_be_used_and_reads_no_image(federation: Federation) -> None:
    policy = load_site_policy(federation.sites[NAMES[0]])
    site = open_site(policy, invitation_of(federation))
    for path in policy.images.rglob("*.png"):
        path.write_bytes(b"")
    facts = shown(site)
    assert facts["patients"] == 8
    assert facts["threshold"] == 3
    assert facts["sites"] == list(NAMES)


def test_a_patient_known_at_two_sites_is_used_at_the_first_only(federation: Federation) -> None:
    rows = (federation.folder / NAMES[1] / "images" / "labels.csv").read_text().splitlines()
    train = [row.split(",") for row in rows if ",train," in row]
    counts = []
    for name in NAMES[:2]:
        other = NAMES[1] if name == NAMES[0] else NAMES[0]
        path = federation.sites[name]
        (path.parent / "common.csv").write_text(
            f"compared,item\npixels,{train[0][0]}\npatients, {train[-1][1]} \n"
        )
        edited(path, "split: train", f"split: train\nshared:\n  - {{partner: {other}, list: ./common.csv}}")
        counts.append(shown(open_site(load_site_policy(path), invitation_of(federation))))
    # The first site of the job keeps all; of the second, both patients with all their images are left out.
    assert counts[0]["excluded"].get("patient used at another site") is None
    assert counts[1]["patients"] == 6
    gone = [row for row in train if row[1] in {train[0][1], train[-1][1]}]
    assert counts[1]["excluded"]["patient used at another site"] == len(gone)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("recipe: moments-256", "recipe: [1]", "6:9"),
        ("patience: 120", "patience: 0", "10:11"),
        ("sites: [north-hospital, south-hospital, west-hospital]", "sites: [north-hospital]", "4:8"),
        ("version: 1", "version: 1\nrounds: 3", "2:9"),
    ],
)
def test_a_job_names_line_and_column_of_what_is_wrong(
    old: str, new: str, place: str, federation: Federation
) -> None:
    with pytest.raises(PolicyError) as caught:
        load_job(edited(federation.job, old, new))
    assert f"{place}:" in str(caught.value)


def test_a_job_that_was_changed_after_the_invitation_is_refused(federation: Federation) -> None:
    edited(federation.job, "recipe:", "seed: 3\nrecipe:")
    with (
        started(*server_of(federation)) as server,
        pytest.raises(UsageError, match="differs from its invitation"),
    ):
        result(server)


def test_a_site_compares_epsilon_with_its_own_ceiling(federation: Federation) -> None:
    shutil.rmtree(federation.folder / "job")
    text = federation.job.read_text().replace("retrieval", "classification").replace(RECIPE, "frozen")
    more = "classes: {column: finding, names: [a, b]}\nprivacy: {epsilon: 3}\n"
    federation.job.write_text(text + more)
    job = load_job(federation.job)
    invite(job, open_party(job.party))
    policy = edited(federation.sites[NAMES[0]], f"retrieval/{RECIPE}", "classification/frozen")
    edited(policy, "accept:\n", "accept:\n  epsilon: 4\n")
    site = open_site(load_site_policy(policy), invitation_of(federation))
    assert "epsilon 3 at delta 1e-05" in statement_of(site.invitation)
    edited(policy, "epsilon: 4", "epsilon: 2")
    with pytest.raises(UsageError, match="not epsilon above 2"):
        open_site(load_site_policy(policy), invitation_of(federation))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("privacy: {epsilon: 3}\n", "for classifiers under secure"),
        ("classes: {column: finding, names: [a, b]}\n", "no other training does"),
    ],
)
def test_keys_of_another_model_are_refused(more: str, why: str, federation: Federation) -> None:
    shutil.rmtree(federation.folder / "job")
    federation.job.write_text(federation.job.read_text() + more)
    job = load_job(federation.job)
    with pytest.raises(UsageError, match=why):
        invite(job, open_party(job.party))


def test_a_port_that_is_taken_is_reported(federation: Federation) -> None:
    port = int(re.findall(r"127\.0\.0\.1:(\d+)", federation.job.read_text())[0])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        with started(*server_of(federation)) as server:
            told = json.loads(server.communicate(timeout=SECONDS)[0].splitlines()[-1])
    assert told["exit_code"] == 5
    assert "Choose another address or port" in told["message"]


def test_a_recipe_that_needs_more_than_sums_is_refused(federation: Federation) -> None:
    shutil.rmtree(federation.folder / "job")
    edited(federation.job, "recipe: moments-256", "recipe: paper")
    with started("provision", str(federation.job)) as process, pytest.raises(UsageError, match="by sums"):
        result(process)


def bytes_of(values: np.ndarray[Any, Any]) -> Sequence[bytes]:
    """Pieces of an array as they would travel: as float32, float64 or in fixed point."""
    flat = values.reshape(-1)[:4]
    return [flat.astype(kind).tobytes() for kind in ("<f4", "<f8")]


def test_nothing_that_travels_has_an_image_an_embedding_or_an_unmasked_vector(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One site runs in this process, which sees all that it sends and what would be in it."""
    from medsanitize.federation.training import site as module
    from medsanitize.federation.training.training import FederatedTraining
    from medsanitize.progress import Cancellation, NoProgress

    sent: list[bytes] = []
    vectors: list[Any] = []
    post, contribution = module.post_message, FederatedTraining.contribution

    def recorded(*arguments: Any, **named: Any) -> bytes:
        sent.append(arguments[3])
        return post(*arguments, **named)

    def remembered(self: FederatedTraining, *arguments: Any) -> Any:
        vectors.append(contribution(self, *arguments))
        return vectors[-1]

    monkeypatch.setattr(module, "post_message", recorded)
    monkeypatch.setattr(FederatedTraining, "contribution", remembered)
    policy = load_site_policy(federation.sites[NAMES[0]])
    with started(*server_of(federation)) as server:
        others = [
            subprocess.Popen([*program(*site_of(federation, name)), "--json"], stdout=subprocess.PIPE)
            for name in NAMES[1:]
        ]
        site = open_site(policy, invitation_of(federation))
        # Kept, to search for the features that it holds.
        kept = federation.folder / "features"
        kept.mkdir()
        monkeypatch.setattr(module.shutil, "rmtree", lambda path, **_: _move(Path(path), kept))
        joined = module.take_part(site, NoProgress(), Cancellation())
        assert result(server)["digest"] == joined.digest
        for other in others:
            result(other)
    travelled = b"".join(sent)
    # Means, covariances, products, and the scores of the calibration.
    assert len(vectors) == 4
    assert len(travelled) > sum(8 * len(vector) for vector in vectors)
    for vector in vectors:
        for place in range(0, len(vector), max(1, len(vector) // 40)):
            piece = vector[place : place + 4]
            if np.count_nonzero(piece) == 4:
                assert piece.tobytes() not in travelled
    rows = [np.fromfile(path, np.float32) for path in kept.rglob("*.rows")]
    assert rows
    for values in rows:
        for place in range(0, len(values), max(1, len(values) // 40)):
            piece = values[place : place + 4]
            if np.count_nonzero(piece) == 4:
                assert not any(one in travelled for one in bytes_of(piece))
    for path in policy.images.rglob("*.png"):
        assert path.read_bytes()[100:140] not in travelled
    log = [json.loads(line) for line in (site.folder / LOG).read_text().splitlines()]
    assert [one["stage"] for one in log[:5]] == ["keys", "shares", "masked", "agree", "unmask"]


def _move(path: Path, target: Path) -> None:
    if path.exists():
        shutil.move(path, target / path.name)
