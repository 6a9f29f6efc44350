#!/usr/bin/env bash
# One inventory, SHARDS jobs that sanitise a part each, and one that merges, audits and publishes:
#   bash deploy/slurm/submit.sh POLICY [SHARDS]
# Run again after a failure: what was done is not done again. The policy names its key by keys.file (mode
# 0600), so the key is in no argument and in no environment of a job.
set -euo pipefail

policy=$(realpath "${1:?usage: submit.sh POLICY [SHARDS]}")
shards=${2:-16}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

submit() {
  sbatch --parsable --kill-on-invalid-dep=yes --chdir="$here" \
    --output="$(dirname "$policy")/slurm-%A-%a.log" "$@"
}

inventory=$(submit job.sbatch "$policy" --inventory-only)
parts=$(submit --dependency="afterok:$inventory" --array="1-$shards" job.sbatch "$policy")
submit --dependency="afterok:$parts" job.sbatch "$policy"
