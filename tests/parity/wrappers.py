#!/usr/bin/env python3
"""Takes language models inside of models that read images from transformers through convoy and back.

    PYTHON tests/parity/wrappers.py build/bin/convoy [wrapper ...]

Writes random wrappers with transformers, by the names of the hub's files and by those of the class; has convoy
train their text parts, whole and with adapters, save them in shards and merge; loads the results in transformers
and PEFT. Losses agree within 1e-5, other parts are equal byte for byte. Needs torch, transformers, peft and safetensors.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText

from make_decoder_fixtures import SMALL
from make_wrapper_fixtures import WRAPPERS, config_of
from training import moved

BLOCK = 16
TRAIN = (f"--data.train text.txt --block_size {BLOCK} --learning_rate 1e-2 --threads 1 --logging_steps 1 "
         "--lr_scheduler_type constant ")


def run(program, folder, words):
    done = subprocess.run([program, *words.split()], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"convoy {words}\n{done.stdout}{done.stderr}")
    return done.stdout


def tensors_of(folder):
    """Of all files, as bytes."""
    out = {}
    for file in sorted(pathlib.Path(folder).glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            out.update({name: opened.get_tensor(name) for name in opened.keys()})
    return out


def others_of(folder):
    parts = ("vision_tower", "projector", "visual")
    return {n: v for n, v in tensors_of(folder).items() if n.startswith("mtp.") or any(part in n for part in parts)}


def same_tensors(one, other):
    return one.keys() == other.keys() and all(
        v.dtype == other[n].dtype and torch.equal(v.view(torch.uint8), other[n].view(torch.uint8))
        for n, v in one.items())


def loss_of(model, ids):
    """Mean over the blocks of BLOCK tokens, as convoy eval has it."""
    blocks = torch.tensor(ids[:len(ids) // BLOCK * BLOCK]).view(-1, BLOCK)
    with torch.no_grad():
        return model(input_ids=blocks, labels=blocks).loss.item()


def load(folder):
    model, info = AutoModelForImageTextToText.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value}
    assert not wrong, wrong
    return model.eval()


def check(program, name, new_names):
    torch.manual_seed(0)
    kind, _, keys, _ = WRAPPERS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(30)]
        text = {**SMALL, **keys, "vocab_size": len(words) + 2, "max_position_embeddings": 64}
        model = kind(config_of(name, **text)).bfloat16()
        moved(model)
        model.save_pretrained(folder / "base")
        if new_names:  # as the class has them
            save_file({n: v.contiguous() for n, v in model.named_parameters()},
                      folder / "base/model.safetensors", metadata={"format": "pt"})
        if name == "qwen3_5":  # a part that transformers passes over
            file = folder / "base/model.safetensors"
            save_file({**load_file(file), "mtp.norm.weight": torch.rand(5).bfloat16()}, file, metadata={"format": "pt"})
        (folder / "base/vocab.txt").write_text("\n".join(words) + "\n")
        (folder / "base/tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
        lines = [" ".join(f"w{(line * 7 + i * 3) % 30}" for i in range(12)) for line in range(60)]
        (folder / "text.txt").write_text("\n".join(lines) + "\n")
        ids = [i for line in lines for i in (2, *(words.index(word) for word in line.split()), 3)]

        def agree(what, where, model):
            said = json.loads(run(program, folder, f"eval {where} --data text.txt --block_size {BLOCK} --json"))["eval_loss"]
            theirs = loss_of(model, ids)
            assert abs(said / theirs - 1) < 1e-5, (what, said, theirs)
            return said

        first = agree("base", "base", load(folder / "base"))
        before = load(folder / "base").state_dict()
        run(program, folder, f"train --model_name_or_path base --max_steps 20 --max_shard_size 4KB --output_dir run {TRAIN}")
        assert (folder / "run/model.safetensors.index.json").exists()
        trained = load(folder / "run")
        last = agree("trained", "run", trained)
        assert last < first
        assert same_tensors(others_of(folder / "base"), others_of(folder / "run"))
        assert tensors_of(folder / "base").keys() == tensors_of(folder / "run").keys()
        after = trained.state_dict()
        assert before.keys() == after.keys()
        assert not all(torch.equal(before[n], after[n]) for n in before if "language_model" in n)

        targets = "q_proj,o_proj,down_proj"
        run(program, folder, f"train --model_name_or_path base --lora_r 3 --lora_target_modules {targets} --max_steps 20 "
            f"--output_dir lora {TRAIN}")
        adapted = PeftModel.from_pretrained(load(folder / "base"), folder / "lora").eval()
        theirs = {n for n, v in adapted.named_parameters() if "lora_" in n}
        ours = {n.replace(".weight", ".default.weight") for n in load_file(folder / "lora/adapter_model.safetensors")}
        assert theirs == ours, theirs ^ ours
        learned = agree("adapter", "lora", adapted)
        assert learned < first
        run(program, folder, "checkpoint merge lora --output merged")
        merged = load(folder / "merged")
        assert same_tensors(others_of(folder / "base"), others_of(folder / "merged"))
        probe = torch.tensor(ids[:2 * BLOCK]).view(2, BLOCK)
        with torch.no_grad():
            far = (merged(input_ids=probe).logits - adapted(input_ids=probe).logits).abs().max()
            assert far < 2e-2 * adapted(input_ids=probe).logits.abs().max(), far  # merged weights are bf16
        print(f"{name}, names of {'the class' if new_names else 'the hub'}: loss {first:.4f}, trained {last:.4f}, with "
              f"adapters {learned:.4f}: as in transformers; {len(others_of(folder / 'run'))} other tensors equal", flush=True)


def main(program, *names):
    torch.set_num_threads(1)
    for name in names or WRAPPERS:
        for new_names in (False, True):
            check(str(pathlib.Path(program).resolve()), name, new_names)


main(*sys.argv[1:])
