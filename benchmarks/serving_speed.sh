#!/usr/bin/env bash
# Requests to `convoy predict --requests` on one thread: the median time of one, of one with 100 candidates, with 10 excluded items and
# without a known item, and requests a second where all are in the pipe. Of this build, or of several side by side.
#   benchmarks/serving_speed.sh [ITEMS] [CONVOY...]     ITEMS 200000
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ITEMS=${1:-200000}
shift || true
source benchmarks/common.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

$convoy data synthetic --output "$out/data" --items "$ITEMS" --rows 500 --min-length 20 >/dev/null
$convoy train --data.path "$out/data" --d_model 64 --n_layer 2 --n_head 2 --sampled_softmax true --max_steps 1 --save_strategy no \
  --eval_strategy no --output_dir "$out/run" --quiet >/dev/null 2>&1
rm -f "$out/run/unseen_items.json" # as if training had seen all of them
programs=("$@")
((${#programs[@]})) || programs=("$convoy")
python3 benchmarks/serving_speed.py "$out/run" "${programs[@]}"
