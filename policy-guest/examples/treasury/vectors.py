#!/usr/bin/env python3
"""Writes the vectors that the three policies share, those that only Cedar has, and those of Rust and JavaScript. Also puts the holidays into the
form of Cedar's entities.

With --check it writes nothing, and fails if a file differs.
"""

import json
import sys
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).parent
HOUR, DAY = 3_600_000, 86_400_000


def ms(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


WEDNESDAY = ms("2026-03-11T10:00:00")
NEXT_DAY = WEDNESDAY + DAY
THURSDAY = ms("2026-04-02T10:00:00")
FRIDAY_LATE = ms("2026-03-13T22:59:00")
SATURDAY_EARLY = ms("2026-03-13T23:00:00")
SATURDAY, SUNDAY, MONDAY = ms("2026-03-14T10:00:00"), ms("2026-03-15T10:00:00"), ms("2026-03-15T23:00:00")
GOOD_FRIDAY = ms("2026-04-03T10:00:00")
LIMIT = 1_000_000
RATES = json.loads((HERE / "rates.json").read_text())

# The submitter is of the team `sales`.
TEAMS = {"bob": "sales", "carol": "sales", "dave": "sales", "erin": "treasury", "frank": None}


def submitter(client="client-1", team="sales"):
    person = {"client_id": client, "subject_id": "alice", "roles": ["submitter"], "scopes": ["operations.sign"]}
    if team:
        person["registered"] = {"attributes": {"team": team}}
    return person


def approvals(names, roles, last_ms):
    """One approval a minute; the last one at last_ms."""
    given = []
    for index, name in enumerate(names):
        at = last_ms - 60_000 * (len(names) - 1 - index)
        approval = {"subject_id": name, "roles": [roles], "claimed_at_ms": at, "approved_at_ms": at}
        if TEAMS.get(name):
            approval["registered"] = {"attributes": {"team": TEAMS[name]}}
        given.append(approval)
    return given


def payment(amount_minor, currency="EUR"):
    return {"kind": "payment", "from_account": "acct-1", "to_account": "acct-2", "amount_minor": amount_minor, "currency": currency,
            "reference": "invoice 17", "requested_participants": [0, 1, 2], "publication_mode": "manual"}


def vector(name, intent, expect, *, moment="submit", now=WEDNESDAY, paid=None, by=(), roles="treasurer", last=None,
           who=None, facts=None, rates=RATES):
    codes, obligations, subjects, required, satisfied = expect
    known = {"deployment.required_approvals": "2", "deployment.separation_of_duties": "true", "time.now_ms": str(now)}
    if paid is not None:
        known["recipient.first_paid_ms"] = str(paid)
    allows = {"payment_permitted", "development_key_permitted", "quorum_reached"}
    return {
        "name": name,
        "input": {"moment": moment, "tenant": "default", "key_ref": "treasury", "submitter": who or submitter(), "intent": intent,
                  "approvals": approvals(by, roles, now if last is None else last)},
        "facts": known | (facts or {}),
        **({"documents": {"rates": rates}} if rates and intent["kind"] == "payment" else {}),
        "expect": {"decision": "ALLOW" if set(codes) <= allows else "DENY", "reasons": codes, "obligations": obligations,
                   "subjects": subjects, "required": required, "satisfied": satisfied},
    }


def with_rate(currency, rate):
    """The exchange rates with another one."""
    return RATES | {"rates": RATES["rates"] | {currency: {"rate": rate, "decimals": 2}}}


def submitted(required, reason="payment_permitted"):
    return [reason], ["collect_approvals"], [], required, False


def reached(subjects, required, *obligations):
    return ["payment_permitted", "quorum_reached"], list(obligations), list(subjects), required, True


def lacking(subjects, required):
    return ["payment_permitted", "quorum_not_reached"], [], list(subjects), required, False


ONE_TEAM, TWO_TEAMS = ("bob", "carol", "dave"), ("bob", "carol", "erin")
LARGE, SMALL = payment(LIMIT + 1), payment(LIMIT)
WAITS = "admit_not_before"

SHARED = [
    # The amount.
    vector("10,000.00 EUR to a new recipient needs two people", SMALL, submitted(2)),
    vector("10,000.01 EUR to a new recipient needs three", LARGE, submitted(3)),
    vector("9,999.99 EUR in dollars needs two people", payment(1_085_422, "USD"), submitted(2)),
    vector("10,000.00 EUR and a fraction of a cent in dollars needs three", payment(1_085_423, "USD"), submitted(3)),
    vector("a currency without minor units is converted: two people", payment(1_639_344, "JPY"), submitted(2)),
    vector("a currency without minor units is converted: three", payment(1_639_345, "JPY"), submitted(3)),
    vector("a currency without a rate is denied", payment(100, "XAU"), submitted(2, "amount_not_convertible")),
    vector("without a document of exchange rates, a payment is denied", SMALL, submitted(2, "amount_not_convertible"), rates=None),
    vector("without a document of exchange rates, a payment is not admitted",
           LARGE, (["amount_not_convertible", "quorum_reached"], [], ["bob", "carol"], 2, True), moment="admission", by=("bob", "carol"),
           rates=None),
    vector("by another document, a payment is worth more", payment(1_085_422, "USD"), submitted(3), rates=with_rate("USD", "0.9214")),
    vector("a document without the currency of the table has no rate for it", SMALL, submitted(2, "amount_not_convertible"),
           rates={"currency": "EUR", "rates": {}}),
    vector("an amount of zero is denied", payment(0), submitted(2, "amount_not_positive")),
    # The recipient.
    vector("a recipient first paid six days ago is new", LARGE, submitted(3), paid=WEDNESDAY - 6 * DAY),
    vector("a recipient first paid one millisecond less than seven days ago is new", LARGE, submitted(3), paid=WEDNESDAY - 7 * DAY + 1),
    vector("a recipient first paid seven days ago is known", LARGE, submitted(2), paid=WEDNESDAY - 7 * DAY),
    vector("a recipient first paid eight days ago is known: two people of one team", LARGE, reached(("bob", "carol"), 2),
           moment="admission", paid=WEDNESDAY - 8 * DAY, by=("bob", "carol"), roles="approver"),
    # The quorum.
    vector("two people are enough for a small payment", SMALL, reached(("bob", "carol"), 2), moment="admission", by=("bob", "carol"),
           roles="approver"),
    vector("the submitter does not count", SMALL, lacking(("bob",), 2), moment="admission", by=("alice", "bob")),
    vector("three treasurers of the submitter's team are not enough", LARGE, lacking(ONE_TEAM, 3), moment="admission", by=ONE_TEAM),
    vector("a person without a team is of no other team", LARGE, lacking(("bob", "carol", "frank"), 3), moment="admission",
           by=("bob", "carol", "frank")),
    vector("of a submitter without a team, no one is known to be of another", LARGE, lacking(TWO_TEAMS, 3), moment="admission",
           by=TWO_TEAMS, who=submitter(team=None)),
    vector("three people of two teams who are not treasurers are not enough", LARGE, lacking(TWO_TEAMS, 3), moment="admission",
           by=TWO_TEAMS, roles="approver"),
    # The wait. The time that is past is still given: the host compares.
    vector("the quorum of a large payment waits", LARGE, reached(TWO_TEAMS, 3, WAITS), moment="approval", by=TWO_TEAMS),
    vector("23 hours after the last approval it waits", LARGE, reached(TWO_TEAMS, 3, WAITS), moment="admission", now=NEXT_DAY,
           by=TWO_TEAMS, last=NEXT_DAY - 23 * HOUR),
    vector("24 hours after the last approval the same time is given", LARGE, reached(TWO_TEAMS, 3, WAITS), moment="admission",
           now=NEXT_DAY, by=TWO_TEAMS, last=WEDNESDAY),
    # The calendar of Zurich.
    vector("Friday, one minute before midnight in Zurich", SMALL, submitted(2), now=FRIDAY_LATE),
    vector("Saturday, from midnight in Zurich on", SMALL, submitted(2, "closed"), now=SATURDAY_EARLY),
    vector("Sunday", LARGE, submitted(3, "closed"), now=SUNDAY),
    vector("Monday, from midnight in Zurich on", SMALL, submitted(2), now=MONDAY),
    vector("Good Friday", SMALL, submitted(2, "closed"), now=GOOD_FRIDAY),
    vector("a preview on a Saturday", SMALL, submitted(2, "closed"), moment="preview", now=SATURDAY),
    vector("two reasons are both named", payment(0, "XAU"), (["amount_not_convertible", "amount_not_positive", "closed"],
           ["collect_approvals"], [], 2, False), now=SATURDAY),
    vector("the approvals of a small payment on a Saturday wait", SMALL, reached(("bob", "carol"), 2, WAITS), moment="approval",
           now=SATURDAY, by=("bob", "carol")),
    vector("the wait of a large payment ends on Good Friday, and goes on", LARGE, reached(TWO_TEAMS, 3, WAITS), moment="admission",
           now=GOOD_FRIDAY, by=TWO_TEAMS, last=THURSDAY),
    # What is no payment.
    vector("a custody signature is denied",
           {"kind": "asset_action", "asset_id": "asset-1", "action": "transfer", "chain_id": "eip155:1", "request_digest": "a" * 64,
            "typed_data_root": "b" * 64, "public_fields": {"to": "0x01"}, "requested_participants": [0, 1, 2],
            "publication_mode": "manual"}, submitted(2, "not_a_payment")),
    vector("the refresh of a key is denied",
           {"kind": "refresh", "target_epoch": "2", "reason": "scheduled", "publication_mode": "automatic"},
           submitted(2, "not_a_payment")),
    vector("the creation of a key by a client is denied",
           {"kind": "key_create", "asset_id": "asset-1", "purpose": "treasury", "participants": [0, 1, 2], "threshold": 2,
            "signature_profile": "frost-ed25519-sha512"}, submitted(2, "not_a_payment")),
    vector("the creation of a development key by the gateway is permitted",
           {"kind": "key_create", "asset_id": "asset-1", "purpose": "treasury", "participants": [0, 1, 2], "threshold": 2,
            "signature_profile": "frost-ed25519-sha512"}, submitted(2, "development_key_permitted"),
           who=submitter(client="operation-gateway"), now=SATURDAY),
    vector("the creation of a development key by the gateway needs no approvals of its own",
           {"kind": "key_create", "asset_id": "asset-1", "purpose": "treasury", "participants": [0, 1, 2], "threshold": 2,
            "signature_profile": "frost-ed25519-sha512"}, (["development_key_permitted", "quorum_reached"], [], [], 0, True),
           moment="approval", who=submitter(client="operation-gateway"), facts={"deployment.required_approvals": "0"}),
]

# A rate that cannot be one: the policies in Rust and JavaScript have none for the currency, and the engine of Cedar uses no part of the table.
NOT_A_RATE = [("a rate of zero", with_rate("EUR", "0.0")), ("a rate that is no number", with_rate("EUR", "one")),
              ("a negative rate", with_rate("EUR", "-1"))]
CODE = [vector(name, SMALL, submitted(2, "amount_not_convertible"), rates=rates) for name, rates in NOT_A_RATE]

# The engine denies what it cannot evaluate with a code of its own.
CEDAR = [vector(name, SMALL, submitted(2, "cedar_error"), rates=rates) for name, rates in NOT_A_RATE] + [
    vector("a rate of zero for another currency", SMALL, submitted(2, "cedar_error"), rates=with_rate("USD", "0")),
    vector("a document that is no table of rates", SMALL, submitted(2, "cedar_error"), rates=["EUR", "1"]),
    vector("a fact that cannot be read", SMALL, (["cedar_error", "payment_permitted"], ["collect_approvals"], [], 4_294_967_295, False),
           facts={"deployment.required_approvals": "two"}),
]


def entities():
    holidays = json.loads((HERE / "bundle/data/holidays.json").read_text())
    return [{"uid": {"type": "Calendar", "id": "Zurich"}, "attrs": {"holidays": sorted(holidays)}, "parents": []}]


def main():
    differs = False
    for name, content in [("bundle/tests/treasury.json", SHARED), ("cedar/tests/cedar.json", CEDAR), ("code/tests/code.json", CODE),
                          ("cedar/data/entities.json", entities())]:
        file, text = HERE / name, json.dumps(content, indent=1) + "\n"
        if "--check" not in sys.argv[1:]:
            file.write_text(text)
        elif file.read_text() != text:
            print(f"{name} differs: run vectors.py")
            differs = True
    sys.exit(differs)


main()
