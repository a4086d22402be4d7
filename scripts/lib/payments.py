"""Payments by the gateway's API: the bodies of requests, a client, and many clients at once."""

import collections
import http.client
import json
import threading
import time

from lib import die


def now_ms():
    return int(time.time() * 1000)


def caller(scope):
    return {"client_id": "treasury", "subject_id": "carol", "roles": ["operator"], "scopes": [scope]}


def submission(idempotency_key, **more):
    payment = {"from_account": "acct-operating", "to_account": "acct-supplier", "amount_minor": 12500, "currency": "EUR"}
    return {"idempotency_key": idempotency_key, "payment": payment, "requested_participants": [0, 1, 2], "publication_mode": "manual",
            "client": caller("operations.*"), **more}


def approval(subject):
    return {"subject_id": subject, "roles": ["approver"], "approved_at_ms": now_ms()}


def publication(scope="signature"):
    return {"scope": scope, "requested_at_ms": now_ms()}


class Client:
    """One connection at a time, kept open. With patience, errors of the connection and 503 are counted, and tried again at the next gateway."""

    def __init__(self, urls, first=0, patience_s=0):
        self.addresses, self.next, self.patience_s = [url.removeprefix("http://") for url in urls], first, patience_s
        self.connection, self.errors = None, collections.Counter()

    def ask(self, method, path, body=None, permitted=(200,)):
        """The text of the answer."""
        data = None if body is None else json.dumps(body)
        until = time.monotonic() + self.patience_s
        while True:
            try:
                if self.connection is None:
                    timeout = 20 if self.patience_s else 90
                    self.connection = http.client.HTTPConnection(self.addresses[self.next % len(self.addresses)], timeout=timeout)
                self.connection.request(method, path, data, {"content-type": "application/json"})
                answer = self.connection.getresponse()
                text = answer.read()
                if answer.status in permitted:
                    return text
                self.errors[str(answer.status)] += 1
                if answer.status != 503 or time.monotonic() > until:
                    die(f"{path}: {answer.status} {text.decode()}")
            except (OSError, http.client.HTTPException) as error:
                self.errors["connection"] += 1
                if time.monotonic() > until:
                    die(f"{path}: no gateway answers: {error!r}")
            self.connection = None
            self.next += 1
            time.sleep(0.01)

    def get(self, path):
        return json.loads(self.ask("GET", path))

    def post(self, path, body, permitted=(200,)):
        return json.loads(self.ask("POST", path, body, permitted))


class Payment:
    """A payment, request by request."""

    def __init__(self, client, idempotency_key, **more):
        self.client, self.body = client, submission(idempotency_key, **more)

    def submit(self):
        operation = self.client.post("/v1/operations/sign", self.body)["operation"]
        self.path = f"/v1/operations/{operation['operation_id']}"

    def approve(self, subject):
        self.client.ask("POST", f"{self.path}/approve", approval(subject))

    def execute(self, permitted=(200,)):
        self.client.ask("POST", f"{self.path}/execute", {}, permitted)

    def publish(self):
        self.client.ask("POST", f"{self.path}/publish", publication())

    def admission(self):
        return [("submit", self.submit), ("approve", lambda: self.approve("alice")), ("approve", lambda: self.approve("bob"))]

    def steps(self):
        return [*self.admission(), ("execute", self.execute), ("publish", self.publish)]

    def pay(self):
        for _, step in self.steps():
            step()
        return self.path


def in_threads(n, run):
    threads = [threading.Thread(target=run, args=(index,)) for index in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def median(values):
    return sorted(values)[len(values) // 2]
