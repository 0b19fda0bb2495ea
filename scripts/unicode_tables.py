#!/usr/bin/env python3
"""Writes convoy/tokenizers/unicode/unicode_tables.cpp: what tokenizers must know of every character.

Categories are those of Unicode 16, as the regular expressions of Hugging Face's tokenizers know
them. Its normalizers come from other versions (decompositions of Unicode 9, lower case of Unicode
17), so their tables are what `tokenizers` itself makes of every character. Needs

  pip install unicodedata2==16.0.0 tokenizers==0.23.3

Each table is a stream of whole numbers: 7 bits a byte, low ones first, as base64.
"""
import base64
import itertools
import pathlib

import unicodedata2 as unicode
from tokenizers import normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp"
              " Cc Cf Cs Co Cn").split()
NFC, NFD, NFKD = normalizers.NFC(), normalizers.NFD(), normalizers.NFKD()


def packed(numbers):
    out = bytearray()
    for number in numbers:
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    return base64.b64encode(bytes(out)).decode()


def signed(number):
    return number << 1 if number >= 0 else ~number << 1 | 1


def runs(value_of):
    """(length, value) over all code points, surrogates among them."""
    for value, group in itertools.groupby(map(value_of, range(0x110000))):
        yield from (sum(1 for _ in group), value)


def removed(normalizer):
    return {c for c in SCALARS if normalizer.normalize_str(chr(c)) == ""}


def bert_flags():
    """1: punctuation, 2: control, 4: accent of BERT's normalizer, 8: of StripAccents."""
    def bert(**on):
        off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False)
        return normalizers.BertNormalizer(lowercase=False, **{**off, **on})

    everything = "".join(map(chr, SCALARS))
    kept = pre_tokenizers.Punctuation("removed").pre_tokenize_str(everything)
    plain = {c for _, (begin, end) in kept for c in SCALARS[begin:end]}
    control = removed(bert(clean_text=True))
    accent = removed(bert(strip_accents=True))
    mark = removed(normalizers.StripAccents())
    return lambda c: 0 if 0xD800 <= c < 0xE000 else (
        (c not in plain) | (c in control) << 1 | (c in accent) << 2 | (c in mark) << 3)


def combining_class(c):
    """Of Unicode 16, but 0 where `tokenizers` does not move the character."""
    value = unicode.combining(chr(c))
    if value == 0 or NFD.normalize_str(chr(c)) != chr(c):
        return value
    probe, before = ("\u0334", chr(c) + "\u0334") if value > 1 else ("\u0300", "\u0300" + chr(c))
    return value if NFD.normalize_str(before) != before else 0


def decompositions():
    last = 0
    for c in SCALARS:
        canonical, compatible = NFD.normalize_str(chr(c)), NFKD.normalize_str(chr(c))
        if 0xAC00 <= c < 0xAC00 + 11172 or compatible == chr(c):
            continue
        canonical = "" if canonical == chr(c) else canonical
        compatible = "" if compatible == canonical else compatible
        yield from (c - last, len(canonical), len(compatible))
        yield from (signed(ord(x) - c) for x in canonical + compatible)
        last = c


def compositions():
    last = 0
    for c in SCALARS:
        step = unicode.decomposition(chr(c))
        if not step or step.startswith("<") or " " not in step:
            continue
        first, second = (int(x, 16) for x in step.split())
        if NFC.normalize_str(chr(first) + chr(second)) == chr(c):
            yield from (c - last, signed(first - c), second)
            last = c


def lower_case():
    last, lower = 0, normalizers.Lowercase()
    for c in SCALARS:
        to = lower.normalize_str(chr(c))
        if to != chr(c):
            yield from (c - last, len(to))
            yield from (signed(ord(x) - c) for x in to)
            last = c


def main():
    category = {name: number for number, name in enumerate(CATEGORIES)}
    tables = {
        "kCategories": runs(lambda c: category[unicode.category(chr(c))]),
        "kBertFlags": runs(bert_flags()),
        "kCombiningClasses": runs(combining_class),
        "kDecompositions": decompositions(),
        "kCompositions": compositions(),
        "kLowerCase": lower_case(),
    }
    lines = [
        "// Written by scripts/unicode_tables.py; change it there.",
        '#include "convoy/tokenizers/unicode/unicode_tables.h"', "", "// clang-format off",
        "namespace convoy::text::tables {", "",
    ]
    for name, numbers in tables.items():
        text = packed(numbers)
        parts = [f'    "{text[i:i + 92]}"' for i in range(0, len(text), 92)]
        lines += [f"const char* const {name} =", "\n".join(parts) + ";", ""]
    lines += ["}  // namespace convoy::text::tables", ""]
    (ROOT / "convoy/tokenizers/unicode/unicode_tables.cpp").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
