"""The wrapper and the Slurm scripts: run with stand-ins for Slurm and the real command."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from medsanitize.policies.model import Policy

from tests.helpers.deploy import BIN, DEPLOY, write_fake_command
from tests.helpers.hospital import tree


@pytest.mark.parametrize("script", ["batch-job.sh", "slurm/submit.sh", "slurm/job.sbatch"])
def test_shellcheck_finds_nothing(script: str) -> None:
    done = subprocess.run([BIN / "shellcheck", DEPLOY / script], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def heed_the_end_of_sessions() -> None:
    """Under nohup SIGHUP is ignored, and a shell cannot trap a signal ignored at its start."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("exit 0", 0),
        ("exit 1", 0),
        ("exit 2", 2),
        ("exit 5", 5),
        ("kill -9 $$", 137),
        ("trap 'sleep 0.1; exit 143' TERM; kill -TERM $PPID; sleep 0.3", 143),
        ("trap 'sleep 0.1; exit 0' TERM; kill -TERM $PPID; sleep 0.3", 0),
        ("trap 'sleep 0.1; exit 143' TERM; kill -HUP $PPID; sleep 0.3", 143),
        ("trap 'sleep 0.1; exit 143' TERM; kill -XCPU $PPID; sleep 0.3", 143),
    ],
)
def test_the_wrapper_treats_exit_1_as_success_and_waits_for_a_stopped_process(
    tmp_path: Path, shell: str, program: str, expected: int
) -> None:
    write_fake_command(tmp_path / "bin", "medsanitize", program)
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    done = subprocess.run(
        [shell, DEPLOY / "batch-job.sh"], env=environment, preexec_fn=heed_the_end_of_sessions
    )
    assert done.returncode == expected


def test_the_slurm_scripts_make_the_release_of_one_run(
    tmp_path: Path, project: Policy, whole: dict[str, str]
) -> None:
    """With stand-ins for Slurm that run each job immediately, array tasks one after the other."""
    places = tmp_path / "bin"
    (tmp_path / "calls").touch()
    write_fake_command(
        places,
        "sbatch",
        f"""echo "$@" >> {tmp_path}/calls; tasks=0
while [[ $1 == --* ]]; do
  case $1 in --array=1-*) tasks=${{1#*-}};; --array*) exit 1;; --chdir=*) cd "${{1#*=}}";; esac
  case $1 in --array=*) tasks=${{1##*-}};; esac
  shift
done
export SLURM_CPUS_PER_TASK=1 SLURM_JOB_ID=7
if [ "$tasks" -gt 0 ]; then
  for task in $(seq "$tasks"); do
    SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_COUNT=$tasks bash "$@" >&2 || exit
  done
else
  bash "$@" >&2 || exit
fi
echo 7""",
    )
    write_fake_command(places, "srun", 'exec "$@"')
    environment = {"PATH": f"{places}:{BIN}:/usr/bin:/bin"}
    script, policy = DEPLOY / "slurm" / "submit.sh", project.output.parent / "policy.yaml"
    subprocess.run(["bash", script, policy, "2"], env=environment, check=True, capture_output=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [("--dependency=afterok:7" in call) for call in calls] == [False, True, True]
    assert "".join(calls).count("--array=1-2") == 1
    assert tree(project.output) == whole


@pytest.mark.parametrize(("code", "again"), [(0, False), (2, False), (5, True), (143, True)])
def test_a_slurm_job_is_requeued_only_for_retryable_exit_codes(
    tmp_path: Path, code: int, again: bool
) -> None:
    write_fake_command(tmp_path / "bin", "srun", f"exit {code}")
    write_fake_command(tmp_path / "bin", "scontrol", f'echo "$@" > {tmp_path}/requeued')
    environment = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_PER_TASK": "1",
    }
    script = DEPLOY / "slurm" / "job.sbatch"
    done = subprocess.run(["bash", script, "/policy.yaml"], env=environment, check=False)
    assert (done.returncode, (tmp_path / "requeued").exists()) == (code, again)


@pytest.mark.parametrize("array", [False, True])
def test_only_the_failed_array_task_is_requeued(tmp_path: Path, array: bool) -> None:
    """The last task of an array has the job number of the whole array."""
    write_fake_command(tmp_path / "bin", "srun", "exit 5")
    write_fake_command(tmp_path / "bin", "scontrol", f'echo "$@" > {tmp_path}/requeued')
    task = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "3"}
    environment = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_PER_TASK": "1",
        **(task if array else {}),
    }

    subprocess.run(["bash", DEPLOY / "slurm" / "job.sbatch", "/policy.yaml"], env=environment, check=False)

    assert (tmp_path / "requeued").read_text() == ("requeue 7_3\n" if array else "requeue 7\n")
