#!/usr/bin/env bash
# Where CUDA's headers are there in part, CMake says what is missing instead of failing in the compiler.
#   tests/install/plugin_headers.sh CMAKE SOURCE_DIR
set -euo pipefail
CMAKE=$1 SOURCE=$2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$WORK/site/nvidia/nccl/include" "$WORK/site/nvidia/cu13/include/crt"
touch "$WORK/site/nvidia/nccl/include/nccl.h" "$WORK/site/nvidia/cu13/include/cuda_runtime.h" \
  "$WORK/site/nvidia/cu13/include/crt/host_defines.h"
cat >"$WORK/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(headers NONE)
add_subdirectory("$SOURCE/plugins" plugins)
END
text=$("$CMAKE" -S "$WORK" -B "$WORK/build" -DCONVOY_SITE_PACKAGES="$WORK/site" 2>&1 | tr -s ' \n' ' ')
grep -q 'the NCCL plugin is not built: .* lacks crt/host_defines.h or nv/target; try ./dev build --gpu' <<<"$text" ||
  { echo "$text" && exit 1; }
listed=$("$SOURCE/dev" bench)
grep -q 'benchmarks/quality.sh' <<<"$listed" || { echo "./dev bench lists nothing: $listed" && exit 1; }
