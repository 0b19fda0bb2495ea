#!/usr/bin/env bash
# Time that the death of a rank costs, and what copies in memory cost, for GPT-2 124M on two ranks of one thread each: from copies in
# memory, beside checkpoints on a disk. Alternates; prints medians.
#   benchmarks/restart_speed.sh [FOLDER] [ROUNDS]     FOLDER is on the disk to measure
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
FOLDER=${1:-.} ROUNDS=${2:-3}
source benchmarks/common.sh
place=$(mktemp -d "$FOLDER/restart-speed-XXXXXX")
trap 'rm -rf "$place"' EXIT

train() { # OPTIONS...
  rm -rf "$place/run"
  $convoy launch -n 2 --max-restarts 3 train examples/gpt2_clm/bench.toml --threads 1 --max_steps 12 --logging_steps 1 \
    --eval_strategy no --output_dir "$place/run" "$@" 2>&1
}

# Seconds of a whole run into NAME.
timed() { # NAME OPTIONS...
  milliseconds train "${@:2}" | awk '{ printf "%.2f\n", $1 / 1e3 }' >>"$place/$1"
}

for zero in 0 3; do
  rm -f "$place"/{calm,few,copies,memory,disk}
  for ((round = 0; round < ROUNDS; ++round)); do
    timed calm --zero $zero --save_strategy no --memory_copy_steps 0
    timed few --zero $zero --save_strategy no --memory_copy_steps 5
    timed copies --zero $zero --save_strategy no --memory_copy_steps 1
    CONVOY_FAULT=sigkill@1:forward:11 timed memory --zero $zero --save_strategy no --memory_copy_steps 10
    CONVOY_FAULT=sigkill@1:forward:11 timed disk --zero $zero --save_steps 10 --save_async false --save_total_limit 1 \
      --memory_copy_steps 0
  done
  seconds() { # NAME
    mapfile -t all <"$place/$1"
    median "${all[@]}"
  }
  awk -v z=$zero -v calm="$(seconds calm)" -v few="$(seconds few)" -v copies="$(seconds copies)" -v memory="$(seconds memory)" -v disk="$(seconds disk)" 'BEGIN {
    # Two copies write memory that the system has to give first, nine more do not.
    printf "zero %d: a run of 12 steps %.1f s; the first two copies %.1f s each, later ones %.2f s; a death right after a copy costs %.1f s, after a save %.1f s\n",
      z, calm, (few - calm) / 2, (copies - few) / 9, memory - calm, disk - calm }'
done
