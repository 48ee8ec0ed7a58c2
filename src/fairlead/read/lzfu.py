"""The packing of Rich Text in Outlook messages."""

from __future__ import annotations

import struct

_BEGUN = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript "
    rb"\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_PACKED, _STORED = b"LZFu", b"MELA"
_WINDOW = 4_096


def unpacked(data: bytes, limit: int) -> bytes:
    """The Rich Text, at most `limit` bytes of it; empty where the data is no such thing."""
    if len(data) < 16:
        return b""
    if data[8:12] == _STORED:
        return data[16 : 16 + limit]
    if data[8:12] != _PACKED:
        return b""
    (size,) = struct.unpack_from("<I", data, 4)
    return _unpack(data[16:], min(size, limit))


def _unpack(data: bytes, size: int) -> bytes:
    out = bytearray(_BEGUN)
    at = 0
    while at < len(data) and len(out) < size + len(_BEGUN):
        control = data[at]
        at += 1
        for bit in range(8):
            if control >> bit & 1:
                at, ended = _copy(data, at, out)
                if ended:
                    return bytes(out[len(_BEGUN) :])
            elif at < len(data):
                out.append(data[at])
                at += 1
    return bytes(out[len(_BEGUN) : len(_BEGUN) + size])


def _copy(data: bytes, at: int, out: bytearray) -> tuple[int, bool]:
    """Repeat what stood before; True: this is the end."""
    if at + 2 > len(data):
        return at, True
    (pair,) = struct.unpack_from(">H", data, at)
    place, length = pair >> 4, (pair & 15) + 2
    here = len(out) % _WINDOW
    if place == here:
        return at + 2, True
    start = len(out) - (here - place) % _WINDOW
    for index in range(max(0, start), max(0, start) + length):
        out.append(out[index])
    return at + 2, False
