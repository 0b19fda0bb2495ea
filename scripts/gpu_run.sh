#!/usr/bin/env bash
# ./dev gpu run: what one GPU allows, in ten minutes: doctor, the tests of label gpu, trainings beside the CPU, bench step
# beside PyTorch. Each result is in the folder as soon as it is there; what fails does not stop the rest.
# CONVOY is the program, PYTHON one that has torch; GPU_PARTS="tests trainings speed models compiled traces" chooses,
# GPU_JOBS runs of the first two share the GPU.
set -uo pipefail
OUT=${1:?folder} BUILD=${2:?build folder}
CONVOY=$(realpath "${CONVOY:-$BUILD/bin/convoy}")
# A simulated GPU has no speed: small models, no PyTorch beside them, and no tests of label gpu, which ctest runs
# elsewhere.
SMALL=${CONVOY_FAKE_GPU:+1}
PARTS=" ${GPU_PARTS:-tests trainings speed compiled} "
JOBS=${GPU_JOBS:-$(($(nproc) < 16 ? ($(nproc) + 1) / 2 : 8))}
END=$((SECONDS + ${GPU_SECONDS:-570}))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mkdir -p "$OUT"
OUT=$(realpath "$OUT")
: >"$OUT/summary.txt"

tell() { printf "$@" | tee -a "$OUT/summary.txt"; }
part() { [[ $PARTS == *" $1 "* ]]; }

# Runs a command, its output into the folder, a line into the summary.
run() { # NAME COMMAND...
  local name=$1 start=$SECONDS left=$((END - SECONDS)) code=0 verdict
  shift
  if ((left < 5)); then
    verdict="left out: no time"
  else
    timeout "$left" "$@" >"$OUT/$name.txt" 2>&1 || code=$?
    case $code in
      0) verdict="ok" ;;
      124) verdict="cut short: no time" ;;
      *) verdict="FAILED with $code: $(grep -m 1 -i 'error\|failed' "$OUT/$name.txt" | cut -c 1-150)" ;;
    esac
  fi
  tell '%-28s %4d s  %s\n' "$name" $((SECONDS - start)) "$verdict"
}

# The same beside others, for what is not timed.
start() { # NAME COMMAND...
  while (($(jobs -rp | wc -l) >= JOBS)); do wait -n; done
  run "$@" &
}

WORK=$OUT/work
rm -rf "$WORK"
mkdir -p "$WORK"
run data "$CONVOY" data synthetic --output "$WORK/sessions" --rows 2000 --items 300
cat >"$WORK/session.toml" <<END_TOML
[model]
family = "session"
d_model = 64
n_layer = 2
n_head = 4
dropout = 0.0
[data]
path = "$WORK/sessions"
features = ["item_id-list"]
max_length = 12
[train]
per_device_train_batch_size = 32
learning_rate = 1e-3
logging_steps = 1
max_steps = 8
seed = 1
save_strategy = "steps"
save_steps = 4
END_TOML

train() { # NAME OPTIONS...
  local name=$1
  shift
  start "$name" "$CONVOY" train "$WORK/session.toml" --output_dir "$WORK/$name" --overwrite_output_dir "$@"
}
train_text() { # NAME FAMILY OPTIONS...
  local name=$1 family=$2
  shift 2
  start "$name" env -C "$WORK/texts" "$CONVOY" train "$family.toml" --output_dir "$WORK/$name" --overwrite_output_dir "$@"
}

# The last losses of two runs may differ by this much.
close() { # NAME OTHER DIFFERENCE
  local a b verdict=FAILED
  a=$(sed -n 's/.*"train_final_loss": \([0-9.]*\).*/\1/p' "$WORK/$1/train_results.json" 2>/dev/null)
  b=$(sed -n 's/.*"train_final_loss": \([0-9.]*\).*/\1/p' "$WORK/$2/train_results.json" 2>/dev/null)
  if awk -v a="${a:-0}" -v b="${b:-0}" -v t="$3" 'BEGIN { d = a - b; exit !(a > 0 && d < t && -d < t) }'; then
    verdict=ok
  fi
  tell '%-28s         %s: losses %s and %s\n' "$1 = $2" "$verdict" "${a:-none}" "${b:-none}"
}

SCRIPTS=$(realpath "$(dirname "$0")")
python3 "$SCRIPTS/../tests/fake_gpu/runs.py" "$WORK/texts" $([[ $SMALL ]] || printf wide) || tell 'FAILED: the texts to train on\n'
ln -s "$WORK/sessions" "$WORK/texts/sessions"
# Sessions whose events have times, for hstu.
awk 'BEGIN {
  srand(1)
  print "user_id,item_id,timestamp"
  for (u = 1; u <= 300; ++u) {
    for (i = 0; i < 12; ++i) print u "," int(rand() * rand() * 200) "," 1600000000 + u * 1000 + i * int(60 + rand() * 4000)
  }
}' >"$WORK/events.csv"
run data_with_times "$CONVOY" data sessions "$WORK/events.csv" --keep-time --output "$WORK/texts/timed"
sed -e 's/^path = .*/path = "timed"/' \
  -e 's/^family = .*/&\nbody = "hstu"/' "$WORK/texts/session.toml" >"$WORK/texts/hstu.toml"
FAMILIES=(gpt2 llama llama_untied bert classify t5 session albert electra xlnet sasrec ligr hstu)
no_dropout=(--model.resid_pdrop 0 --model.embd_pdrop 0 --model.attn_pdrop 0)
run doctor "$CONVOY" doctor

if part tests && [[ ! $SMALL ]]; then
  for shard in 0 1 2; do
    start "test_gpu_$shard" env GTEST_TOTAL_SHARDS=3 GTEST_SHARD_INDEX=$shard "$BUILD/tests/test_gpu"
  done
fi

if part trainings; then
  train cpu --device cpu
  train single --device cuda --strategy single
  train deterministic --device cuda --strategy single --deterministic
  train recompute --device cuda --strategy single --gradient_checkpointing
  train bf16 --device cuda --strategy single --bf16
  train fp16 --device cuda --strategy single --fp16
  train tf32 --device cuda --strategy single --tf32
  train offload --device cuda --strategy single --offload_optimizer cpu
  train replicas --device cuda --strategy dp --replicas 2 --per_device_train_batch_size 16
  train ddp --device cuda --nproc 2 --per_device_train_batch_size 16
  train zero3 --device cuda --nproc 2 --zero 3 --per_device_train_batch_size 16
  train pipeline --device cuda --nproc 2 --pipeline_parallel_size 2 --per_device_train_batch_size 16 --gradient_accumulation_steps 2
  train_text context_cpu gpt2 --device cpu "${no_dropout[@]}"
  train_text context gpt2 --device cuda --nproc 2 --context_parallel_size 2 "${no_dropout[@]}"
  # Each family, with dropout, whose masks have the same bits on all devices.
  for family in "${FAMILIES[@]}"; do
    train_text "cpu_$family" "$family" --device cpu
    train_text "$family" "$family" --device cuda --strategy single
    train_text "bf16_$family" "$family" --device cuda --strategy single --bf16
  done
  for name in masking sampled_softmax; do
    options=(--body electra --masking rtd)
    if [[ $name == sampled_softmax ]]; then options=(--sampled_softmax --max_n_samples 64 --row_tables); fi
    train_text "cpu_session_$name" session --device cpu "${options[@]}"
    train_text "session_$name" session --device cuda --strategy single "${options[@]}"
  done
  # The other layouts of one GPU, whose ranks or threads share it.
  train zero1 --device cuda --nproc 2 --zero 1 --per_device_train_batch_size 16
  train zero2 --device cuda --nproc 2 --zero 2 --per_device_train_batch_size 16
  train zero3_prefetch --device cuda --nproc 2 --zero 3 --prefetch 3 --per_device_train_batch_size 16
  train hybrid --device cuda --nproc 4 --zero 2 --shard_ranks 2 --per_device_train_batch_size 8
  train offload_all --device cuda --nproc 2 --zero 3 --per_device_train_batch_size 16 --offload_optimizer cpu \
    --offload_parameters cpu --offload_gradients cpu
  train offload_disk --device cuda --strategy single --offload_optimizer disk --offload_dir "$WORK"
  train tensor --device cuda --nproc 2 --tensor_parallel_size 2
  train sequence --device cuda --nproc 2 --tensor_parallel_size 2 --sequence_parallel
  train stages_as_threads --device cuda --pipeline_parallel_size 2 --per_device_train_batch_size 16 --gradient_accumulation_steps 2
  for schedule in naive gpipe interleaved zero_bubble auto; do
    train "pipeline_$schedule" --device cuda --nproc 2 --pipeline_parallel_size 2 --pipeline_schedule $schedule \
      --per_device_train_batch_size 16 --gradient_accumulation_steps 2
  done
  train pipeline_v --device cuda --nproc 2 --pipeline_parallel_size 2 --pipeline_schedule interleaved --pipeline_placement v \
    --per_device_train_batch_size 16 --gradient_accumulation_steps 2
  wait
  train resumed_on_cpu --device cpu --resume_from_checkpoint "$WORK/single/checkpoint-4"
  start eval "$CONVOY" eval "$WORK/single" --device cuda
  start predict "$CONVOY" predict "$WORK/single" --rows 5 --device cuda
  start generate "$CONVOY" generate "$WORK/gpt2" --device cuda --prompt "w03 w08 w15" --max-new-tokens 8
fi
wait
if part trainings; then
  for name in single deterministic recompute offload replicas ddp zero3 pipeline resumed_on_cpu zero1 zero2 zero3_prefetch \
    hybrid offload_all offload_disk tensor sequence stages_as_threads pipeline_{naive,gpipe,interleaved,zero_bubble,auto,v}; do
    close $name cpu 1e-3
  done
  for name in bf16 fp16 tf32; do close $name cpu 5e-2; done
  close context context_cpu 1e-3
  for family in "${FAMILIES[@]}" session_masking session_sampled_softmax; do close "$family" "cpu_$family" 1e-3; done
  for family in "${FAMILIES[@]}"; do close "bf16_$family" "cpu_$family" 5e-2; done
fi

# Speed: tokens or sessions a second and the most memory, as `convoy bench step` tells them. All cores help at the start.
PEER=
for python in "${PYTHON:-}" "$SCRIPTS"/../.venv/bin/python python3; do
  part speed || part compiled || break # importing torch takes seconds
  if [[ ! $SMALL && $python ]] && "$python" -c 'import torch' 2>/dev/null; then PEER=$python && break; fi
done
peer() { # NAME OPTIONS...
  local name=$1
  shift
  if [[ $PEER ]]; then
    run "$name" "$PEER" "$SCRIPTS/torch_peer.py" "$@"
  elif [[ ! $SMALL ]]; then
    tell '%-28s         left out: no python with torch; PYTHON=... names one\n' "$name"
  fi
}
bench() { # NAME FAMILY OPTIONS...
  local name=$1 family=$2
  shift 2
  run "$name" env -u OMP_NUM_THREADS -C "$WORK/texts" "$CONVOY" bench step "$family.toml" --device cuda --json "$@"
}
# Language models of the sizes that others publish, without dropout, and the same in PyTorch; of a simulated GPU only
# that they run.
if [[ $SMALL ]]; then
  gpt2=(--model.n_layer 2 --steps 2 --warmup 1) llama=(--model.num_hidden_layers 2 --steps 2 --warmup 1)
else
  wide=(--data.train wide.txt --data.tokenizer wide --steps 30 --warmup 5 --bucket_cap_mb 25)
  gpt2=("${wide[@]}" --model.vocab_size 50304 --model.n_layer 12 --model.n_embd 768 --model.n_head 12
    --model.n_positions 1024 --data.block_size 1024 --per_device_train_batch_size 16)
  llama=("${wide[@]}" --model.vocab_size 32000 --model.hidden_size 2048 --model.intermediate_size 5632
    --model.num_hidden_layers 22 --model.num_attention_heads 32 --model.num_key_value_heads 4
    --model.max_position_embeddings 2048 --model.tie_word_embeddings false --data.block_size 2048
    --per_device_train_batch_size 4)
fi
gpt2+=("${no_dropout[@]}")
session=(--data.path "$WORK/many" --model.d_model 128 --model.dropout 0 --data.max_length 51
  --per_device_train_batch_size 512 --steps 30 --warmup 5)
if part speed; then
  bench bench_gpt2_bf16 gpt2 "${gpt2[@]}" --bf16
  peer torch_gpt2_bf16 gpt2
  bench bench_llama_bf16 llama "${llama[@]}" --bf16
  peer torch_llama_bf16 llama
  bench bench_gpt2_fp32 gpt2 "${gpt2[@]}"
  peer torch_gpt2_fp32 gpt2 --fp32
  # Sessions among many items, and few, where launches take longer than what is launched.
  if [[ ! $SMALL ]]; then
    run data_many "$CONVOY" data synthetic --output "$WORK/many" --rows 20000 --items 50000 --min-length 51 --max-length 51
    bench bench_session_bf16 session "${session[@]}" --bf16
    peer torch_session_bf16 session
  fi
  run bench_small_session "$CONVOY" bench step "$WORK/session.toml" --device cuda
  run collectives "$CONVOY" bench collectives --device cuda --engines shm,gloo,threads --ranks 2 --sizes 1K,16M --seconds 0.1
fi
# For `convoy estimate` and `convoy plan`, whose predictions are read beside these.
if part models; then
  bench model_gpt2_tf32 gpt2 "${gpt2[@]}" --tf32
  bench model_gpt2_350m gpt2 "${gpt2[@]}" --bf16 --model.n_layer 24 --model.n_embd 1024 --model.n_head 16 \
    --per_device_train_batch_size 8
  bench model_llama_checkpointed llama "${llama[@]}" --bf16 --gradient_checkpointing
  bench model_llama_accumulating llama "${llama[@]}" --bf16 --per_device_train_batch_size 2 --gradient_accumulation_steps 4
  bench model_bert bert --data.train wide.txt --steps 20 --warmup 5 --bf16 --model.hidden_size 768 \
    --model.intermediate_size 3072 --model.num_hidden_layers 12 --model.num_attention_heads 12 \
    --model.max_position_embeddings 512 --model.vocab_size 30522 --data.block_size 512 --per_device_train_batch_size 32 \
    --model.hidden_dropout_prob 0 --model.attention_probs_dropout_prob 0
  bench model_gpt2_dropout gpt2 "${gpt2[@]}" --bf16 --model.resid_pdrop 0.1 --model.embd_pdrop 0.1 --model.attn_pdrop 0.1
fi
if part compiled; then
  peer torch_gpt2_compiled gpt2 --compile
  peer torch_llama_compiled llama --compile
  peer torch_gpt2_fp32_compiled gpt2 --fp32 --compile
  peer torch_session_compiled session --compile
  for family in gpt2 llama session; do peer "torch_${family}_autotuned" "$family" --compile max-autotune; done
  peer hf_gpt2 gpt2 --hugging_face
  peer hf_llama llama --hugging_face
fi
# Where the time goes, for ui.perfetto.dev.
if part traces; then
  bench trace_gpt2 gpt2 "${gpt2[@]}" --bf16 --trace "$OUT/gpt2.json" --trace_steps 1
  run trace_session "$CONVOY" bench step "$WORK/session.toml" --device cuda --trace "$OUT/session.json" --trace_steps 3
  bench trace_llama llama "${llama[@]}" --bf16 --trace "$OUT/llama.json" --trace_steps 1
fi
# Their speeds side by side.
for file in "$OUT"/{bench,torch,hf}_*.txt; do
  [[ -f $file ]] || continue
  sed -n 's/.*"tokens_per_second": \([0-9.]*\).*/\1/p' "$file" | head -n 1 |
    xargs -r printf "%-28s %12.0f tokens/s\n" "$(basename "$file" .txt)"
done | tee -a "$OUT/summary.txt"
rm -rf "$WORK"/*/checkpoint-*
printf 'results: %s\n' "$OUT"
! grep -q FAILED "$OUT/summary.txt"
