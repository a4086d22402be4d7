"""The requests."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx
from operation_gateway_client import AuthenticatedClient, Client
from operation_gateway_client.models import (
    ApproveOperationRequest,
    CustodyOperationView,
    OperationView,
    RejectOperationRequest,
    SignOperationRequest,
)

from .errors import GatewayError, StillWaiting
from .repeat import FIRST_WAIT, LONGEST_WAIT, Repeating

Operation = OperationView | CustodyOperationView

T = TypeVar("T", OperationView, CustodyOperationView)

# Time limit for an answer, in seconds: above the gateway's own.
ANSWER_WITHIN = 75.0

# How long one request waits for another state, in seconds. The gateway permits at most 30.
WAIT_ONCE = 20.0

# A stream that is silent for longer, in seconds, is given up: the gateway says something every ten.
SILENT_FOR = 30.0


@dataclass(frozen=True)
class Event:
    """What happened to an operation. `id` is its name in the log of all events: its index there, and the beginning of its hash. `seq` is its
    number among those of the operation."""

    id: str
    operation_id: str
    href: str
    seq: int
    type: str
    state: str
    operation_type: str
    key_ref: str
    at_ms: int


class Gateway:
    """A gateway. `api` is the generated client, for every other endpoint; it repeats requests as the methods here do."""

    def __init__(
        self, base_url: str, token: str | None = None, *, retry_seconds: float = 30.0, verify: Any = True
    ) -> None:
        """`base_url`: such as `https://gateway.example`, or `https://example.com/gateway` for one behind a path of a proxy. `verify`: as `httpx` has it, for certificate authorities of your own.

        A request that gets no answer, 429 or 503 is repeated for `retry_seconds`. A token is not sent over plain HTTP to another
        machine.
        """
        url = httpx.URL(base_url)
        if url.scheme not in ("https", "http") or not url.host or url.userinfo or any(mark in base_url for mark in "?#"):
            # It may have credentials, so it is not in the message.
            raise ValueError("the gateway's URL is not http(s)://HOST[:PORT][/PATH], without a name, a query and a fragment")
        if token is not None and url.scheme != "https" and url.host not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError("a token is not sent over plain HTTP to another machine")
        transport = Repeating(httpx.HTTPTransport(verify=verify), retry_seconds)
        options: dict[str, Any] = {
            "base_url": base_url,
            "timeout": httpx.Timeout(ANSWER_WITHIN),
            # Another body under the same idempotency key is a mistake, which must not look like success.
            "headers": {"idempotency-mismatch": "reject"},
            # With the transport: what it does not repeat, and no proxy of the environment, is in the way of the token.
            "httpx_args": {"transport": transport},
        }
        self.api: Client | AuthenticatedClient = (
            Client(**options) if token is None else AuthenticatedClient(token=token, **options)
        )

    def submit(self, payment: SignOperationRequest) -> OperationView:
        """Submits a payment. A repeat with the same idempotency key is the same operation; another payment with it is refused."""
        answer = self._send("POST", "/v1/operations/sign", payment.to_dict())
        return OperationView.from_dict(answer.json()["operation"])

    def refresh(self, operation: T) -> T:
        """The operation, as it is now."""
        return type(operation).from_dict(self._send("GET", _path(operation)).json())

    def approve(self, operation: T, approval: ApproveOperationRequest) -> T:
        """Approves."""
        return self._act(operation, "approve", approval.to_dict())

    def reject(self, operation: T, rejection: RejectOperationRequest) -> T:
        """Rejects, before the operation is admitted."""
        return self._act(operation, "reject", rejection.to_dict())

    def cancel(self, operation: T, reason: str) -> T:
        """Cancels what the caller has submitted, before it is admitted."""
        return self._act(operation, "cancel", {"reason": reason})

    def execute(self, operation: T) -> T:
        """Has the nodes sign, or change their shares."""
        return self._act(operation, "execute", {})

    def publish(self, operation: T, scope: str, requested_at_ms: int) -> T:
        """Publishes the result: `scope` is `signature`, `public_key` or another one of the interface."""
        return self._act(operation, "publish", {"scope": str(scope), "requested_at_ms": requested_at_ms})

    def wait_until(self, operation: T, holds: Callable[[T], bool], seconds: float) -> T:
        """Waits until `holds` for the operation. Raises `StillWaiting` after `seconds`."""
        deadline = time.monotonic() + seconds
        now = self.refresh(operation)
        while not holds(now):
            left = deadline - time.monotonic()
            if left <= 0:
                raise StillWaiting(str(now.state))
            wait = {"wait_ms": int(1000 * min(left, WAIT_ONCE)), "unless_state": str(now.state)}
            now = type(operation).from_dict(self._send("GET", _path(operation), query=wait).json())
        return now

    def events(self, start: int | None = None, *, after: str | None = None, **query: str) -> Iterator[Event]:
        """What happens to operations, after the event of this id, or from this index of the log on, or from now on; without end, also while the
        gateway is away.

        `query`: only events of this `state`, `operation_type`, `key_ref` or `operation_id`. None is missed and none comes twice. If the
        gateway no longer has the last event, since it was restored from an older copy, this raises `GatewayError` with the code
        `event_not_in_log`: read again what you follow, and begin without an id.
        """
        wait = FIRST_WAIT
        while True:
            try:
                given = query if start is None else {**query, "from": str(start)}
                headers = {} if after is None else {"last-event-id": after}
                client = self.api.get_httpx_client()
                stream = client.stream("GET", "/v1/events", params=given, headers=headers, timeout=SILENT_FOR)
                with stream as answer:
                    if answer.status_code != 200:
                        answer.read()
                        raise GatewayError(answer)
                    wait = FIRST_WAIT
                    for event_id, data in _blocks(answer):
                        after = event_id
                        if data is not None:
                            known = {name: data[name] for name in Event.__annotations__ if name != "id"}
                            yield Event(id=event_id, **known)
            except GatewayError as error:
                if error.status < 500 and error.status != 429:
                    raise
            except httpx.TransportError:
                pass
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def evidence(self, operation: Operation) -> list[str]:
        """All pages of the operation's evidence, as texts: keep them as they are."""
        pages: list[str] = []
        after: int | None = 0
        while after is not None:
            page = self._send("GET", f"{_path(operation)}/evidence", query={"after_seq": after}).text
            following = json.loads(page).get("next_after_seq")
            pages.append(page)
            after = following if following is not None and following > after else None
        return pages

    def _act(self, operation: T, action: str, body: dict[str, Any]) -> T:
        return type(operation).from_dict(self._send("POST", f"{_path(operation)}/{action}", body).json())

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None = None, query: dict[str, Any] | None = None
    ) -> httpx.Response:
        answer = self.api.get_httpx_client().request(method, path, json=body, params=query)
        if answer.status_code != 200:
            raise GatewayError(answer)
        return answer


def _path(operation: Operation) -> str:
    path: str = operation.links["self"].href
    # Another address would get the token.
    segments = unquote(path).split("/")
    if not path.startswith("/") or path.startswith("//") or ".." in segments or "\\" in path:
        raise ValueError(f"{path} is not a path of the gateway")
    return path


def _blocks(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """The blocks of a stream that have an id; one without data says how far the log was read."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "id" in fields:
            yield fields["id"], json.loads(fields["data"]) if "data" in fields else None
        fields = {}
