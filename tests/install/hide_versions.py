"""A system's glibc and libstdc++ as if they were older, for tests of what a wheel asks of them.

Versions of symbols that are newer than a system would have get other names (GLIBC_2.36 becomes GLIBC_9.36), in the libraries that have
them and in those that ask for them. What is already there works on; what comes from outside and asks for one finds no such version, and
the loader refuses it as it would on the older system.
"""

import re
import struct

# Kinds of sections: versions that a file defines, and those that it needs.
DEFINED, NEEDED = 0x6FFFFFFD, 0x6FFFFFFE
VERSION = re.compile(rb"(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)")


def hash_of(name):
    """System V's hash of a symbol's or a version's name."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value & 0xF0000000) >> 24) & 0x0FFFFFFF
    return value


def sections(data):
    """(kind, offset, link, number of records) of each section."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    for place in range(table, table + size * count, size):
        kind, _, _, offset, _, link, records = struct.unpack_from("<IQQQQII", data, place + 4)
        yield kind, offset, link, records


def names(data, kind, offset, records):
    """(place of the hash, place of the name in the strings) of each version in a section."""
    for _ in range(records):
        if kind == DEFINED:  # version, flags, index, parts; hash, first part, next
            (first, following) = struct.unpack_from("<II", data, offset + 12)
            yield offset + 8, struct.unpack_from("<I", data, offset + first)[0]
        else:  # version, parts; file, first part, next
            parts, _, first, following = struct.unpack_from("<HIII", data, offset + 2)
            part = offset + first
            for _ in range(parts):  # hash, flags, other, name, next
                yield part, struct.unpack_from("<I", data, part + 8)[0]
                part += struct.unpack_from("<I", data, part + 12)[0]
        offset += following


def hide(file, newest):
    """Renames the versions in `file` that are newer than those of `newest`, such as {"GLIBC": (2, 34)}. Returns how many there were."""
    data = bytearray(file.read_bytes())
    if data[:5] != b"\x7fELF\x02":
        return 0
    hidden = 0
    found = list(sections(data))
    for kind, offset, link, records in found:
        if kind not in (DEFINED, NEEDED):
            continue
        strings = found[link][1]
        for at, name in names(data, kind, offset, records):
            begin = strings + name
            text = bytes(data[begin : data.index(0, begin)])
            match = VERSION.fullmatch(text)
            # A string that two records share has its new name, which is newer than all, when the second is seen.
            if not match or tuple(map(int, match[2].split(b"."))) <= newest[match[1].decode()]:
                continue
            text = match[1] + b"_9" + text[len(match[1]) + 2 :]
            data[begin : begin + len(text)] = text
            struct.pack_into("<I", data, at, hash_of(text))
            hidden += 1
    if hidden:
        mode = file.stat().st_mode
        file.unlink()  # it may be in use, or have another name
        file.write_bytes(data)
        file.chmod(mode)
    return hidden
