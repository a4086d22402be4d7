// Requests to the gateway, with the reader's credentials, and its stream of events.

const KEPT = 'reader';
let reader = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null') ?? {};

/** The gateway's answer was an error. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.message ?? `the gateway answered with status ${status}`);
    this.status = status;
    this.code = body?.error ?? '';
    this.reasons = body?.reasons ?? [];
  }
}

/** Something else answered: a page of the proxy that signs people in, most likely. */
export class SignedOut extends Error {
  constructor() { super('the gateway did not answer, but something before it: you may be signed out'); }
}

/** There was no answer. */
export class Unreachable extends Error {
  constructor() { super('the gateway does not answer'); }
}

/** The credentials, which last as long as the tab: a token, or in development the name, roles and tenant that headers state. */
export const credentials = () => reader;

export function signIn(with_) {
  reader = with_;
  sessionStorage.setItem(KEPT, JSON.stringify(reader));
  // The stream of events was opened for someone else.
  streaming.abort();
}

let streaming = new AbortController();

function headers() {
  if (reader.token) return { authorization: `Bearer ${reader.token}` };
  if (!reader.subject) return {};
  const headers = {
    'x-client-id': 'console', 'x-subject-id': reader.subject, 'x-roles': reader.roles ?? '',
    'x-scopes': 'operations.* custody.* audit.read webhooks.manage',
  };
  return reader.tenant ? { ...headers, 'x-tenant': reader.tenant } : headers;
}

async function send(method, path, body, signal) {
  const with_ = body === undefined ? headers() : { ...headers(), 'content-type': 'application/json' };
  let answer;
  try {
    answer = await fetch(path, { method, headers: with_, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', redirect: 'manual', signal });
  } catch {
    throw new Unreachable();
  }
  // The gateway redirects nowhere.
  if (answer.type === 'opaqueredirect') throw new SignedOut();
  return answer;
}

/** Reads an answer of this type; one of another type is not the gateway's. `also` is a status whose answer is read too. */
async function read(answer, type, also) {
  const isOf = (type) => (answer.headers.get('content-type') ?? '').startsWith(type);
  const content = await answer.text().catch(() => { throw new Unreachable(); });
  if (!answer.ok && answer.status !== also) {
    if (isOf('application/json')) throw new Refused(answer.status, parsed(content));
    throw answer.status >= 500 ? new Unreachable() : new SignedOut();
  }
  if (!isOf(type)) throw new SignedOut();
  return content;
}

/** The text of an answer. */
export const text = async (path, type = 'text/plain') => read(await send('GET', path), type);

/** The JSON of an answer. */
export const ask = async (method, path, body, also) => parsed(await read(await send(method, path, body), 'application/json', also));

export const get = (path) => ask('GET', path);

/** An operation, and the text of its view: numbers in it may be larger than this language has. */
export async function viewOf(href) {
  const raw = await text(href, 'application/json');
  return { raw, view: parsed(raw) };
}

/** JSON. A whole number that would be rounded is kept as its text. */
function parsed(content) {
  const exact = (name, value, context) =>
    (typeof value === 'number' && !Number.isSafeInteger(value) && /^-?[0-9]+$/.test(context?.source ?? '') ? context.source : value);
  try { return JSON.parse(content, exact); } catch { return null; }
}

/** All pages of an operation's evidence, as texts. */
export async function evidencePages(href) {
  const pages = [];
  for (let after = 0; after !== null;) {
    const page = await text(`${href}/evidence?after_seq=${after}`, 'application/json');
    pages.push(page);
    after = JSON.parse(page).next_after_seq;
  }
  return pages;
}

/** The events of pages of evidence, with the fields that are disclosed in the place of their commitments. */
export function eventsOf(pages) {
  const opened = ({ event, event_hash: hash, disclosures }) => {
    for (const { path, value } of disclosures) {
      const names = path.split('/').slice(1).map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
      const last = names.pop();
      const step = (value, name) => (value !== null && typeof value === 'object' && Object.hasOwn(value, name) ? value[name] : undefined);
      const holder = names.reduce(step, event);
      if (step(holder, last) !== undefined) holder[last] = value;
    }
    return { event, hash };
  };
  return pages.flatMap((page) => JSON.parse(page).events.map(opened));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Follows what happens: calls `onEvent` for each event, `onState` with what is wrong, or with nothing, and `onAgain` if it may have missed events. It connects again by itself,
 * after the event that it knows last, also after a day without the gateway or with a computer that slept.
 */
export async function follow(onEvent, onState, onAgain) {
  let last = null;
  let wait = 1000;
  let isFirst = true;
  for (;;) {
    streaming = new AbortController();
    const { signal } = streaming;
    try {
      const answer = await send('GET', last === null ? '/v1/events' : `/v1/events?from=${last + 1}`, undefined, signal);
      const isStream = answer.ok && (answer.headers.get('content-type') ?? '').startsWith('text/event-stream');
      if (!isStream) throw await read(answer, 'text/event-stream').then(() => new SignedOut(), (error) => error);
      onState(null);
      wait = 1000;
      // What came before a first event was known, and was missed.
      if (!isFirst && last === null) onAgain();
      isFirst = false;
      for await (const { id, data } of blocks(answer.body)) {
        if (id !== null) last = id;
        if (data) onEvent(JSON.parse(data));
      }
    } catch (error) {
      if (!signal.aborted) {
        // A stream that was cut off says nothing of the gateway: the next one does.
        if ([Refused, Unreachable, SignedOut].some((kind) => error instanceof kind)) onState(error);
        wait = Math.min(wait * 2, 30_000);
      }
    }
    if (signal.aborted) {
      // Of another reader: what happens from now on.
      last = null;
      wait = 1000;
    } else {
      await Promise.race([pause(wait), new Promise((resolve) => signal.addEventListener('abort', resolve))]);
      if (signal.aborted) last = null;
    }
  }
}

/** The blocks of a stream of server-sent events. A stream that is silent for long is given up. */
async function* blocks(body) {
  const lines = body.pipeThrough(new TextDecoderStream()).getReader();
  let unread = '';
  try {
    for (;;) {
      const silence = pause(30_000).then(() => { throw new Error('the stream is silent'); });
      silence.catch(() => {});
      const { value, done } = await Promise.race([lines.read(), silence]);
      if (done) return;
      unread += value;
      const parts = unread.split('\n\n');
      unread = parts.pop();
      for (const part of parts) {
        const member = (name) => part.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        const id = member('id');
        yield { id: id === undefined ? null : Number(id), data: member('data') };
      }
    }
  } finally {
    lines.cancel().catch(() => {});
  }
}
