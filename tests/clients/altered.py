"""Alters every value of evidence documents, one at a time, and checks that scripts/verify_evidence.py refuses each.

Usage: altered.py ROOTS EVIDENCE...
"""

import copy
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import verify_evidence as verifier


def leaves(value, path=()):
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if not value:
        return "x"
    middle = len(value) // 2
    return value[:middle] + ("1" if value[middle] == "0" else "0") + value[middle + 1 :]


def is_accepted(roots, document):
    try:
        verifier.verify(roots, document)
    except (verifier.Refused, KeyError, IndexError, TypeError, ValueError):
        return False
    return True


# One person in two spellings is one person for the verifier too.
vectors = json.loads((pathlib.Path(__file__).parents[2] / "host/domain/vectors/names.json").read_text())
for vector in vectors["compared"]:
    assert verifier.person(vector["name"]) == vector["form"], vector
quorum = {"subjects": ["Alice", "ALICE"], "required": 2, "satisfied": True}
try:
    verifier.check_people([{"subject_id": "Alice"}, {"subject_id": "ALICE"}], quorum)
    sys.exit("a quorum of two is filled by one person in two spellings")
except verifier.Refused:
    pass

roots = json.loads(pathlib.Path(sys.argv[1]).read_text())
n_altered, accepted = 0, []
for name in sys.argv[2:]:
    document = json.loads(pathlib.Path(name).read_text())
    assert is_accepted(roots, document), name
    keys = [*roots["authorities"], *roots["nodes"].values()][:2]
    if document["decision"] and is_accepted({**roots, "authorities": keys, "authority_threshold": 2}, document):
        accepted.append(f"{name}: signed by one of two authorities")
    for path, value in leaves(document):
        altered = copy.deepcopy(document)
        holder = altered
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = other(value)
        n_altered += 1
        if is_accepted(roots, altered):
            accepted.append(f"{name}: /{'/'.join(map(str, path))}")
print(f"{n_altered} altered values, {len(accepted)} accepted")
sys.exit("\n".join(accepted) if accepted else 0)
