#!/usr/bin/env python3
"""Compares each family of language models with Hugging Face's by `convoy verify --against transformers`.

    PYTHON tests/parity/verify_families.py build/bin/convoy [FAMILY ...]

PYTHON needs torch, transformers and safetensors. The small models are those of scripts/conformance.py, in fp32 and bf16;
"FAMILY packed" trains on several conversations a row.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import conformance  # noqa: E402


CLASSIFIER = "bert classifier"
MODELS = {family: words for family, words in conformance.FAMILIES.items() if not family.startswith("session ")}
MODELS[CLASSIFIER] = ("--task classification --model_type bert --data.train labelled.csv --data.tokenizer words "
                      "--hidden_size 16 --intermediate_size 32 --num_hidden_layers 2 --num_attention_heads 4 "
                      "--max_position_embeddings 32 --max_length 16 --learning_rate 1e-2 --per_device_train_batch_size 4")
PACKED = " packed"
CHAT = ("--task chat --packing true --data.train chat.jsonl --data.tokenizer chat --max_length 60 --learning_rate 1e-2 "
        "--per_device_train_batch_size 2 --validation_split_percentage 0 ")
LONGER = {"n_positions 32": "n_positions 64", "max_position_embeddings 32": "max_position_embeddings 64"}
for family, words in conformance.FAMILIES.items():
    if family == "gpt2" or family in conformance.DECODERS:
        words = words.replace(conformance.TEXT, CHAT)
        for short, longer in LONGER.items():
            words = words.replace(short, longer)
        MODELS[family + PACKED] = words


def make_chat(folder):
    """Conversations of several lengths, and a tokenizer with a chat template."""
    fixture = json.loads((pathlib.Path(__file__).parents[1] / "chat/masks.json").read_text())
    (folder / "chat").mkdir()
    (folder / "chat/tokenizer.json").write_text(json.dumps(fixture["tokenizer"]))
    (folder / "chat/tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}))
    (folder / "chat/chat_template.jinja").write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
    conversations = ([{"role": "user", "content": "Hi" + " Hi" * (line * 7 % 5)},
                      {"role": "assistant", "content": "Hello again" + " Hello" * (line % 3)}] for line in range(90))
    (folder / "chat.jsonl").write_text("".join(json.dumps({"messages": each}) + "\n" for each in conversations))


def main(program, *families):
    program = str(pathlib.Path(program).resolve())
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        conformance.make_data(program, folder)
        make_chat(folder)
        (folder / "run.toml").write_text("")
        texts = (f"{' '.join(f'w{(line + i) % 20}' for i in range(3 + line % 9))},{'even' if line % 2 == 0 else 'odd'}"
                 for line in range(60))
        (folder / "labelled.csv").write_text("\n".join(["text,label", *texts]) + "\n")
        for family in families or MODELS:
            for precision, option in conformance.PRECISIONS.items():
                words = f"verify run.toml --against transformers --python {sys.executable} --threads 1 "
                words += "--gradient_accumulation_steps 2 --weight_decay 0.1 --warmup_steps 1 "
                words += MODELS[family] + option
                done = subprocess.run([program, *words.split()], cwd=folder, capture_output=True, text=True)
                rows = [line.strip() for line in done.stdout.splitlines() if "one device, against" in line]
                print(f"{family}, {precision}: {' / '.join(rows) or done.stderr.strip()}", flush=True)
                if done.returncode != 0:
                    failed.append(f"{family}, {precision}")
    sys.exit(f"these differ: {', '.join(failed)}" if failed else 0)


main(*sys.argv[1:])
