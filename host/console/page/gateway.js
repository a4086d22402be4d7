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

/** There was no answer. */
export class Unreachable extends Error {
  constructor() { super('the gateway does not answer'); }
}

/** The credentials, which last as long as the tab: a token, or in development the name, roles and tenant that headers state. */
export const credentials = () => reader;

export function signIn(with_) {
  reader = with_;
  sessionStorage.setItem(KEPT, JSON.stringify(reader));
}

function headers() {
  if (reader.token) return { authorization: `Bearer ${reader.token}` };
  if (!reader.subject) return {};
  const headers = {
    'x-client-id': 'console', 'x-subject-id': reader.subject, 'x-roles': reader.roles ?? '',
    'x-scopes': 'operations.* custody.* audit.read webhooks.manage',
  };
  return reader.tenant ? { ...headers, 'x-tenant': reader.tenant } : headers;
}

async function send(method, path, body) {
  const with_ = body === undefined ? headers() : { ...headers(), 'content-type': 'application/json' };
  try {
    return await fetch(path, { method, headers: with_, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store' });
  } catch {
    throw new Unreachable();
  }
}

/** The text of an answer. */
export async function text(path) {
  const answer = await send('GET', path);
  const content = await answer.text();
  if (!answer.ok) throw new Refused(answer.status, parsed(content));
  return content;
}

/** The JSON of an answer. */
export async function ask(method, path, body) {
  const answer = await send(method, path, body);
  const content = parsed(await answer.text());
  if (!answer.ok) throw new Refused(answer.status, content);
  return content;
}

export const get = (path) => ask('GET', path);

function parsed(content) {
  try { return JSON.parse(content); } catch { return null; }
}

/** All pages of an operation's evidence, as texts. */
export async function evidencePages(href) {
  const pages = [];
  for (let after = 0; after !== null;) {
    const page = await text(`${href}/evidence?after_seq=${after}`);
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
      const holder = names.reduce((value, name) => value?.[name], event);
      if (holder) holder[last] = value;
    }
    return { event, hash };
  };
  return pages.flatMap((page) => JSON.parse(page).events.map(opened));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Follows what happens: calls `onEvent` for each event, and `onState` with what is wrong, or with nothing. It connects again by itself,
 * after the event that it knows last, also after a day without the gateway or with a computer that slept.
 */
export async function follow(onEvent, onState) {
  let last = null;
  let wait = 1000;
  for (;;) {
    try {
      const answer = await send('GET', last === null ? '/v1/events' : `/v1/events?from=${last + 1}`);
      if (!answer.ok) throw new Refused(answer.status, parsed(await answer.text()));
      onState(null);
      wait = 1000;
      for await (const { id, data } of blocks(answer.body)) {
        if (id !== null) last = id;
        if (data) onEvent(JSON.parse(data));
      }
    } catch (error) {
      // A stream that was cut off says nothing of the gateway: the next one does.
      if (error instanceof Refused || error instanceof Unreachable) onState(error);
      wait = Math.min(wait * 2, 30_000);
    }
    await pause(wait);
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
