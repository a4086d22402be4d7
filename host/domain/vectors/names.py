#!/usr/bin/env python3
"""Prints names.json: names in the form in which they are compared, by the Unicode tables of Python.

Uses the standard library only, and shares no code with the gateway. Run it in this folder:

    python3 names.py > names.json
"""
import json
import unicodedata

# Default_Ignorable_Code_Point in DerivedCoreProperties.txt of the Unicode Character Database, which Python does not have.
DEFAULT_IGNORABLE = [
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F),
    (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]
# White_Space in PropList.txt. `str.strip` without an argument also removes U+001C to U+001F.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"

NAMES = [
    "", "alice", "Alice", "ALICE", " alice ", "\talice\r\n", "al ice", "al  ice", "alice\u00a0", "\u3000alice", "alice\u2028", "\x1calice\x1f",
    "alice@Example.COM", "auth0|5F7c8", "CN=Alice,O=Treasury", "Ren\u00e9e", "Rene\u0301e", "REN\u00c9E", "RENE\u0301E", "\uff21\uff4c\uff49\uff43\uff45",
    "\u24b6lice", "\U0001d49clice", "ali\u00adce", "ali\u200bce", "ali\u200dce", "\ufeffalice", "a\u034fe\u0301", "e\u034f\u0301", "alice\ufe0f", "alice\U000e0041",
    "\u3164", "\uffa0alice", "\u115f\u1160", "stra\u00dfe", "STRASSE", "STRA\u1e9eE", "\u03a3\u03c3\u03c2", "\u0130stanbul", "istanbul",
    "\u0131stanbul", "I", "\ufb01le", "\u01c4", "\u01c5", "\u01f0", "J\u030c", "\u0149", "\u1f80", "\u03b1\u0345\u0313", "\u03b2\u0345\u0301", "\u0390", "\u1fd3",
    "\u2126", "\u212a", "\u212b", "\u13a0", "\uab70", "\u10a0", "\u2d00", "\u0e33", "\u0f77", "\u1100\u1161\u11a8", "\uac01", "\u0958", "\u0915\u093c",
    "\u05e9\u05c1", "\ufb2a", "\u0627\u0644\u0644\u0647", "\ufdf2", "\u4e0d", "\uf967", "\u00b2", "\u00bd", "\u2167", "\u00b5", "\u03bc", "\u017f", "\u1e9b\u0323",
    "\u0344", "\u0308\u0301", "a\u0315\u0300\u05ae\u0300b", "alice\u2800", "\U0001d159", "\U0001f512",
]


def compared(name):
    ignorable = lambda code: any(first <= code <= last for first, last in DEFAULT_IGNORABLE)
    name = "".join(character for character in name if not ignorable(ord(character)))
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded).strip(WHITE_SPACE)


if __name__ == "__main__":
    vectors = [{"name": name, "form": compared(name)} for name in NAMES]
    print(json.dumps({"default_ignorable": DEFAULT_IGNORABLE, "compared": vectors}, indent=1))
