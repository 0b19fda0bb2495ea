#!/usr/bin/env bash
# What `convoy plan` predicts beside what trainings take, of models and splits that a seed draws:
#   ./dev bench plan_accuracy --seed 7 --models 4
set -euo pipefail
export CONVOY=${CONVOY:-build/bin/convoy}
exec python3 "$(dirname "$0")/plan_accuracy.py" "$@"
