#!/usr/bin/env bash
# How long OpenMP threads that wait for each other may spin: two threads on a machine that is idle, and beside three busy
# loops, with libgomp's own count and with the program's; sessions and GPT-2 124M; runs alternate, medians in ms/step.
#   benchmarks/threads_speed.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3}
source benchmarks/common.sh
unset OMP_NUM_THREADS OMP_WAIT_POLICY
synthetic bench_2k 2000
own=300000 short=1000 # of libgomp where nobody says, and cli/openmp.cpp's

step() { # SPINS CONFIG OPTION...
  GOMP_SPINCOUNT=$1 $convoy bench step "${@:2}" --threads 2 --warmup 2 --json | field step_ms_median
}

busy=()
trap '((${#busy[@]} == 0)) || kill "${busy[@]}" 2>/dev/null' EXIT
printf '| run | idle, %d spins | %d | beside three busy loops, %d | %d |\n|---|--:|--:|--:|--:|\n' $own $short $own $short
row() { # TITLE CONFIG OPTION...
  local title=$1 place spins round
  shift
  local -A times=()
  for ((round = 0; round < ROUNDS; ++round)); do
    for place in idle busy; do
      if [[ $place == busy ]]; then
        for _ in 1 2 3; do
          (while :; do :; done) &
          busy+=($!)
          disown
        done
      fi
      for spins in $own $short; do times[$place$spins]+=" $(step "$spins" "$@")"; done
      ((${#busy[@]} == 0)) || kill "${busy[@]}"
      busy=()
    done
  done
  printf '| %s |' "$title"
  # Each is a list of numbers.
  # shellcheck disable=SC2086
  for place in idle busy; do
    for spins in $own $short; do printf ' %d |' "$(median ${times[$place$spins]})"; done
  done
  printf '\n'
}
row 'sessions, 2,000 items, batch 128' examples/session_rec/bench_2k.toml --steps 30
row 'GPT-2 124M, 4 x 128' examples/gpt2_clm/bench.toml --steps 4
