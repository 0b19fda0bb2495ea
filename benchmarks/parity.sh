#!/usr/bin/env bash
# parity.sh PYTHON [MODEL...] : language models from Hugging Face to convoy and back (124M GPT-2 by
# default; ten minutes), a BERT's states of 1,000 sentences, and greedy text of a trained GPT-2 token by token.
# PYTHON has torch and transformers.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?usage: benchmarks/parity.sh PYTHON [MODEL...]}
shift
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
./dev build
./dev data reviews
./dev data text
[[ -e runs/gpt2_clm/model.safetensors ]] || build/bin/convoy train examples/gpt2_clm/small.toml
"$python" tests/parity/hidden_states.py build/tests/test_parity
"$python" tests/parity/there_and_back.py build/tests/test_parity "${@:-gpt2-124m}"
"$python" tests/parity/generate_parity.py build/bin/convoy
