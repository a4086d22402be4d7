"""What can go wrong, beside `httpx.TransportError`: no answer came."""

from typing import Any

import httpx


class GatewayError(Exception):
    """The gateway refuses: programs rely on `code`; without one the answer is not the gateway's. `status` is the HTTP status."""

    def __init__(self, answer: httpx.Response) -> None:
        self.status = answer.status_code
        self.body: dict[str, Any] = {}
        try:
            body = answer.json()
            self.body = body if isinstance(body, dict) else {}
        except ValueError:
            pass
        self.code: str | None = self.body.get("error")
        super().__init__(f"the gateway answers {self.status} ({self.code}): {self.body.get('message')}")


class StillWaiting(Exception):
    """The time to wait is over; the operation is still in `state`."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"the operation is still `{state}`")
