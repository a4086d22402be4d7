"""The addresses that the Python client asks, and events that the gateway does not have. Usage: python addressed.py BASE_URL"""

import sys
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin

import httpx
from operation_gateway import Gateway, GatewayError

base = sys.argv[1]


def refuses(kind: type[Exception], words: str, do: Any) -> Exception:
    try:
        do()
    except kind as error:
        assert words in str(error), error
        return error
    raise AssertionError(f"no {kind.__name__}")


def at(href: str) -> Any:
    return SimpleNamespace(links={"self": SimpleNamespace(href=href)})


for text in ("https://g.example", "https://g.example/", "https://g.example/one/gateway", "https://g.example/one/gateway/"):
    gateway = Gateway(text, "secret")
    asked: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((str(request.url), request.headers["authorization"]))
        return httpx.Response(200, json=[])

    client = gateway.api.get_httpx_client()
    client._transport = httpx.MockTransport(answer)
    gateway._send("GET", "/v1/operations/1")
    assert asked == [(text.removesuffix("/") + "/v1/operations/1", "Bearer secret")], asked
    assert not client.follow_redirects
    for wrong in ("//other.example/v1", "/\\other.example/v1", "https://other.example/v1", "v1", "", "/../v1", "/v1/%2e%2e/x"):
        refuses(ValueError, "is not a path of the gateway", lambda: gateway.evidence(at(wrong)))
    assert len(asked) == 1
for wrong in ("https://u:secret@g.example", "https://u@g.example", "https://g.example/?a=b", "https://g.example?", "https://g.example/#a", "ftp://g.example", "g.example", ""):
    error = refuses(ValueError, "the gateway's URL is not", lambda: Gateway(wrong))
    assert "secret" not in str(error)

own = Gateway(base)
assert own._send("GET", "/v1/caller").status_code == 200
redirected = Gateway(urljoin(base, "/elsewhere"), retry_seconds=0)
refuses(GatewayError, "307", lambda: redirected._send("GET", "/v1/caller"))
for after in ("999999-0123456789abcdef", "0-0123456789abcdef"):
    error = refuses(GatewayError, "410", lambda: next(own.events(after=after)))
    assert isinstance(error, GatewayError) and error.code == "event_not_in_log", error
first = next(own.events(0))
second = next(own.events(after=first.id))
assert int(second.id.split("-")[0]) > int(first.id.split("-")[0]), (first, second)
