#!/usr/bin/env bash
# Transformers4Rec's table of bodies and maskings: samples/s of convoy (one process, DataParallel, DistributedDataParallel on two
# ranks) beside that program's Trainer, peak memory, and NDCG@10 of both, mean over the seeds. 2 layers x 64, 4 heads, sessions
# of at most 20, batch 128, dropout 0.3, one thread a rank, loaders included; runs of both alternate. Both have that program's
# settings: initial weights, epsilon 0.03, padding that mlm attends to.
#   benchmarks/t4rec_table.sh PYTHON [DATA...]     PYTHON has transformers4rec (benchmarks/baselines/t4rec_trainer.py)
#   DATA: ml-100k, flights, rees46 (speed alone: convoy data synthetic --like rees46, REES46_ROWS sessions); default all
#   ROWS="gpt2:clm albert:mlm xlnet:plm xlnet:mlm xlnet:mlm:all"  ROUNDS=3 (0 = no speed)  SEEDS="42 43 44" ("" = no quality)  EPOCHS=10
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${1:?usage: benchmarks/t4rec_table.sh PYTHON [DATA...]}
shift
source benchmarks/common.sh
rows=${ROWS:-gpt2:clm albert:mlm xlnet:plm xlnet:mlm xlnet:mlm:all} rounds=${ROUNDS:-3} epochs=${EPOCHS:-10}
seeds=${SEEDS-42 43 44}
none=runs/t4rec_table/none.toml  # all is said by options
mkdir -p runs/t4rec_table && : >"$none"

printf '| data | model | convoy, samples/s | dp | ddp | Transformers4Rec | ratio | memory, MiB | theirs | NDCG@10 | theirs |\n'
printf '|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n'
for data in "${@:-ml-100k flights rees46}"; do for set in $data; do
  if [[ $set == rees46 ]]; then
    folder=data/rees46
    [[ -e $folder/schema.json ]] || $convoy data synthetic --like rees46 --rows "${REES46_ROWS:-20000}" --output "$folder" >/dev/null
  else
    sessions "$set"
    folder=data/$set/sessions
    if [[ $set == ml-100k ]]; then  # whose sessions have items alone
      folder=data/ml-100k/featured
      [[ -e $folder/schema.json ]] ||
        $convoy data sessions data/ml-100k/ml-100k.inter --output "$folder" --features rating,time_delta:log1p >/dev/null
    fi
  fi
  for row in $rows; do
    IFS=: read -r body masking every <<<"$row"
    ours=(--data.path "$folder" --model.body "$body" --masking "$masking" --d_model 64 --n_layer 2 --n_head 4 --dropout 0.3
      --max_length 20 --learning_rate 1e-3 --num_train_epochs "$epochs" --parity transformers4rec)
    [[ $body == gpt2 ]] || ours+=(--layer_norm_epsilon 0.03)  # there GPT-2 is not told of it
    [[ $masking != mlm ]] || ours+=(--attend_padding true)
    theirs=(benchmarks/baselines/t4rec_trainer.py "$folder" --body "$body" --masking "$masking")
    if [[ -n $every ]]; then theirs+=(--features); else ours+=(--data.features item_id-list); fi
    single=() dp=() ddp=() rate=() memory=() their_memory=()
    for ((round = 0; round < rounds; ++round)); do
      json=$($convoy bench step "$none" "${ours[@]}" --per_device_train_batch_size 128 --steps 60 --json)
      single+=("$(field samples_per_second <<<"$json")") memory+=("$(($(field peak_memory_bytes <<<"$json") >> 20))")
      json=$($convoy bench step "$none" "${ours[@]}" --per_device_train_batch_size 64 --strategy dp --replicas 2 --steps 60 --json)
      dp+=("$(field samples_per_second <<<"$json")")
      json=$($convoy bench step "$none" "${ours[@]}" --per_device_train_batch_size 64 --nproc 2 --steps 60 --json)
      ddp+=("$(field samples_per_second <<<"$json")")
      read -r a b < <("$PYTHON" "${theirs[@]}" --epochs 3 2>/dev/null | tail -n 1)
      rate+=("$a") their_memory+=("$b")
    done
    quality=() their_quality=()
    [[ $set == rees46 ]] || for seed in $seeds; do
      out=runs/t4rec_table/$set-${row//:/-}-$seed
      $convoy train "${ours[@]}" --per_device_train_batch_size 128 --seed "$seed" --output_dir "$out" --overwrite_output_dir \
        --save_strategy no --strategy single --quiet
      quality+=("$(decimal eval_ndcg_at_10 <"$out/eval_results.json")")
      their_quality+=("$("$PYTHON" "${theirs[@]}" --epochs "$epochs" --seed "$seed" --evaluate 2>/dev/null | tail -n 1 | cut -d' ' -f3)")
    done
    speed='- | - | - | - | - | - | -'
    if ((rounds)); then
      a=$(median "${single[@]}") b=$(median "${rate[@]}")
      speed="$a | $(median "${dp[@]}") | $(median "${ddp[@]}") | $b | $(ratio "$a" "$b") | $(median "${memory[@]}") | $(median "${their_memory[@]}")"
    fi
    printf '| %s | %s | %s | %s | %s |\n' "$set" "${row//:/ }" "$speed" "$(mean_of_each ${quality[@]+"${quality[@]}"})" \
      "$(mean_of_each ${their_quality[@]+"${their_quality[@]}"})"
  done
done; done
