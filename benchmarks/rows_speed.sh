#!/usr/bin/env bash
# A step of a session model with many items, 64 wide, 32 sessions of 20 per rank, one thread per rank: the softmax over
# all of them, 1,000 sampled ones, and the same where the table is kept by rows.
#   benchmarks/rows_speed.sh [ROUNDS] [ITEMS...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROUNDS=${1:-3}
shift || true
ITEMS=("$@")
((${#ITEMS[@]})) || ITEMS=(100000 1000000 10000000)
source benchmarks/common.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

bench() { # ROW RANKS ITEMS STEPS OPTIONS...
  bench_step "$1" examples/session_rec/bench_50k.toml --data.path "data/bench_$3" --nproc "$2" --steps "$4" \
    --per_device_train_batch_size 32 "${@:5}"
}

sampled=(--sampled_softmax true --max_n_samples 1000)
rows=("${sampled[@]}" --row_tables true)
printf '| items | ranks | full softmax | sampled | by rows | memory by rows |\n|--:|--:|--:|--:|--:|--:|\n'
for items in "${ITEMS[@]}"; do
  synthetic "bench_$items" "$items"
  for ((round = 0; round < ROUNDS; ++round)); do
    ((items > 1000000 || round > 0)) || bench "full_$items" 1 "$items" 3
    ((items > 1000000)) || bench "sampled_$items" 1 "$items" 20 "${sampled[@]}"
    for ranks in 1 2; do bench "rows_${items}_$ranks" "$ranks" "$items" 40 "${rows[@]}"; done
  done
  of() { [[ -e $out/$1 ]] && echo "$(median $(<"$out/$1")) $2" || echo '-'; }
  printf '| %s | 1 | %s | %s | %s | %s |\n' "$items" "$(of "full_$items" ms)" "$(of "sampled_$items" ms)" \
    "$(of "rows_${items}_1" ms)" "$(of "rows_${items}_1.memory" GB)"
  printf '| %s | 2 | - | - | %s | %s |\n' "$items" "$(of "rows_${items}_2" ms)" "$(of "rows_${items}_2.memory" GB)"
done
