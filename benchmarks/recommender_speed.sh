#!/usr/bin/env bash
# The median time of a request to a Recommender of 500,000 items, 64 wide, on one thread, beside that of one pass over its table
# (a matrix times a vector); that of one with 100 candidates, and requests a second in batches.
#   benchmarks/recommender_speed.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export OMP_NUM_THREADS=1
build/tests/test_tasks --gtest_also_run_disabled_tests --gtest_filter='*TakesLittleMoreThanAPassOverTheTable' | grep -E 'p50|FAILED|PASSED'
