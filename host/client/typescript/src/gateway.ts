import createClient, { type Client } from "openapi-fetch";
import { GatewayError, refusal, StillWaiting } from "./errors.js";
import { type Event, type EventFilter, follow } from "./events.js";
import { once, repeating, type Token } from "./repeat.js";
import type { components, paths } from "./schema.js";

/** The types of the OpenAPI document. */
export type Schemas = components["schemas"];

/** A payment or a custody operation. */
export type Operation = Schemas["OperationView"] | Schemas["CustodyOperationView"];

export interface Options {
  /** The bearer token, or what gets one for each request. Not sent over plain HTTP to another machine. */
  token?: Token;
  /** For how long a request is repeated that gets no answer, 429 or 503, in milliseconds. Default: 30,000. */
  retryForMs?: number;
  /** Instead of the global `fetch`, for example with certificate authorities of your own. */
  fetch?: typeof fetch;
}

/** How long one request waits for another state, in milliseconds. The gateway permits at most 30,000. */
const WAIT_ONCE_MS = 20_000;

/** A gateway. Numbers above 2^53 lose digits, as in all JSON that JavaScript parses; evidence is kept as text. */
export class Gateway {
  /** Every endpoint of the OpenAPI document, typed. It repeats requests as the methods below do. */
  readonly api: Client<paths>;
  readonly #base: URL;
  readonly #send: (request: Request) => Promise<Response>;
  readonly #open: (request: Request) => Promise<Response>;

  /** `baseUrl`: such as `https://gateway.example`, or `https://example.com/gateway` for one behind a path of a proxy. */
  constructor(baseUrl: string, { token, retryForMs = 30_000, fetch: send = fetch }: Options = {}) {
    this.#base = base(baseUrl);
    const isHere = ["localhost", "127.0.0.1", "[::1]"].includes(this.#base.hostname);
    if (token !== undefined && this.#base.protocol !== "https:" && !isHere) {
      throw new TypeError("a token is not sent over plain HTTP to another machine");
    }
    this.#send = repeating(send, token, retryForMs);
    this.#open = (request) => once(send, request, token, Infinity);
    // Another body under the same idempotency key is a mistake, which must not look like success.
    const headers = { "idempotency-mismatch": "reject" };
    this.api = createClient<paths>({ baseUrl: this.#base.href.slice(0, -1), fetch: this.#send, headers });
  }

  /** Submits a payment. A repeat with the same idempotency key is the same operation; another payment with it is refused. */
  async submit(payment: Schemas["SignOperationRequest"]): Promise<Operation> {
    return ok(await this.api.POST("/v1/operations/sign", { body: payment })).operation;
  }

  /** The operation, as it is now. */
  async refresh(operation: Operation): Promise<Operation> {
    return JSON.parse(await this.#text(path(operation))) as Operation;
  }

  /** Approves. */
  approve(operation: Operation, approval: Schemas["ApproveOperationRequest"]): Promise<Operation> {
    return this.#act(operation, "approve", approval);
  }

  /** Rejects, before the operation is admitted. */
  reject(operation: Operation, rejection: Schemas["RejectOperationRequest"]): Promise<Operation> {
    return this.#act(operation, "reject", rejection);
  }

  /** Cancels what the caller has submitted, before it is admitted. */
  cancel(operation: Operation, reason: string): Promise<Operation> {
    return this.#act(operation, "cancel", { reason });
  }

  /** Has the nodes sign, or change their shares. */
  execute(operation: Operation): Promise<Operation> {
    return this.#act(operation, "execute", {});
  }

  /** Publishes the result. */
  publish(operation: Operation, scope: Schemas["PublicationScope"], requestedAtMs = Date.now()): Promise<Operation> {
    return this.#act(operation, "publish", { scope, requested_at_ms: requestedAtMs });
  }

  /** Waits until `holds` for the operation. Throws `StillWaiting` after `withinMs` milliseconds. */
  async waitUntil(operation: Operation, holds: (now: Operation) => boolean, withinMs: number): Promise<Operation> {
    const deadline = Date.now() + withinMs;
    let now = await this.refresh(operation);
    while (!holds(now)) {
      const left = deadline - Date.now();
      if (left <= 0) throw new StillWaiting(now.state);
      const query = new URLSearchParams({ wait_ms: String(Math.min(left, WAIT_ONCE_MS)), unless_state: now.state });
      now = JSON.parse(await this.#text(`${path(operation)}?${query}`)) as Operation;
    }
    return now;
  }

  /** What happens to operations, without end, also while the gateway is away for a while. */
  events(filter: EventFilter = {}): AsyncGenerator<Event, never, undefined> {
    return follow((query, last, signal) => {
      const given = Object.entries(query).filter(([, value]) => value !== undefined);
      const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
      return this.#open(this.#request(`/v1/events?${text}`, { signal, headers: last === undefined ? {} : { "last-event-id": last } }));
    }, filter);
  }

  /** All pages of an operation's evidence, as texts: keep them as they are. */
  async evidence(operation: Operation): Promise<string[]> {
    const pages: string[] = [];
    for (let after: number | null | undefined = 0; after != null; ) {
      const page = await this.#text(`${path(operation)}/evidence?after_seq=${after}`);
      const next = (JSON.parse(page) as Schemas["EvidenceDocument"]).next_after_seq;
      pages.push(page);
      after = next != null && next > after ? next : null;
    }
    return pages;
  }

  async #act(operation: Operation, action: Schemas["ActionName"] | "reject" | "cancel", body: object): Promise<Operation> {
    const init = { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
    return JSON.parse(await this.#text(`${path(operation)}/${action}`, init)) as Operation;
  }

  async #text(path: string, init: RequestInit = {}): Promise<string> {
    const answer = await this.#send(this.#request(path, init));
    if (!answer.ok) throw await refusal(answer);
    return answer.text();
  }

  #request(path: string, init: RequestInit): Request {
    const isBelow = path.startsWith("/") && !/^\/[/\\]/.test(path);
    // Another address would get the token: `..` leads out of the path of the gateway.
    const url = isBelow ? new URL(this.#base.href + path.slice(1)) : undefined;
    if (url === undefined || !url.href.startsWith(this.#base.href)) throw new TypeError(`${path} is not a path of the gateway`);
    return new Request(url, init);
  }
}

/** The address below which all paths are; it ends with a slash. */
function base(text: string): URL {
  // The text may have credentials, so it is in no message.
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isBare = url !== undefined && !/[?#]/.test(text) && url.username === "" && url.password === "";
  if (!isBare || !["https:", "http:"].includes(url.protocol)) {
    throw new TypeError("the gateway's URL is not http(s)://HOST[:PORT][/PATH], without a name, a query and a fragment");
  }
  if (!url.pathname.endsWith("/")) url.pathname += "/";
  return url;
}

function path(operation: Operation): string {
  return operation.links["self"]?.href ?? "";
}

/** The data of an answer of `gateway.api`, or its error thrown. */
function ok<T>({ data, error, response }: { data?: T; error?: Schemas["ErrorBody"]; response: Response }): T {
  if (data === undefined) throw new GatewayError(response.status, error as Schemas["ErrorBody"]);
  return data;
}
