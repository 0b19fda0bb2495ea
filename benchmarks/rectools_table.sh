#!/usr/bin/env bash
# SASRec, LiGR and BERT4Rec beside RecTools': samples/s of both, peak memory, and NDCG@10 of the held-out last items among all, mean over the
# seeds. 2 layers x 64, 4 heads, sessions of at most 20, batch 128, dropout 0.3, Adam with that program's betas, a constant
# learning rate of 1e-3, one thread, loaders included; runs of both alternate.
#   benchmarks/rectools_table.sh PYTHON [DATA...]     PYTHON has rectools[torch] and pyarrow; DATA: ml-100k, flights; default both
#   ROWS="sasrec ligr bert"  ROUNDS=3 (0 = no speed)  SEEDS="42 43 44" ("" = no quality)  EPOCHS=10
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/rectools_table.sh PYTHON [DATA...]}
shift
source benchmarks/common.sh
rounds=${ROUNDS:-3} epochs=${EPOCHS:-10} seeds=${SEEDS-42 43 44}
none=runs/rectools_table/none.toml  # all is said by options
mkdir -p runs/rectools_table && : >"$none"

printf '| data | body | convoy, samples/s | RecTools | ratio | memory, MiB | theirs | NDCG@10 | theirs |\n'
printf '|---|---|--:|--:|--:|--:|--:|--:|--:|\n'
for set in "${@:-ml-100k flights}"; do for data in $set; do
  sessions "$data"
  for body in ${ROWS:-sasrec ligr bert}; do
    folder=data/$data/sessions
    ours=(--data.path "$folder" --data.features item_id-list --model.body "$body" --d_model 64 --n_layer 2 --n_head 4
      --dropout 0.3 --max_length 20 --learning_rate 1e-3 --lr_scheduler_type constant --adam_beta2 0.98 --max_grad_norm 0
      --per_device_train_batch_size 128 --num_train_epochs "$epochs")
    theirs=(benchmarks/baselines/rectools_trainer.py "$folder" --body "$body")
    rate=() memory=() their_rate=() their_memory=() quality=() their_quality=()
    for ((round = 0; round < rounds; ++round)); do
      json=$($convoy bench step "$none" "${ours[@]}" --steps 60 --json)
      rate+=("$(field samples_per_second <<<"$json")") memory+=("$(($(field peak_memory_bytes <<<"$json") >> 20))")
      read -r a b < <("$PYTHON" "${theirs[@]}" --epochs 3 2>/dev/null | tail -n 1)
      their_rate+=("$a") their_memory+=("$b")
    done
    for seed in $seeds; do
      out=runs/rectools_table/$data-$body-$seed
      $convoy train "${ours[@]}" --seed "$seed" --output_dir "$out" --overwrite_output_dir --save_strategy no --eval_strategy no \
        --exclude_seen false --strategy single --quiet
      quality+=("$(decimal eval_ndcg_at_10 <"$out/eval_results.json")")
      their_quality+=("$("$PYTHON" "${theirs[@]}" --epochs "$epochs" --seed "$seed" --evaluate 2>/dev/null | tail -n 1 | cut -d' ' -f3)")
    done
    a=- b=- ours_mib=- theirs_mib=- faster=-
    if ((rounds)); then
      a=$(median "${rate[@]}") b=$(median "${their_rate[@]}") faster=$(ratio "$a" "$b")
      ours_mib=$(median "${memory[@]}") theirs_mib=$(median "${their_memory[@]}")
    fi
    printf '| %s | `%s` | %s | %s | %s | %s | %s | %s | %s |\n' "$data" "$body" "$a" "$b" "$faster" "$ours_mib" "$theirs_mib" \
      "$(mean_of_each ${quality[@]+"${quality[@]}"})" "$(mean_of_each ${their_quality[@]+"${their_quality[@]}"})"
  done
done; done
