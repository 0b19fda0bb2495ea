#!/usr/bin/env bash
# parity.sh PYTHON [MODEL...] : language models from Hugging Face to convoy and back (124M GPT-2 by
# default; ten minutes), and a BERT's states of 1,000 sentences. PYTHON has torch and transformers.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?usage: benchmarks/parity.sh PYTHON [MODEL...]}
shift
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
./dev build
./dev data reviews
"$python" tests/parity/hidden_states.py build/tests/test_parity
"$python" tests/parity/there_and_back.py build/tests/test_parity "${@:-gpt2-124m}"
