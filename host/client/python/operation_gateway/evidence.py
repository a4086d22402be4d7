"""Evidence, verified on this machine without the gateway, by the code of `operation-gateway evidence verify`."""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Check:
    """One thing that evidence must show. `result`: `holds`, `fails` or `not_checked`; `found`: what was found, or what is wrong where."""

    name: str
    result: str
    found: Any


@dataclass(frozen=True)
class Report:
    """What became of the checks. Only the verdict `holds` means that all of them were made and hold."""

    verdict: str
    checks: list[Check]


def verify_evidence(pages: Sequence[str], roots: str, operation_id: str | None = None) -> Report:
    """Verifies evidence. Needs the extra `verify`.

    `pages` are the answers of `.../evidence` as texts: `gateway.evidence(operation)`, or the content of a file. `roots` is the text
    of the operator's `roots.json`, which must not come from the gateway that is checked. Raises `ValueError` if they cannot be read.
    """
    request = {"call": "verify", "pages": list(pages), "roots": roots, "operation_id": operation_id, "now_ms": time.time_ns() // 1_000_000}
    answer = json.loads(_run(json.dumps(request).encode()))
    if "error" in answer:
        raise ValueError(answer["error"])
    checks = [Check(check["name"], *next(iter(check["status"].items()))) for check in answer["checks"]]
    return Report(answer["verdict"], checks)


def _run(request: bytes) -> bytes:
    """Runs the program, which gets its standard input and nothing else: no clock, no network, no other file."""
    from wasmtime import Engine, ExitTrap, Func, Linker, Module, Store, WasiConfig

    engine = Engine()
    module = Module(engine, files(__package__).joinpath("checks.wasm").read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        given, answered = Path(folder, "request"), Path(folder, "answer")
        given.write_bytes(request)
        wasi = WasiConfig()
        wasi.stdin_file, wasi.stdout_file = given, answered
        store = Store(engine)
        store.set_wasi(wasi)
        linker = Linker(engine)
        linker.define_wasi()
        start = linker.instantiate(store, module).exports(store)["_start"]
        assert isinstance(start, Func)
        try:
            start(store)
        except ExitTrap as exit:
            if exit.code != 0:
                raise
        return answered.read_bytes()
