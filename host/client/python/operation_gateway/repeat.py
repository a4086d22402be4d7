"""A transport that repeats requests."""

import time

import httpx

# Waits between two attempts, in seconds.
FIRST_WAIT = 0.2
LONGEST_WAIT = 10.0

# The gateway has not carried the request out, and says so.
REPEATED = (429, 503)


class Repeating(httpx.BaseTransport):
    """Repeats a request that gets no answer, 429 or 503, with growing waits, until `seconds` have passed.

    Every request of the gateway may be repeated: a submission has an idempotency key, and an action that was taken answers the same
    again.
    """

    def __init__(self, inner: httpx.BaseTransport, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        began, wait = time.monotonic(), FIRST_WAIT
        while True:
            error: httpx.TransportError | None = None
            answer: httpx.Response | None = None
            try:
                answer = self._inner.handle_request(request)
                if answer.headers.get("content-type") != "text/event-stream":
                    # An answer that breaks off is no answer.
                    answer.read()
            except httpx.TransportError as fault:
                answer, error = None, fault
            if answer is not None and answer.status_code not in REPEATED:
                return answer
            asked = _asked(answer)
            pause = wait if asked is None else min(max(asked, FIRST_WAIT), LONGEST_WAIT)
            if time.monotonic() - began + pause > self._seconds:
                if answer is not None:
                    return answer
                assert error is not None
                raise error
            if answer is not None:
                answer.close()
            time.sleep(pause)
            wait = min(2 * wait, LONGEST_WAIT)

    def close(self) -> None:
        self._inner.close()


def _asked(answer: httpx.Response | None) -> float | None:
    """The wait that the gateway asks for, in seconds."""
    seconds = answer.headers.get("retry-after", "") if answer is not None else ""
    return float(seconds) if seconds.isdecimal() else None
