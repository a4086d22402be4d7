import { GatewayError, NoAnswer, refusal } from "./errors.js";
import type { components, operations } from "./schema.js";

/** An event: what happened to an operation. */
export interface Event {
  /** Its name in the log of all events: its index there, and the beginning of its hash. Keep the last one to go on after your own restart. */
  id: string;
  operation_id: string;
  /** The path of the operation. */
  href: string;
  /** Its number among the events of the operation, from 1. */
  seq: number;
  /** What happened, such as `approved`. */
  type: string;
  /** The state after it. */
  state: components["schemas"]["OperationState"];
  operation_type: components["schemas"]["CustodyOperationType"];
  key_ref: string;
  /** Milliseconds since 1970. */
  at_ms: number;
}

/**
 * Which events: only those of a state, an operation type, a key or an operation. `after` is the id of the last one that is known, or `from`
 * the index of the first; without both, from now on.
 */
export type EventFilter = NonNullable<operations["events"]["parameters"]["query"]> & { after?: string };

/** A stream that is silent for longer is given up: the gateway says something every ten seconds. */
const SILENT_FOR_MS = 30_000;

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 30_000;

type Open = (query: Omit<EventFilter, "after">, last: string | undefined, signal: AbortSignal) => Promise<Response>;

/**
 * Events without end. Connects again by itself, after the last event, so that none is missed and none comes twice. If the gateway no longer
 * has the last event, since it was restored from an older copy, it throws a `GatewayError` with the code `event_not_in_log`: read again what
 * you follow, and begin without an id.
 */
export async function* follow(open: Open, filter: EventFilter): AsyncGenerator<Event, never, undefined> {
  const { after, ...query } = filter;
  let last = after;
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
    const silence = new Silence();
    try {
      const answer = await open(query, last, silence.signal);
      if (!answer.ok || answer.body === null) throw await refusal(answer);
      wait = FIRST_WAIT_MS;
      for await (const { id, data } of blocks(answer.body, silence)) {
        last = id;
        if (data !== undefined) yield { ...(JSON.parse(data) as Event), id };
      }
    } catch (error) {
      const isFinal = error instanceof GatewayError && error.status < 500 && error.status !== 429;
      if (isFinal || error instanceof SyntaxError) throw error;
    } finally {
      // Also when the caller takes no more events: the connection ends.
      silence.end();
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** Ends a connection that says nothing. */
class Silence {
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly signal = this.#controller.signal;

  constructor() {
    this.heard();
  }

  heard(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end(), SILENT_FOR_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#controller.abort(new NoAnswer("the stream of events ended"));
  }
}

/** The blocks of a stream that have an id; one without data says how far the log was read. */
async function* blocks(body: ReadableStream<Uint8Array>, silence: Silence): AsyncGenerator<{ id: string; data: string | undefined }> {
  const decoder = new TextDecoder();
  let unread = "";
  for await (const chunk of body) {
    silence.heard();
    unread += decoder.decode(chunk, { stream: true });
    const parts = unread.split("\n\n");
    unread = parts.pop() ?? "";
    for (const part of parts) {
      const fields = new Map(part.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
      const id = fields.get("id");
      if (id !== undefined) yield { id, data: fields.get("data") };
    }
  }
}
