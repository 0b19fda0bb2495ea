#!/usr/bin/env python3
"""Writes what tests/tokenizers expects, from what Hugging Face's `tokenizers` and SentencePiece answer.

  make_fixtures.py [NAME...]   scalars.json, small.json, sentencepiece.json, and large.json where
                               data/tokenizers exists

scalars.json: ranges of letters, numbers and white space, and hashes of every normalizer's output
  over all of Unicode, in blocks of 0x4000 scalar values.
small.json: small tokenizers with texts, ids and decoded texts.
sentencepiece.json: small SentencePiece models with texts and ids: with symbols of the user's that
  overlap, as SentencePiece cuts them, and with tokens added by tokenizer_config.json or
  added_tokens.json, as transformers does.
large.json: for the files of scripts/fetch_tokenizers.py hashes of the ids of each text.

Needs tokenizers==0.23.3 and sentencepiece==0.2.3; sentencepiece.json transformers==5.23.0, too. The texts are made by fetch_tokenizers.py.
"""
import base64
import json
import pathlib
import random
import struct
import sys
import tempfile

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent.parent / "data" / "tokenizers"
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
MASK = 2**64 - 1


def hash_of(numbers, value=0xCBF29CE484222325):
    for number in numbers:
        value = (value ^ number) * 0x100000001B3 & MASK
    return value


# --- Every scalar value ------------------------------------------------------------------------

def ranges_of(pattern):
    """Ranges of characters that the class matches, each looked at between a and 1."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = []
    for begin in range(0, len(SCALARS), 4096):
        block = SCALARS[begin:begin + 4096]
        text = "".join(chr(c) for c in block)
        kept = {i for _, (a, b) in split.pre_tokenize_str(text) for i in range(a, b)}
        found += [c for i, c in enumerate(block) if i not in kept]
    ranges = []
    for c in found:
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return ranges


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on})


def scalars():
    steps = {
        "NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(),
        "NFKD": normalizers.NFKD(), "Lowercase": normalizers.Lowercase(),
        "StripAccents": normalizers.StripAccents(),
        "BertNormalizer": bert(clean_text=True, handle_chinese_chars=True, strip_accents=True,
                               lowercase=True),
    }
    hashes = {}
    for name, step in steps.items():
        hashes[name] = []
        for begin in range(0, len(SCALARS), 0x4000):
            # Between marks, which must change places with marks of another class.
            text = "\n".join(f"a{chr(c)}\u0334\u0301{chr(c)}" for c in SCALARS[begin:begin + 0x4000])
            hashes[name].append(f"{hash_of(step.normalize_str(text).encode()):016x}")
    cutters = {"BertPreTokenizer": pre_tokenizers.BertPreTokenizer(), "Whitespace": pre_tokenizers.Whitespace(),
               "Digits": pre_tokenizers.Digits(), "Punctuation": pre_tokenizers.Punctuation()}
    cuts = {}
    for name, cutter in cutters.items():
        cuts[name] = []
        for begin in range(0, len(SCALARS), 0x4000):
            text = "".join(f"a{chr(c)}b" for c in SCALARS[begin:begin + 0x4000])
            ends = [i for _, pair in cutter.pre_tokenize_str(text) for i in pair]
            cuts[name].append(f"{hash_of(ends):016x}")
    return {"letters": ranges_of(r"\p{L}"), "numbers": ranges_of(r"\p{N}"),
            "spaces": ranges_of(r"\s"), "hashes": hashes, "cuts": cuts}


# --- Small tokenizers --------------------------------------------------------------------------

LEARNT = [
    "The quick brown fox can't jump over the lazy dogs' 12 fences; it isn't 2024 yet, they'll say.",
    "for (int i = 0; i < 10; ++i) {\n\treturn value[i];\n}\n", "na\u00efve caf\u00e9 \u00dcber Stra\u00dfe",
    "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440, \u043f\u0440\u0438\u0432\u0435\u0442!",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3068\u6f22\u5b57\u3002", "low lower lowest newer wider",
] * 4
TEXTS = [
    "", " ", "a", "  two  spaces  ", "The quick brown fox isn't lazy, they'LL say 'S.\n\n\n  end \n",
    "low lowest wider newer dogs\tfor (i = 0)\r\n\r\n x", "1234567 89 \u0661\u0662\u0663\u0664 \u2167\u00bd",
    "na\u00efve cafe\u0301 \u00c5ngstr\u00f6m \u1e9b\u0323 \ufb01 \u00dcBER Stra\u00dfe \u0130I",
    "\u043f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u65e5\u672c\u8a9e\u3068\u6f22\u5b57\u3002abc\u6f22",
    "\U0001f600\U0001f469\u200d\U0001f467 \u2764\ufe0f", "\x00\x01\x1b\x7f\ufeff\ufffd\u0085\u00a0\u3000\u2028.",
    "<s>one</s> two<mask>  three <tool>x", "\u2581low\u2581\u2581dogs", "a" * 70 + " " + "xyz" * 50,
    "cAfa\u0301 A\u0301 e\u0301\u0323 a\u0301\u0301 fu\u0308r\r\nx\r\n\u00bd\u0626\u0654\u0600a\u0301\u00a9\u200d",
    "it's O'Neil's 'tis 'Sure \u2018s '\u017f", "x" * 30 + "\u65e5" * 101,
]


def byte_alphabet():
    return pre_tokenizers.ByteLevel.alphabet()


def trained(model, trainer, **parts):
    tokenizer = Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(LEARNT, trainer)
    return tokenizer


def bpe(size=300, prefix=None, suffix=None, unk=None, fuse=False, byte_fallback=False, special=(),
        alphabet=(), **parts):
    special = list(special) + ([unk] if unk else [])
    if byte_fallback:
        special += [f"<0x{byte:02X}>" for byte in range(256)]
    marks = {"continuing_subword_prefix": prefix, "end_of_word_suffix": suffix}
    marks = {name: mark for name, mark in marks.items() if mark}
    trainer = trainers.BpeTrainer(vocab_size=size + len(special), special_tokens=special,
                                  initial_alphabet=list(alphabet), show_progress=False, **marks)
    model = models.BPE(unk_token=unk, fuse_unk=fuse, byte_fallback=byte_fallback, **marks)
    return trained(model, trainer, **parts)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(pattern, behavior, invert)


def words(pattern, behavior="isolated", invert=False):
    """Characters as tokens after a Split: shows where it cuts."""
    return bpe(120, unk="<unk>", fuse=True, pre_tokenizer=split(pattern, behavior, invert))


def edited(tokenizer, edit):
    content = json.loads(tokenizer.to_str())
    edit(content)
    return Tokenizer.from_str(json.dumps(content))


def proto_fields(data):
    """The fields of a message of Protocol Buffers: (number, value)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        size = {0: 0, 1: 8, 5: 4}.get(key & 7)
        value = varint() if size in (0, None) else None
        size = value if size is None else size
        yield key >> 3, value if key & 7 == 0 else data[at:at + size]
        at += size


def chars_map_of(model):
    """precompiled_charsmap of the bytes of a SentencePiece model."""
    normalizer = next(value for number, value in proto_fields(model) if number == 3)
    return next((value for number, value in proto_fields(normalizer) if number == 2), b"")


def chars_map(rules):
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "rules.tsv"
        table.write_text("".join("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in rule)
                                 + "\n" for rule in rules))
        (pathlib.Path(folder) / "text").write_text("\n".join(LEARNT))
        sentencepiece.SentencePieceTrainer.train(
            input=f"{folder}/text", model_prefix=f"{folder}/m", vocab_size=200, minloglevel=2,
            normalization_rule_tsv=str(table), hard_vocab_limit=False)
        return chars_map_of((pathlib.Path(folder) / "m.model").read_bytes())


def unigram(trained_on=(), **parts):
    trainer = trainers.UnigramTrainer(vocab_size=160, show_progress=False, unk_token="<unk>",
                                      special_tokens=["<pad>", "</s>", "<unk>", *trained_on])
    return trained(models.Unigram(), trainer, **parts)


def small_tokenizers():
    byte_level = dict(alphabet=byte_alphabet(), decoder=decoders.ByteLevel(), size=330)
    made = {}
    made["gpt2"] = bpe(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False), **byte_level)
    prefix = bpe(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True), **byte_level)
    prefix.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True)])
    prefix.add_tokens([AddedToken("<tool>", rstrip=True, normalized=True), "dogs"])
    prefix.post_processor = processors.RobertaProcessing(("</s>", 331), ("<s>", 330))
    made["roberta"] = prefix
    llama3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
              r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    no_regex = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    whole = bpe(pre_tokenizer=pre_tokenizers.Sequence([split(Regex(llama3)), no_regex]), **byte_level)
    whole.add_special_tokens(["<s>", "</s>"])
    whole.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A </s>",
                                      special_tokens=[("<s>", 330), ("</s>", 331)])])

    def ignore(content):
        content["model"]["ignore_merges"] = True
        content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"][:40]]

    made["llama3"] = edited(whole, ignore)
    qwen2 = llama3.replace("{1,3}", "")
    made["qwen2"] = bpe(pre_tokenizer=pre_tokenizers.Sequence([split(Regex(qwen2)), no_regex]),
                        normalizer=normalizers.NFC(), **byte_level)
    made["nfkc"] = bpe(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
                       normalizer=normalizers.NFKC(), **byte_level)
    llama = bpe(200, unk="<unk>", fuse=True, byte_fallback=True, special=("<s>", "</s>"),
                normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"),
                                                 normalizers.Replace(" ", "\u2581")]),
                decoder=decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
    made["llama2"] = llama
    for scheme in ("always", "first", "never"):
        made[f"metaspace_{scheme}"] = bpe(
            150, unk="<unk>", special=("<s>",),
            pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme != "first"),
            decoder=decoders.Metaspace(prepend_scheme=scheme))
    word_pieces = trainers.WordPieceTrainer(
        vocab_size=200, show_progress=False,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    made["bert"] = trained(
        models.WordPiece(unk_token="[UNK]"), word_pieces, normalizer=normalizers.BertNormalizer(),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece(),
        post_processor=processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))
    made["bert_cased"] = trained(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12), word_pieces,
        normalizer=normalizers.BertNormalizer(lowercase=False),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece(cleanup=False))
    made["suffix"] = bpe(150, unk="<unk>", suffix="</w>",
                         pre_tokenizer=pre_tokenizers.WhitespaceSplit(),
                         normalizer=normalizers.Sequence([
                             normalizers.Strip(), normalizers.NFD(), normalizers.StripAccents(),
                             normalizers.Lowercase(), normalizers.Replace(Regex(r"\s{2,}"), " ")]))
    made["prefix"] = bpe(150, unk="<unk>", prefix="##",
                         pre_tokenizer=pre_tokenizers.BertPreTokenizer())
    granite = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made["granite"] = bpe(pre_tokenizer=granite, **byte_level)
    made["digits"] = bpe(120, unk="<unk>", fuse=True, pre_tokenizer=pre_tokenizers.Digits())
    made["words"] = trained(
        models.WordLevel(unk_token="[UNK]"),
        trainers.WordLevelTrainer(special_tokens=["[UNK]", "[PAD]"], show_progress=False),
        normalizer=normalizers.Lowercase(), pre_tokenizer=pre_tokenizers.Whitespace())
    for behavior in ("removed", "merged_with_previous", "contiguous"):
        made[f"punctuation_{behavior}"] = bpe(120, unk="<unk>", fuse=True,
                                              pre_tokenizer=pre_tokenizers.Punctuation(behavior))
    made["no_unk"] = bpe(100, pre_tokenizer=pre_tokenizers.WhitespaceSplit())
    rules = [("a\u0301", "\u00e1"), ("e\u0301", "\u00e9"), ("A", "a"), ("\u3000", " "), ("\t", " "),
             ("\n", " "), ("\r", " "), ("\r\n", " "), ("\u200d", ""), ("\ufb01", "fi"),
             ("\u00bd", "1\u20442"), ("\u0626", "\u064a\u0654"), ("\x1b", "")]
    t5 = unigram(normalizer=normalizers.Sequence([normalizers.Precompiled(chars_map(rules)),
                                                  normalizers.Replace(Regex(" {2,}"), " ")]),
                 pre_tokenizer=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace(),
                 post_processor=processors.TemplateProcessing(
                     single="$A </s>", special_tokens=[("</s>", 1)]))
    made["t5"] = t5
    made["unigram_words"] = unigram(pre_tokenizer=pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))

    def fall_back(content):
        content["model"]["byte_fallback"] = True

    made["unigram_bytes"] = edited(
        unigram([f"<0x{byte:02X}>" for byte in range(256)], pre_tokenizer=pre_tokenizers.Metaspace(),
                decoder=decoders.Sequence([decoders.Replace("\u2581", " "),
                                           decoders.ByteFallback(), decoders.Fuse()])), fall_back)
    # ByteLevel before another model than BPE, which then sees its characters.
    bytes_first = dict(pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
                       decoder=decoders.ByteLevel())
    made["unigram_byte_level"] = unigram(**bytes_first)
    made["words_byte_level"] = trained(
        models.WordLevel(unk_token="[UNK]"),
        trainers.WordLevelTrainer(special_tokens=["[UNK]", "[PAD]"], show_progress=False),
        **bytes_first)
    made["word_piece_byte_level"] = trained(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12), word_pieces,
        **bytes_first)
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next",
                     "contiguous"):
        made[f"split_{behavior}"] = words(Regex(r"[\s\p{P}]"), behavior)
        made[f"split_{behavior}_not"] = words(" ", behavior, True)
    made["deepseek"] = words(Regex(
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"))
    made["classes"] = words(Regex(r"(?<=\p{Ll})\p{Lu}|\P{L}\d|[^\S\n]+|\u65e5|\x{6f22}|(?:\p{^Nd})??"))
    return made


def small():
    out = []
    for name, tokenizer in small_tokenizers().items():
        cases = []
        for text in TEXTS:
            ids = tokenizer.encode(text).ids
            case = {"text": text, "ids": ids, "decoded": tokenizer.decode(ids)}
            case["all"] = tokenizer.decode(ids, skip_special_tokens=False)
            cases.append(case)
        out.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "cases": cases})
    return out


# --- SentencePiece models ----------------------------------------------------------------------

def varint(number):
    out = b""
    while number >= 128:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def proto_bytes(number, content):
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def proto_model(pieces, dummy_prefix):
    """A Unigram model; pieces: (text, score, type)."""
    model = b""
    for text, score, kind in pieces:
        piece = proto_bytes(1, text.encode()) + bytes([2 << 3 | 5]) + struct.pack("<f", score)
        model += proto_bytes(1, piece + bytes([3 << 3, kind]))
    return (model + proto_bytes(2, bytes([3 << 3, 1]))
            + proto_bytes(3, bytes([3 << 3, int(dummy_prefix)])))


def user_symbols(seed):
    """Symbols of the user's that overlap each other and other pieces; few letters."""
    draw = random.Random(seed)
    letters = "abc\u00e9 "[:5 if seed % 2 else 4]

    def word(lengths):
        return "".join(draw.choice(letters) for _ in range(draw.choice(lengths)))

    pieces = {"<unk>": (0.0, 2), "\u2581": (-3.0, 1)}
    for _ in range(24):  # eighths: sums are exact, and many ways are equally likely
        text = word([1, 1, 2, 2, 3, 4]).replace(" ", "\u2581")
        pieces.setdefault(text, (draw.randrange(-64, 8) / 8, 1))
    for _ in range(8):
        pieces.setdefault(word([1, 2, 2, 3, 3, 4, 5]).replace(" ", "\u2581"), (0.0, 4))
    model = proto_model([(text, *rest) for text, rest in pieces.items()], seed % 3 == 0)
    encode = sentencepiece.SentencePieceProcessor(model_proto=model).encode
    texts = [word(range(1, 16)) for _ in range(60)]
    return {"name": f"user_symbols_{seed}", "files": {"tokenizer.model": model},
            "cases": [{"text": text, "ids": encode(text)} for text in texts]}


ADDED_TEXTS = ["<|user|> hi low<|end|> lower", "low<|user|>low <|user|>", "a <|end|><|end|>  b",
               "<|user|>", "the quick<x>brown <x> fox", "plain text  here", "one</s> two"]
# A blank at the start of a stretch is a blank more for SentencePiece, not so for transformers 5; and
# special tokens that no file lists are text here.
LEGACY_TEXTS = [text for text in ADDED_TEXTS if "> " not in text and "</s>" not in text]


def added(name, kind, file_name, loader, config, tokens):
    import transformers
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "text").write_text("\n".join(LEARNT))
        special = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1) if kind == "unigram" else {}
        if kind == "bpe":
            special = dict(byte_fallback=True, remove_extra_whitespaces=False)
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text"), model_prefix=str(folder / "m"), minloglevel=2,
            vocab_size=400 if kind == "bpe" else 150, model_type=kind, hard_vocab_limit=False,
            normalization_rule_name="identity", **special)
        model = (folder / "m.model").read_bytes()
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        size = len(pieces)
        files = {file_name: model}
        if config.get("added_tokens_decoder") is not None:
            listed = [(i, pieces.id_to_piece(i), True) for i in range(3)]  # as transformers saves
            listed += [(size + i, *token) for i, token in enumerate(tokens)]
            config["added_tokens_decoder"] = {
                str(i): {"content": text, "lstrip": False, "rstrip": False, "normalized": False,
                         "single_word": False, "special": special} for i, text, special in listed}
        else:
            ids = {text: size + i for i, (text, _) in enumerate(tokens)}
            files["added_tokens.json"] = json.dumps(ids).encode()
        files["tokenizer_config.json"] = json.dumps(config).encode()
        for path, content in files.items():
            (folder / path).write_bytes(content)
        tokenizer = getattr(transformers, loader).from_pretrained(folder)
        cases = []
        for text in LEGACY_TEXTS if "added_tokens.json" in files else ADDED_TEXTS:
            ids = tokenizer.encode(text)
            cases.append({"text": text, "ids": ids,
                          "decoded": tokenizer.decode(ids, skip_special_tokens=True),
                          "all": tokenizer.decode(ids, skip_special_tokens=False)})
        return {"name": name, "files": files, "cases": cases}


def sentencepiece_models():
    tokens = [("<|user|>", True), ("<|end|>", True), ("<x>", False)]
    llama = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>",
             "unk_token": "<unk>", "add_bos_token": True}
    t5 = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "eos_token": "</s>",
          "unk_token": "<unk>", "pad_token": "<pad>"}
    all_models = [user_symbols(seed) for seed in range(12)] + [
        added("llama_added", "bpe", "tokenizer.model", "LlamaTokenizer",
              {**llama, "legacy": False, "added_tokens_decoder": {}}, tokens),
        added("llama_legacy", "bpe", "tokenizer.model", "LlamaTokenizer",
              {**llama, "legacy": True}, tokens),
        added("t5_added", "unigram", "spiece.model", "T5Tokenizer",
              {**t5, "added_tokens_decoder": {}}, tokens)]
    for one in all_models:
        one["files"] = {name: base64.b64encode(content).decode()
                        for name, content in one["files"].items()}
    return all_models


# --- The files that people use -----------------------------------------------------------------

def encoder_of(folder):
    """Ids of a text, with special tokens where tokenizer.json has them."""
    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
    elif (folder / "merges.txt").exists():
        tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"),
                                                   str(folder / "merges.txt")))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.add_special_tokens(["<|endoftext|>"])
    elif (folder / "vocab.txt").exists():
        tokenizer = Tokenizer(models.WordPiece.from_file(str(folder / "vocab.txt"),
                                                         unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    else:
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        return model.encode
    return lambda text: tokenizer.encode(text).ids


def tokenizer_of(model):
    """The Tokenizer that does as a SentencePiece model, as transformers makes T5's."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocabulary = [(pieces.id_to_piece(i), pieces.get_score(i)) for i in range(len(pieces))]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=pieces.unk_id()))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(chars_map_of(model)),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def large():
    out = {}
    names = sorted(path.parent.name for path in DATA.glob("*/*")
                   if path.name in ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model"))
    encoders = {name: encoder_of(DATA / name) for name in names if name != "tiktoken"}
    for name in ("kyoto", "botchan_unigram"):
        tokenizer = tokenizer_of((DATA / name / "tokenizer.model").read_bytes())
        encoders[name + "_json"] = lambda text, t=tokenizer: t.encode(text).ids
    for name, encode in encoders.items():
        out[name] = {}
        for text in sorted((DATA / "texts").iterdir()):
            units = list(units_of(text.read_bytes().decode("utf-8", "replace")))
            groups = [units[begin:begin + 32] for begin in range(0, len(units), 32)]
            ids = ([id for unit in group for id in [*encode(unit), MASK]] for group in groups)
            out[name][text.stem] = [f"{hash_of(group):016x}" for group in ids]
        print(name, file=sys.stderr)
    return out


def units_of(text):
    """Lines together up to 1024 bytes or more: what is encoded at once."""
    unit, size = [], 0
    for line in text.split("\n"):
        unit.append(line)
        size += len(line.encode()) + 1
        if size >= 1024:
            yield "\n".join(unit) + "\n"
            unit, size = [], 0
    yield "\n".join(unit)


def write(name, content):
    text = json.dumps(content, separators=(",", ":"))
    (HERE / name).write_text(text.replace('],"', '],\n"').replace('},{', '},\n{') + "\n")


def main():
    makers = {"scalars.json": scalars, "small.json": small,
              "sentencepiece.json": sentencepiece_models}
    if DATA.exists():
        makers["large.json"] = large
    for name in sys.argv[1:] or makers:
        print(name, file=sys.stderr)
        write(name, makers[name]())


if __name__ == "__main__":
    main()
