#!/usr/bin/env bash
# Quality on real data: the last item of each session, held out, ranked among all items; on MovieLens among those that the person has
# not seen, as convoy data sessions decides (--exclude_seen false: among all). Prints mean and standard deviation over the seeds, and what
# recommending the most popular items reaches.
#   benchmarks/quality.sh [ml-100k|flights]...     other options go to convoy train: benchmarks/quality.sh flights --dropout 0.1
#   SEEDS="42 43 44" by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source benchmarks/common.sh
sets=()
while [[ ${1:-} == ml-100k || ${1:-} == flights ]]; do sets+=("$1") && shift; done
((${#sets[@]})) || sets=(ml-100k flights)
spread() { printf '%s\n' "$@" | awk '{ s += $1; q += $1 * $1 } END { m = s / NR; v = q / NR - m * m; printf "%.4f +- %.4f", m, sqrt(v > 0 ? v : 0) }'; }

printf '| data | seeds | NDCG@10 | Recall@10 | seconds of training |\n|---|--:|--:|--:|--:|\n'
for set in "${sets[@]}"; do
  sessions "$set"
  ndcg=() recall=() seconds=() popular=()
  for seed in ${SEEDS:-42 43 44}; do
    out=runs/quality/$set-$seed
    $convoy train "examples/session_rec/$set.toml" --seed "$seed" --output_dir "$out" --overwrite_output_dir \
      --save_strategy no --eval_strategy no --strategy single --quiet "$@"
    ndcg+=("$(decimal eval_ndcg_at_10 <"$out/eval_results.json")")
    recall+=("$(decimal eval_recall_at_10 <"$out/eval_results.json")")
    popular=("$(decimal eval_popularity_baseline_ndcg_at_10 <"$out/eval_results.json")"
      "$(decimal eval_popularity_baseline_recall_at_10 <"$out/eval_results.json")")
    seconds+=("$(decimal train_steady_seconds <"$out/train_results.json")")
  done
  printf '| %s | %d | %s | %s | %.0f |\n' "$set" "${#ndcg[@]}" "$(spread "${ndcg[@]}")" "$(spread "${recall[@]}")" \
    "$(median "${seconds[@]}")"
  printf '| %s, popularity | | %.4f | %.4f | |\n' "$set" "${popular[@]}"
done
