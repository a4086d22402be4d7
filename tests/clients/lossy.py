"""A proxy that loses answers: clients must come through it without acting twice. Usage: python lossy.py BASE_URL

It prints its address, which has a path, as of a gateway behind a proxy that serves others too. The first time that a request comes, the gateway gets it and the client no answer; the second time, the answer is
503 and the gateway gets nothing; the third time, the answer breaks off. Each stream of events ends after two blocks. Below the path
`/elsewhere`, it redirects to the right one.
"""

import http.client
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

gateway = urlsplit(sys.argv[1])
seen: Counter[tuple[str, str, bytes]] = Counter()

HEADERS = ("content-type", "authorization", "idempotency-mismatch", "last-event-id")


PATH = "/one/gateway"


class Lossy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.startswith("/elsewhere/"):
            self.answer(307, b"", [("location", PATH + self.path.removeprefix("/elsewhere"))])
            return
        if not self.path.startswith(f"{PATH}/v1/"):
            self.answer(404, b"no gateway is here", [])
            return
        request = (self.command, self.path, body)
        seen[request] += 1
        if seen[request] == 2:
            self.answer(503, b'{"error":"policy_unavailable","message":"not now"}', [("retry-after", "0")])
            return
        connection = http.client.HTTPConnection(gateway.hostname or "", gateway.port)
        headers = {name: value for name in HEADERS if (value := self.headers.get(name)) is not None}
        connection.request(self.command, self.path.removeprefix(PATH), body, headers)
        answer = connection.getresponse()
        if answer.getheader("content-type") == "text/event-stream":
            self.stream(answer)
        elif self.path.startswith(f"{PATH}/v1/events"):
            self.answer(answer.status, answer.read(), [("content-type", "application/json")])
        elif seen[request] == 1:
            self.close_connection = True
        else:
            self.answer(answer.status, answer.read(), [("content-type", answer.getheader("content-type", ""))], seen[request] == 3)
        connection.close()

    do_GET = do_POST = forward

    def answer(self, status: int, body: bytes, headers: list[tuple[str, str]], breaks: bool = False) -> None:
        self.send_response(status)
        for name, value in [*headers, ("content-length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if breaks else body)
        self.close_connection = breaks

    def stream(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        blocks = 0
        while blocks < 2 and (line := answer.readline()):
            self.wfile.write(line)
            blocks += line == b"\n"
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """The script that runs it has its own log."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Lossy)
print(f"http://127.0.0.1:{server.server_port}{PATH}", flush=True)
server.serve_forever()
