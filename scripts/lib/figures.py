"""Figures of processes, and the page that has them: host/docs/performance.md."""

import os
import pathlib
import sys

from lib import ROOT

TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid):
    """The fields of /proc/PID/stat after the name of the program."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def processor_seconds(pid, with_children=False):
    fields = stat(pid)
    return sum(map(int, fields[11:15] if with_children else fields[11:13])) / TICKS


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in lines)


def write_section(text):
    """Puts the text between the two comments of the page that mark what this program writes."""
    page, mark = ROOT / "host/docs/performance.md", f"<!-- scripts/{pathlib.Path(sys.argv[0]).name} -->\n"
    before, rest = page.read_text().split(mark)
    after = rest.split("<!-- end -->\n", 1)[1]
    page.write_text(f"{before}{mark}{text}\n<!-- end -->\n{after}")
