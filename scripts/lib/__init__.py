"""What the Python programs of this folder share. Each is started as `scripts/NAME`, so that this folder is where Python looks first."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAMS = ["operation-gateway", "policy-authority", "runtime-node"]


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def die(text):
    sys.exit(f"scripts/{pathlib.Path(sys.argv[0]).name}: {text}")


def output(*command, **options):
    """What a command prints; if it fails, the script ends."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    except FileNotFoundError:
        die(f"{command[0]} is not there")
    if done.returncode != 0:
        die(f"{pathlib.Path(command[0]).name}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def build(release):
    """Builds the programs; returns their folder."""
    say("building the gateway, the authority and the node")
    packages = [part for name in PROGRAMS for part in ("--package", name)]
    profile = ["--release"] if release else []
    subprocess.run(["cargo", "build", "--locked", *profile, *packages], cwd=ROOT, check=True)
    return TARGET / ("release" if release else "debug")
