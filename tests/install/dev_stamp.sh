#!/usr/bin/env bash
# dev_stamp.sh DEV: wheels that are installed after a build make ./dev configure again; what it names is there.
set -euo pipefail
eval "$(sed -n '/^nvidia_wheels()/,/^}/p; /^configure()/,/^}/p
  /^torch_free_components()/p; /^sanitized_targets()/,/^}/p' "$1")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PRESET=release TARGET= SITE=$work/site BUILD=$work/build
mkdir -p "$SITE/nvidia/cu13/lib" "$BUILD"
touch "$BUILD/build.ninja"
runs=0
step() { runs=$((runs + 1)); }

expect() { # NUMBER-OF-RUNS WHEN
  configure
  if ((runs != $1)); then echo "configured $runs times $2; expected $1" >&2 && exit 1; fi
}
expect 1 'at first'
expect 1 'the second time'
mkdir -p "$SITE/nvidia/nccl/include"
touch "$SITE/nvidia/nccl/include/nccl.h"
expect 2 'after NCCL came'
mkdir -p "$SITE/nvidia/cu13/include/crt"
expect 3 'after crt came'
expect 3 'with nothing new'
listed=$("$1" bench)
grep -q 'benchmarks/quality.sh' <<<"$listed" || { echo "./dev bench lists nothing: $listed" && exit 1; }
cd "$(dirname "$1")"
fuzzers=$(sanitized_targets | tr ' ' '\n' | sed -n 's/^fuzz_//p')
[[ $fuzzers ]] || { echo 'no fuzzer is for the sanitizers' && exit 1; }
for fuzzer in $fuzzers; do
  [[ -e tests/fuzz/${fuzzer}_fuzz.cpp ]] || { echo "there is no fuzz_$fuzzer for the sanitizers" && exit 1; }
done
