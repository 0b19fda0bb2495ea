#!/usr/bin/env bash
# Installs convoy into a folder, builds the examples and the README's program against it with find_package, and
# runs them on one device, with DataParallel and with DistributedDataParallel.
set -euo pipefail
CMAKE=$1 BUILD=$2 SOURCE=$3
WORK=$BUILD/install-test
rm -rf "$WORK"
"$CMAKE" --install "$BUILD" --prefix "$WORK/convoy" >/dev/null
if [[ -e $WORK/convoy/include/convoy/launch/supervise/agent.h ]]; then
  printf "headers are installed that convoy.h does not reach\n"
  exit 1
fi
# The README's program, as it stands there.
mkdir -p "$WORK/sources/readme"
awk '/^```cpp$/ { take = 1; next } /^```/ { take = 0 } take' "$SOURCE/README.md" >"$WORK/sources/readme/main.cpp"
awk '/^```cmake$/ { take = 1; next } /^```/ { take = 0 } take' "$SOURCE/README.md" >"$WORK/sources/readme/CMakeLists.txt"
cp -r "$SOURCE"/examples/{custom_model,own_loop,own_family,own_task,recommend,train_and_serve} "$WORK/sources"
awk '/^```c\+\+$/ { take = 1; next } /^```/ { take = 0 } take' "$SOURCE/README.md" | diff - "$SOURCE/examples/train_and_serve/main.cpp"
# What the pages name beside convoy.h.
mkdir -p "$WORK/sources/headers"
sed 's/custom_model/headers/' "$SOURCE/examples/custom_model/CMakeLists.txt" >"$WORK/sources/headers/CMakeLists.txt"
{
  grep -ohE '^#include <convoy/[a-z0-9_/]+\.h>' "$SOURCE"/docs/*.md | sort -u
  printf '%s\n' '#include <convoy/parallel/pipeline/pipeline.h>' \
    'int main() { return convoy::parallel::pipeline_schedules().empty() || &convoy::estimate == nullptr; }'
} >"$WORK/sources/headers/main.cpp"
# What can be added outside of the tree, as CONTRIBUTING.md says, is added by one of these programs.
cp -r "$SOURCE/tests/install/own_parts" "$WORK/sources"
for function in $(grep -ohE '`add_[a-z_]+`' "$SOURCE/CONTRIBUTING.md" | tr -d '`' | sort -u); do
  grep -rqE "\b$function\(" "$WORK/sources" || { printf 'nothing here calls %s\n' "$function"; exit 1; }
done
for example in readme custom_model own_loop own_family own_task own_parts recommend train_and_serve headers; do
  "$CMAKE" -S "$WORK/sources/$example" -B "$WORK/$example" -G Ninja \
    -DCMAKE_PREFIX_PATH="$WORK/convoy" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror=unused-parameter" \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" >"$WORK/$example.log"
  "$CMAKE" --build "$WORK/$example" >>"$WORK/$example.log" || { cat "$WORK/$example.log"; exit 1; }
done
convoy=$WORK/convoy/bin/convoy
"$convoy" --version
"$WORK/headers/headers"

expect() { # WHAT TEXT OUTPUT
  if [[ $3 != *"$2"* ]]; then
    printf '%s: expected "%s" in:\n%s\n' "$1" "$2" "$3"
    exit 1
  fi
  printf 'ok: %s\n' "$1"
}
close() { # WHAT VALUE VALUE TOLERANCE
  awk -v a="$2" -v b="$3" -v t="$4" 'BEGIN { d = a - b; exit !(d < t * a && -d < t * a && a > 0) }' ||
    { printf '%s: %s and %s differ by more than %s\n' "$1" "$2" "$3" "$4"; exit 1; }
  printf 'ok: %s (%s, %s)\n' "$1" "$2" "$3"
}
last_loss() { sed -n 's/.*loss \([0-9.]*\).*/\1/p' <<<"$1" | tail -n 1; }

# Trainer: the same module and data, three strategies.
model=$WORK/custom_model/custom_model
single=$("$model")
expect "Trainer, one device" "strategy       single" "$single"
dp=$("$model" --parallel.strategy dp --parallel.replicas 2 --per_device_train_batch_size 32)
expect "Trainer, DataParallel" "strategy       dp" "$dp"
ddp=$("$convoy" launch -n 2 -- "$model" --per_device_train_batch_size 32)
expect "Trainer, DistributedDataParallel" "strategy       ddp" "$ddp"
for outcome in "$single" "$dp" "$ddp"; do
  awk -v a="$(last_loss "$outcome")" 'BEGIN { exit !(a > 0 && a < 0.3) }' ||
    { printf 'the model did not learn:\n%s\n' "$outcome"; exit 1; }
done
expect "an unknown option" "learning_rate" "$("$model" --learning_rat 1 2>&1 || true)"

# Own loop: the wrappers give one device's numbers.
loop=$WORK/own_loop/own_loop
single=$(last_loss "$("$loop" single)")
close "own loop, DataParallel" "$single" "$(last_loss "$("$loop" dp)")" 1e-3
close "own loop, DistributedDataParallel by spawn" "$single" "$(last_loss "$("$loop" ddp)")" 1e-3
close "own loop, DistributedDataParallel by the launcher" "$single" \
  "$(last_loss "$("$convoy" launch -n 2 -- "$loop" ddp)")" 1e-3

# A trained model that recommends in a process of one's own.
(cd "$WORK" && "$convoy" data synthetic --output syn --items 30 --rows 60 >/dev/null &&
  "$convoy" train --data.path syn --d_model 8 --n_layer 1 --n_head 2 --max_steps 2 --output_dir sessions --quiet)
expect "recommendations" "unknown: nobody" "$("$WORK/recommend/recommend" "$WORK/sessions" item-3 nobody)"

# Trained and answering in one process.
served=$(cd "$WORK" && "$convoy" data synthetic --output shop --with-features --items 200 --rows 1000 >/dev/null &&
  OMP_NUM_THREADS=1 "$WORK/train_and_serve/train_and_serve" 2>/dev/null)
expect "a model that is served where it was trained" "NDCG@10 0." "$served"
expect "twice as good as popularity" "yes" "$(awk '/^NDCG@10/ { print ($2 + 0 > 2 * $6 ? "yes" : $0) }' <<<"$served")"
expect "its answers" "item-" "$served"

# The README's program, on one device and on two.
expect "the README's program" "steps          1,536" "$("$WORK/readme/circle" --logging_steps 500)"
expect "the README's program on two ranks" "strategy       ddp" \
  "$("$convoy" launch -n 2 -- "$WORK/readme/circle" --max_steps 20)"

expect "OpenMP's short spins in a program that links convoy::tuning" "GOMP_SPINCOUNT = '1000'" \
  "$(env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose "$WORK/readme/circle" --help 2>&1)"
expect "its own word for them" "GOMP_SPINCOUNT = '77'" \
  "$(GOMP_SPINCOUNT=77 OMP_DISPLAY_ENV=verbose "$WORK/readme/circle" --help 2>&1)"
if ldd "$convoy" | grep -q jemalloc; then # convoy::tuning works where it is linked
  expect "jemalloc in a program that links convoy::tuning" "binding file /" "$(LD_BIND_NOW=1 LD_DEBUG=bindings \
    "$WORK/readme/circle" --help 2>&1 | grep 'libjemalloc.*readme/circle.*malloc_conf')"
fi
expect "MKL's kernels in such a program" "libtorch_cpu" "$(LD_BIND_NOW=1 LD_DEBUG=bindings \
  "$WORK/readme/circle" --help 2>&1 | grep 'libtorch_cpu.*readme/circle.*mkl_serv_intel_cpu_true')"

# A family of one's own in the whole program: trained, saved, evaluated, on two ranks, and from its own weights.
family=$WORK/own_family/own_family
cd "$WORK"
mkdir -p words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' w{0..19} >words/vocab.txt
awk 'BEGIN { for (line = 0; line < 400; ++line) { s = ""; for (i = 0; i < 8; ++i) s = s "w" (line * 7 + i * 3) % 20 " "; print s } }' >text.txt
tiny=(--train_file text.txt --tokenizer words --block_size 16 --learning_rate 1e-2 --threads 1 --width 16)
"$family" train --family pairs "${tiny[@]}" --max_steps 120 --output_dir one >one.log
expect "a family's config" '"model_type": "pairs"' "$(cat one/config.json)"
metric() { sed -n "s/.*\"$1\": \([0-9.e-]*\).*/\1/p" "$2"; }
awk -v a="$(metric eval_accuracy one/eval_results.json)" 'BEGIN { exit !(a > 0.6) }' ||
  { printf 'the family did not learn:\n'; cat one.log; exit 1; }
"$family" eval one --json >again.json
close "a family that was read again" "$(metric eval_loss one/eval_results.json)" "$(metric eval_loss again.json)" 1e-6
"$family" train --family pairs "${tiny[@]}" --max_steps 6 --gradient_accumulation_steps 2 --output_dir halves >halves.log
"$family" train --family pairs "${tiny[@]}" --max_steps 6 --nproc 2 --output_dir ranks >ranks.log
cmp halves/model.safetensors ranks/model.safetensors || exit 1
printf 'ok: the same bits on two ranks\n'
# Verified by the same command as a family of the program, and a wrong gradient is found in it.
# Without a fault it ends with 0 and names no broken promise; with one it ends with 1 and does.
: >verify.toml
holds() {  # what, what the table has, command...
  local what=$1 row=$2
  shift 2
  "$@" >verified.log 2>&1 || { printf '%s: exit code %s\n' "$what" $?; cat verified.log; exit 1; }
  ! grep -q BROKEN verified.log || { printf '%s: a promise is broken\n' "$what"; cat verified.log; exit 1; }
  expect "$what" "$row" "$(cat verified.log)"
}
is_found() {  # what, command...
  local what=$1 code=0
  shift
  CONVOY_FAULT=double@1:backward:1 "$@" >verified.log 2>&1 || code=$?
  [ $code = 1 ] || { printf '%s: exit code %s, expected 1\n' "$what" $code; cat verified.log; exit 1; }
  expect "$what" "BROKEN" "$(cat verified.log)"
}
of_family=("$family" verify verify.toml --family pairs "${tiny[@]}" --steps 2 --nproc 2)
holds "convoy verify of a family of one's own" "2 data, zero 3" "${of_family[@]}" --all-layouts
expect "its pipeline" "2 pipeline, zero_bubble" "$(cat verified.log)"
holds "its own layout" "2 data" "${of_family[@]}"
is_found "what it finds in it" "${of_family[@]}"
"$family" train --family pairs --start one "${tiny[@]:0:6}" --max_steps 1 --output_dir on >on.log
expect "a key that the family does not have" "unknown option --n_embd" "$("$family" train --family pairs --n_embd 4 2>&1 || true)"
expect "the program's own families" ", pairs" "$("$family" train --family x 2>&1 || true)"

# An engine, an optimizer and a pipeline schedule of one's own.
parts=$("$WORK/own_parts/own_parts" train "${tiny[@]:0:6}" --family gpt2 --n_embd 16 --n_layer 2 --n_head 2 --n_positions 16 \
  --threads 1 --max_steps 2 --nproc 2 --backend plain --optim momentum --pipeline_parallel_size 2 --pipeline_schedule one_by_one \
  --gradient_accumulation_steps 2 --output_dir parts 2>&1)
expect "parts of one's own" "step 2/2" "$parts"
expect "their help" "momentum (SGD with" "$("$WORK/own_parts/own_parts" train --help all)"
expect "the engine among the backends" "plain" "$("$WORK/own_parts/own_parts" train --help all | grep -A3 -e --backend)"

# A task of one's own: trained, saved, and evaluated as it was trained, by the same commands.
task=$WORK/own_task/own_task
small=(--family circle --width 16 --threads 1 --per_device_train_batch_size 64 --learning_rate 3e-2 --max_steps 300)
"$task" train "${small[@]}" --output_dir circle >circle.log
awk -v a="$(metric eval_accuracy circle/eval_results.json)" 'BEGIN { exit !(a > 0.9) }' ||
  { printf 'the task did not learn:\n'; cat circle.log; exit 1; }
"$task" eval circle --json >circle.json
close "a task that was read again" "$(metric eval_loss circle/eval_results.json)" "$(metric eval_loss circle.json)" 1e-6
of_task=("$task" verify verify.toml "${small[@]}" --steps 2 --nproc 2)
holds "convoy verify of a module of one's own" "2 data, zero 1" "${of_task[@]}" --all-layouts
holds "its own layout" "2 data" "${of_task[@]}"
holds "the line of docs/verify.md" "2 data, zero 1" "$task" verify verify.toml --family circle --nproc 2 --zero 1
is_found "what it finds in it" "${of_task[@]}"
"$task" train "${small[@]}" --max_steps 6 --nproc 2 --output_dir circle_ranks >circle_ranks.log
expect "the task's own options" "--num_points" "$("$task" train --family circle --help all)"
expect "an option that the task does not have" "unknown option --n_embd" "$("$task" train --family circle --n_embd 4 2>&1 || true)"
expect "a command of one's own" 3 "$("$task" points 3 | wc -l)"
expect "the help of a command of one's own" "Print points of the plane" "$("$task" --help)"
expect "the program's own tasks" ", circle" "$("$task" train --family x 2>&1 || true)"
