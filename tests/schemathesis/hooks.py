"""Rules that an OpenAPI document cannot express: rules between members, and about stored data.

A request that follows its schema may be refused with 400 only by one of these messages. Every other finding of
schemathesis is a failure.
"""

import re

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData

# The members that are names.
NAME = r"^`(/intent|/custody/\w+)?/((new_)?key_ref|payment/(from|to)_account)`"

IMPOSSIBLE = re.compile(
    "|".join(
        [
            # Invisible characters, and other spellings of a name.
            NAME + r" must consist of visible characters and spaces, and has U\+[0-9A-F]{4,6}$",
            NAME + r" must not have a space at either end, or two in a row$",
            NAME + r" must be in Unicode's normalization form C \(NFC\)$",
            r"^`(/intent|/custody/\w+)?/(new_)?key_ref` must not be `\.` or `\.\.`, which clients remove from paths$",
            # Between the members of one body.
            r"^`(/intent|/custody/\w+)?/threshold` must be 2 to \d+, the number of participants, not `([2-9]|[1-5]\d|6[0-4])`$",
            r"^`(/custody/recover)?/helper_participants` must not name participant `\d+`, whose share is recovered$",
            r"^`(/intent|/custody/\w+)?/bip32/path` must be two non-hardened indices as `digits/digits` without leading zeros, each at most 2147483647$",
            # Between a body and the key or the operation of its path.
            r"^`(/intent|/custody/\w+)?/\w+` must be participants of the key: [\d, ]+$",
            r"^`(/intent|/custody/\w+)?/(bip32|taproot)` must be left out: the key's profile is `[\w-]+`, and only keys of `[\w-]+` have child keys and Taproot outputs$",
            r"^`path` has no child key: profile `frost-ed25519-sha512` has no non-hardened derivation$",
            r"^`path` must be two non-hardened indices as `digits/digits` without leading zeros, each at most 2147483647$",
            r"^`(/intent|/custody/\w+)?/threshold` must be at least the key's threshold, \d+$",
            r"^`(/intent|/custody/\w+)?/(requested|helper)_participants` must name at least \d+ participants, the (key's )?threshold$",
            r"^`(/custody/\w+)?/(new_)?participants` with the key's present participants must name 2 to 64 participants, not \d+$",
            r"^`/scope` must be `signature`$",
            r"^`(/custody/rotate)?/new_key_ref` must be another name than the key's$",
            r"^several tenants have a key ",
            # Between a body and the deployment.
            r"^`(/intent|/custody/\w+)?/\w+` names participant `\d+`; this deployment has the nodes 0 to \d+$",
            # Between a body and what was sent.
            r"^`/from` must be at most \d+: later events were not sent yet$",
            # Between a query and the log.
            r"^`first` must be at least 1 and at most `second`, which must be at most the log's size$",
            r"^`index` must be below `size`, which must be at most the log's size$",
            r"^`seq` must be from 1 to the number of the operation's events$",
            # Between the parameters of a list, and the caller.
            r"^`cursor` is of another list, or of other filters",
            r"^`idempotency_key` needs `key_ref`",
            r"^`awaiting=me` needs a caller",
            r"^`wait_ms` and `unless_state` must be given together$",
            # One of several members.
            r"^`/custody` must be absent if `/intent` is given$",
            r"^`/intent` is required, unless `/custody` is given$",
            r"^`/custody` must have exactly one of ",
            r"^`/custody/key_ref` must not be empty$",
            r"^`/what_if/.*` (is not a fact|follows from `time\.now_ms`)",
            r"^`/(\w+/)*client/client_id` must not be `operation-gateway`: this id is reserved",
            # A length in bytes; schemas count characters.
            r"^`/?\w.*` must be at most 1024 bytes, not (102[5-9]|10[3-9]\d|1[1-9]\d\d|[23]\d\d\d|40[0-8]\d|409[0-6])$",
        ]
    )
)


# JSON Schema accepts 2.0 as an integer. The gateway accepts only integer notation, so that no reader parses an amount as a float.
NOT_WRITTEN_AS_INTEGER = re.compile(r"^`(/\S+)` must be an integer from -?\d+ to \d+$")


def at(body, pointer):
    """The value at a JSON pointer."""
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        body = body[int(step)] if isinstance(body, list) else body[step]
    return body


def is_permitted_refusal(case, message):
    """Whether a request that follows its schema may be refused with this message."""
    if IMPOSSIBLE.search(message):
        return True
    written = NOT_WRITTEN_AS_INTEGER.match(message)
    return written is not None and isinstance(at(case.body, written.group(1)), float)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drops failures that are permitted refusals, and unknown parameters of queries, which the gateway ignores: proxies and links add some."""
    if isinstance(failure, AcceptedNegativeData) and "in query - object with unexpected properties" in failure.message:
        return False
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 400:
        return True
    body = response.json()
    faults = [f"`{fault['pointer']}` {fault['message']}" for fault in body.get("errors", [])]
    return not all(is_permitted_refusal(case, fault) for fault in faults or [body.get("message", "")])


# Ids seen in answers, by family, with the last state. Generators cannot guess them, so they replace half of the well-formed ids.
KNOWN = {"custody": {}, "product": {}}
HEX32 = re.compile(r"[0-9a-f]{64}")


def family(path):
    return "custody" if "/custody/" in path else "product"


@schemathesis.hook
def after_call(context, case, response):
    if case.method == "POST" and response.status_code == 200:
        body = response.json()
        view = body.get("operation", body)
        if "operation_id" in view:
            KNOWN[family(case.operation.path)][view["operation_id"]] = view["state"]


def known(operation, given):
    """Replaces one in two well-formed ids by an existing one. To end an operation every one, since few operations wait."""
    if operation is None or not isinstance(given, str) or not HEX32.fullmatch(given):
        return given
    ends = operation.path.endswith(("/reject", "/cancel"))
    if not ends and int(given[-1], 16) % 2:
        return given
    states = KNOWN[family(operation.path)]
    ids = [one for one, state in states.items() if not ends or state == "pending_approval"] or [given]
    return ids[int(given[:8], 16) % len(ids)]


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and "operationId" in path_parameters:
        path_parameters["operationId"] = known(context.operation, path_parameters["operationId"])
    # The webhook that scripts/schemathesis names, for one in two names.
    if path_parameters and isinstance(path_parameters.get("name"), str) and len(path_parameters["name"]) % 2:
        path_parameters["name"] = "books"
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    if query and "operation_id" in query:
        query["operation_id"] = known(context.operation, query["operation_id"])
    # A permitted wait is a short one: the run should end.
    if query and isinstance(query.get("wait_ms"), int) and 0 <= query["wait_ms"] <= 30_000:
        query["wait_ms"] %= 20
    return query


@schemathesis.check
class every_operation_succeeds:
    """Every operation got the answer 200 at least once, since refusals alone prove little."""

    def __init__(self, except_for=()):
        self.called, self.succeeded, self.except_for = set(), set(), set(except_for)

    def after_response(self, ctx, response, case):
        self.called.add(case.operation.label)
        if response.status_code == 200:
            self.succeeded.add(case.operation.label)

    def after_run(self, ctx):
        never = self.called - self.succeeded - self.except_for
        if never:
            raise AssertionError("never answered 200: " + ", ".join(sorted(never)))
