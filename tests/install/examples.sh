#!/usr/bin/env bash
# Installs convoy into a folder, builds both examples against it with find_package, and runs them on
# one device, with DataParallel and with DistributedDataParallel.
set -euo pipefail
CMAKE=$1 BUILD=$2 SOURCE=$3
WORK=$BUILD/install-test
rm -rf "$WORK"
"$CMAKE" --install "$BUILD" --prefix "$WORK/convoy" >/dev/null
for example in custom_model own_loop; do
  "$CMAKE" -S "$SOURCE/examples/$example" -B "$WORK/$example" -G Ninja \
    -DCMAKE_PREFIX_PATH="$WORK/convoy" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache || true)" >"$WORK/$example.log"
  "$CMAKE" --build "$WORK/$example" >>"$WORK/$example.log" || { cat "$WORK/$example.log"; exit 1; }
done
convoy=$WORK/convoy/bin/convoy
"$convoy" --version

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
