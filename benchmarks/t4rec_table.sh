#!/usr/bin/env bash
# Transformers4Rec's table of bodies and maskings: samples/s of convoy (one process, DataParallel, DistributedDataParallel on two
# ranks) beside that program's Trainer, peak memory, and NDCG@10 of both, mean over the seeds. 2 layers x 64, 4 heads, sessions
# of at most 20, batch 128, dropout 0.3, one thread a rank, loaders included; runs of both alternate. Both have that program's
# settings: initial weights, epsilon 0.03, padding that mlm attends to.
#   benchmarks/t4rec_table.sh PYTHON [DATA...]     PYTHON has transformers4rec (benchmarks/baselines/t4rec_trainer.py)
#   DATA: ml-100k, flights, rees46 (speed alone: convoy data synthetic --like rees46, REES46_ROWS sessions); default all
#   SETTINGS=ci: each row has the widths, rates and regularisation of that program's ci/test_integration.sh instead
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

# The row's options in common, and what differs by name; as ci/test_integration.sh has them or all alike.
settings() {
  if [[ ${SETTINGS:-} != ci ]]; then
    both=(--learning_rate 1e-3) ours+=(--d_model 64 --n_layer 2 --n_head 4 --dropout 0.3)
    return
  fi
  of_ci() {
    both=(--d_model "$1" --item_embedding_dim "$2" --n_layer "$3" --n_head "$4" --learning_rate "$5" --dropout "$6"
      --input_dropout "$7" --weight_decay "$8" --label_smoothing_factor "$9" "${@:10}")
    ours+=(--tabular_layer_norm true) theirs+=(--tabular_layer_norm)
  }
  case $row in
    gpt2:clm) of_ci 128 448 1 1 8.78e-4 0.2 0.4 1.49e-5 0.9 ;;
    albert:mlm) of_ci 320 320 2 8 4.90e-4 0 0.1 9.57e-5 0.2 --mlm_probability 0.6 --stochastic_swap_noise 0.06 ;;
    xlnet:plm) of_ci 384 384 4 16 3.39e-4 0 0.2 2.18e-5 0.7 --plm_probability 0.5 --plm_max_span_length 3 ;;
    xlnet:mlm) of_ci 192 448 3 16 6.67e-4 0 0.1 3.91e-5 0 --mlm_probability 0.3 --stochastic_swap_noise 0.1 ;;
    xlnet:mlm:all)
      of_ci 448 384 2 8 3.40e-4 0 0.1 3.17e-5 0.6 --mlm_probability 0.3
      ours+=(--soft_embeddings true --soft_embedding_cardinality 5 --soft_embedding_dim 20) theirs+=(--soft_embeddings) ;;
    *) echo "ci/test_integration.sh has no row $row" >&2; exit 2 ;;
  esac
}

printf '| data | model | convoy, samples/s | dp | ddp | Transformers4Rec | ratio | memory, MiB | theirs | NDCG@10 | theirs |\n'
printf '|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n'
for data in "${@:-ml-100k flights rees46}"; do for set in $data; do
  if [[ $set == rees46 ]]; then
    folder=data/rees46-${REES46_ROWS:-20000}
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
    ours=(--data.path "$folder" --model.body "$body" --masking "$masking" --max_length 20 --num_train_epochs "$epochs"
      --parity transformers4rec)
    [[ $body == gpt2 ]] || ours+=(--layer_norm_epsilon 0.03)  # there GPT-2 is not told of it
    [[ $masking != mlm ]] || ours+=(--attend_padding true)
    theirs=(benchmarks/baselines/t4rec_trainer.py "$folder" --body "$body" --masking "$masking")
    if [[ -n $every ]]; then theirs+=(--features); else ours+=(--data.features item_id-list); fi
    settings
    ours+=("${both[@]}") theirs+=("${both[@]}")
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
        --save_strategy no --exclude_seen false --strategy single --quiet
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
