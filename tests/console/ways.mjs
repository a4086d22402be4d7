// Ways to the gateway that scenarios break, and what they note of a page.

import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';

/**
 * A way to the gateway, below this path, that counts streams of events, holds requests for them back, and refuses their ids. With `beatMs` it
 * adds what the gateway sends while nothing happens.
 */
export async function counting(gateway, path = '', { beatMs } = {}) {
  const streams = new Set();
  if (beatMs) setInterval(() => streams.forEach((stream) => stream.headersSent && stream.write(':\n\n')), beatMs);
  const proxy = { n: 0, holds: false, refuses: false, cut: () => streams.forEach((stream) => stream.destroy()) };
  const server = http.createServer(async (request, answer) => {
    if (!request.url.startsWith(`${path}/`)) return answer.writeHead(404).end();
    const url = gateway + request.url.slice(path.length);
    if (new URL(url).pathname === '/v1/events') {
      proxy.n += 1;
      while (proxy.holds) await new Promise((resolve) => setTimeout(resolve, 20));
      if (proxy.refuses && request.headers['last-event-id']) {
        answer.writeHead(410, { 'content-type': 'application/json' });
        return answer.end(JSON.stringify({ error: 'event_not_in_log', message: 'the log has no such event' }));
      }
      if (answer.destroyed) return undefined;
      streams.add(answer);
    }
    const asked = http.request(url, { method: request.method, headers: request.headers }, (given) => {
      answer.writeHead(given.statusCode, given.headers);
      given.pipe(answer);
    });
    asked.on('error', () => answer.destroy());
    answer.on('close', () => { streams.delete(answer); asked.destroy(); });
    return request.pipe(asked);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  proxy.base = `http://localhost:${server.address().port}${path}`;
  /** Waits until there are so many streams, which stay so many. */
  proxy.has = async (n) => {
    let since = null;
    for (const until = Date.now() + 20_000; since === null || Date.now() - since < 500;) {
      assert(Date.now() < until, `${streams.size} streams in place of ${n}`);
      if (streams.size !== n) since = null;
      else since ??= Date.now();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  return proxy;
}

/** A connection to the gateway that can be cut. */
export async function between(gateway) {
  const { hostname, port } = new URL(gateway);
  const open = new Set();
  let server = null;
  let at = 0;
  const up = () => new Promise((resolve) => {
    server = net.createServer((client) => {
      const there = net.connect(Number(port), hostname);
      for (const [one, other] of [[client, there], [there, client]]) {
        open.add(one);
        one.on('error', () => other.destroy()).on('close', () => { open.delete(one); other.destroy(); });
        one.pipe(other);
      }
    });
    server.listen(at, hostname, () => { at = server.address().port; resolve(); });
  });
  const down = () => new Promise((resolve) => {
    server.close(resolve);
    open.forEach((socket) => socket.destroy());
  });
  await up();
  return { base: `http://${hostname}:${at}`, up, down };
}

/** Notes how many streams a page has, and what it says to other tabs and hears of them. */
export function recording() {
  window.streams = 0;
  window.channels = [];
  const ask = window.fetch;
  window.fetch = async (...of) => {
    const answer = await ask(...of);
    if (String(of[0]).includes('/v1/events') && answer.ok) {
      window.streams += 1;
      of[1].signal.addEventListener('abort', () => { window.streams -= 1; });
    }
    return answer;
  };
  const Channel = window.BroadcastChannel;
  window.BroadcastChannel = class extends Channel {
    constructor(name) {
      super(name);
      this.addEventListener('message', ({ data }) => window.channels.push({ name, data }));
    }

    postMessage(data) {
      window.channels.push({ name: this.name, data });
      super.postMessage(data);
    }
  };
}

/** Makes the long waits of a page ten times as short. */
export function hurried() {
  const { setInterval: each, setTimeout: once } = window;
  window.setInterval = (run, ms) => each(run, ms / 10);
  window.setTimeout = (run, ms) => once(run, ms >= 30_000 ? ms / 10 : ms);
}
