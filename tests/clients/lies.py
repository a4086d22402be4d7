"""Checks that scripts/verify_evidence.py accepts no lie: documents that an attacker with the log's key altered and signed again.

Usage: lies.py FOLDER [PROGRAM...]

FOLDER   what the Rust tests of lies keep with KEEP_LIES: for each operation `roots.json`, the nodes' logs, and `told.jsonl`, the first line of which
         is the truth
PROGRAM  a command that answers each request of its standard input, one a line, like the program for browsers: it must say of each document what
         the Rust tests said
"""

import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import verify_evidence as verifier


def verdict(roots, document, logs):
    try:
        report = verifier.verify(roots, document, logs)
    except (verifier.Refused, KeyError, IndexError, TypeError, ValueError) as refused:
        return "fails", repr(refused)
    return ("not_checked" if report.unchecked else "holds"), report.lines


program = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) if sys.argv[2:] else None
n_lies, n_records, wrong = 0, 0, []
for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    roots = json.loads((folder / "roots.json").read_text())
    logs = [verifier.read_node_log(roots, log.read_text().splitlines()) for log in sorted(folder.glob("node-*.log"))]
    for number, line in enumerate((folder / "told.jsonl").open()):
        told = json.loads(line)
        said, why = verdict(roots, told["document"], logs)
        n_lies, n_records = n_lies + (number > 0), n_records + (number > 0 and told["verdict"] == "holds")
        # The truth must be read alike. A lie that only the gateway could tell apart may pass in both.
        if said != told["verdict"] and (number == 0 or said == "holds"):
            wrong.append(f"{folder.name}, document {number}: {said}, not {told['verdict']}: {why}")
        if program and not logs:
            request = {"call": "verify", "pages": [json.dumps(told["document"])], "roots": json.dumps(roots), "operation_id": None}
            print(json.dumps({**request, "now_ms": time.time_ns() // 1_000_000}), file=program.stdin, flush=True)
            answer = json.loads(program.stdout.readline())
            if answer.get("verdict") != told["verdict"]:
                wrong.append(f"{folder.name}, document {number}: the program says {answer}, not {told['verdict']}")
print(f"{n_lies} lies, {n_records} of them about what only the gateway records; {len(wrong)} wrong answers")
sys.exit("\n".join(wrong[:20]) if wrong or n_lies < 200 else 0)
