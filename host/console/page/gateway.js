// Requests to the gateway, with the reader's credentials, and its stream of events. In one file: the first view loads no more of them than
// browsers open connections to a host.

const KEPT = 'reader';
let reader = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null') ?? {};

/** The gateway's answer was an error. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.message ?? `the gateway answered with status ${status}`);
    this.status = status;
    this.code = body?.error ?? '';
    this.reasons = body?.reasons ?? [];
    /** The record of a denial by the policy. */
    this.decisionId = body?.decision_id ?? null;
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
  // What another reader may see: from now on.
  tab.leave();
  tab.begin();
  part.abort();
}

/** The gateway's address: the page is one folder below it, also behind a path of a proxy. */
const base = new URL('..', document.baseURI).pathname.replace(/\/$/, '');

function headers() {
  if (reader.token) return { authorization: `Bearer ${reader.token}` };
  if (!reader.subject) return {};
  const headers = {
    'x-client-id': 'console', 'x-subject-id': reader.subject, 'x-roles': reader.roles ?? '',
    'x-scopes': 'operations.* custody.* audit.read webhooks.manage',
  };
  return reader.tenant ? { ...headers, 'x-tenant': reader.tenant } : headers;
}

async function send(method, path, body, { signal, headers: further } = {}) {
  const with_ = { ...headers(), ...further };
  if (body !== undefined) with_['content-type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(base + path, { method, headers: with_, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', redirect: 'manual', signal });
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

/** Why an answer is not what was asked for. */
const refusal = (answer) => read(answer, 'application/json').then(() => new SignedOut(), (error) => error);

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

// Because of those six connections all tabs of a reader that are seen share one stream: a lock elects the tab that has it and passes on what
// it gets, and the next one goes on where that one ended. A tab that is hidden has no part in it.

/** A stream says something every ten seconds. One that is silent for so long is given up. */
const SILENT_MS = 30_000;

/** The tab that has the stream passes that on. From one that is silent for so many seconds of this tab, the stream is taken. */
const TAB_SILENT_S = 60;

/** A page is asked for when its tab begins. If the first event that the tab knows of is later than this, some before it may be missing. */
const BEGINS_MS = 5000;

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30_000;

const pause = (ms, signal) => new Promise((resolve) => {
  if (signal.aborted) return resolve();
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
  return undefined;
});

/** The place of an event in the log; without one, that before all. */
const place = (id) => (id === null ? -1 : Number(id.split('-')[0]));

/** What this tab knows. */
const tab = {
  /** The id of the last event that it knows of, also while it is hidden. */
  last: null,
  /** Until when a first event tells the tab where it begins. */
  beginsUntil: 0,
  /** The tab with the stream, as long as this one gets everything that it passes on. */
  leader: null,
  /** What a tab with the stream passes on, while this one reads what came before. */
  unread: null,
  /** For how long it heard nothing, counted by its own timer: while the computer sleeps, no tab says anything. */
  silentS: 0,

  begin() {
    Object.assign(this, { last: null, beginsUntil: Date.now() + BEGINS_MS });
  },

  /** Whether something may have happened since the page was asked for of which the tab does not know. */
  hasMissed() {
    return this.last === null && Date.now() >= this.beginsUntil;
  },

  /** Takes what the tab with the stream says. Answers whether what came before has to be read first. */
  take(message) {
    const { leader, id = null, before, data, state, again } = message;
    this.silentS = 0;
    if (state !== undefined) this.onState(state);
    if (state) this.beginsUntil = 0;
    if (again) {
      Object.assign(this, { last: null, leader, unread: null });
      this.onAgain();
    } else if (id !== null && leader === this.leader) {
      this.got(id, data);
    } else if (id !== null && (this.last === null || this.last === before)) {
      if (this.hasMissed()) this.onAgain();
      Object.assign(this, { leader, unread: null });
      this.got(id, data);
    } else if (id !== null) {
      if (this.unread?.leader === leader) this.unread.messages.push(message);
      else this.unread = { leader, messages: [message] };
      return this.unread.messages.length === 1;
    }
    return false;
  },

  got(id, data) {
    if (place(id) <= place(this.last)) return;
    this.last = id;
    if (data) this.onEvent(JSON.parse(data));
  },

  leave() {
    Object.assign(this, { leader: null, unread: null });
  },
};

let part = new AbortController();

/**
 * Follows what happens while the page is seen: calls `onEvent` for each event, `onState` with what is wrong, or with nothing, and `onAgain`
 * if it may have missed events. It goes on after the event that it knows last, also after a day without the gateway or with a computer that
 * slept.
 */
export async function follow(onEvent, onState, onAgain) {
  Object.assign(tab, { onEvent, onState, onAgain });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) return;
    tab.beginsUntil = 0;
    part.abort();
  });
  await seen();
  tab.begin();
  for (let wait = FIRST_WAIT_MS; ;) {
    await seen();
    part = new AbortController();
    const { signal } = part;
    try {
      await share(await group(), signal);
      wait = FIRST_WAIT_MS;
    } catch (error) {
      if (!signal.aborted) tab.take({ state: error.message });
      await pause(wait, signal);
      wait = Math.min(2 * wait, LONGEST_WAIT_MS);
    }
  }
}

/** Waits until the page is seen. */
export const seen = () => new Promise((resolve) => {
  const look = () => {
    if (document.hidden) return;
    document.removeEventListener('visibilitychange', look);
    resolve();
  };
  document.addEventListener('visibilitychange', look);
  look();
});

const isSignedInBefore = () => Object.keys(credentials()).length === 0;

/**
 * The name under which tabs share a stream: the same for those that send the same credentials, and no others. It does not tell them. If the
 * proxy in front has them, it is that of the caller. `null` if the browser has no locks: over HTTP to another machine.
 */
async function group() {
  if (!navigator.locks) return null;
  const reader = isSignedInBefore() ? [await get('/v1/caller')] : credentials();
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(reader)));
  return `events-${Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** Takes part in the stream of this group, until `signal`. */
async function share(name, signal) {
  if (name === null) return lead(name, { postMessage() {} }, signal);
  const channel = new BroadcastChannel(name);
  channel.onmessage = ({ data: message }) => {
    if (signal.aborted) return;
    if (message.hello) channel.answer?.();
    else if (tab.take(message)) catchUp(name, signal);
  };
  channel.postMessage({ hello: true });
  try {
    for (let isStuck = false; isStuck !== null;) isStuck = await elected(name, isStuck, signal, (own) => lead(name, channel, own));
  } finally {
    channel.close();
    tab.leave();
  }
  return undefined;
}

/** Waits for the lock, then leads. Answers whether the tab that has the lock is silent, and `null` at the end. */
async function elected(name, isStuck, signal, leads) {
  const [waiting, leading] = [new AbortController(), new AbortController()];
  let isLeading = false;
  tab.silentS = 0;
  const listening = setInterval(() => {
    tab.silentS += 1;
    if (!isLeading && tab.silentS > TAB_SILENT_S) waiting.abort();
  }, 1000);
  const options = isStuck ? { steal: true } : { signal: AbortSignal.any([signal, waiting.signal]) };
  try {
    await navigator.locks.request(name, options, () => {
      isLeading = true;
      return leads(AbortSignal.any([signal, leading.signal]));
    });
    return null;
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
    // The page is hidden; or the lock was taken away, and is waited for again.
    return signal.aborted ? null : waiting.signal.aborted;
  } finally {
    clearInterval(listening);
    leading.abort();
  }
}

/** Has the stream, and passes on what it gets. */
async function lead(name, channel, signal) {
  const leader = `${Date.now()} ${Math.random()}`;
  let [state, wait] = [null, FIRST_WAIT_MS];
  const tell = (message) => channel.postMessage({ leader, ...message });
  const pass = (message) => { tell(message); tab.take({ leader, ...message }); };
  Object.assign(tab, { leader, unread: null });
  channel.answer = () => tell({ state, id: tab.last, before: tab.last });
  while (!signal.aborted) {
    const connection = new AbortController();
    try {
      // The proxy in front may have another reader by now.
      if (name !== null && isSignedInBefore() && await group() !== name) break;
      const answer = await connect(tab.last, signal, connection);
      const again = tab.hasMissed();
      state = null;
      pass({ state, again });
      wait = FIRST_WAIT_MS;
      for await (const { id, data } of blocks(answer.body)) {
        if (signal.aborted) break;
        // The first block without data names what was there. One without an id says only that the stream lives.
        if (id === null) tell({});
        else pass({ id, data, before: tab.last ?? (data ? null : id) });
      }
    } catch (error) {
      if (error.code === 'event_not_in_log' && tab.last !== null) {
        // The gateway was restored from an older copy.
        Object.assign(tab, { last: null, beginsUntil: 0 });
        continue;
      }
      // A stream that was cut off says nothing of the gateway: the next one does.
      if (!signal.aborted && [Refused, Unreachable, SignedOut].some((kind) => error instanceof kind)) pass({ state: state = error.message });
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    } finally {
      connection.abort();
    }
    await pause(wait, signal);
  }
  channel.answer = undefined;
  tab.leave();
}

/** Reads what this tab missed, up to where the tab with the stream is. One tab does so at a time. */
async function catchUp(name, signal) {
  const { unread } = tab;
  const isDue = () => tab.unread === unread && !signal.aborted;
  const isThere = () => tab.last === null || place(tab.last) >= place(unread.messages[0].before);
  for (let wait = FIRST_WAIT_MS; isDue(); wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
    let isKnown = false;
    try {
      await navigator.locks.request(`${name}-missed`, { signal }, async () => {
        const connection = new AbortController();
        try {
          const answer = await connect(tab.last, signal, connection);
          isKnown = true;
          for await (const { id, data } of blocks(answer.body)) {
            if (isDue() && id !== null) tab.got(id, data);
            if (!isDue() || isThere()) break;
          }
        } finally {
          connection.abort();
        }
      });
    } catch (error) {
      if (isDue() && error.code === 'event_not_in_log') {
        tab.last = null;
        tab.onAgain();
        isKnown = true;
      }
    }
    if (isDue() && isKnown && isThere()) {
      Object.assign(tab, { leader: unread.leader, unread: null });
      unread.messages.forEach((message) => tab.take(message));
    } else if (isDue()) {
      await pause(wait, signal);
    }
  }
}

/** The stream after this event; without one, from now on. It ends with `signal` or `connection`, and if there is no answer for long. */
async function connect(last, signal, connection) {
  const timer = setTimeout(() => connection.abort(), SILENT_MS);
  const until = AbortSignal.any([signal, connection.signal]);
  const asked = send('GET', '/v1/events', undefined, { signal: until, headers: last === null ? {} : { 'last-event-id': last } });
  const answer = await asked.finally(() => clearTimeout(timer));
  if (!answer.ok || !(answer.headers.get('content-type') ?? '').startsWith('text/event-stream')) throw await refusal(answer);
  return answer;
}

/** The blocks of a stream of server-sent events. A stream that is silent for long is given up. */
async function* blocks(body) {
  const lines = body.pipeThrough(new TextDecoderStream()).getReader();
  let unread = '';
  try {
    for (;;) {
      let timer;
      const silence = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('the stream is silent')), SILENT_MS); });
      const { value, done } = await Promise.race([lines.read(), silence]).finally(() => clearTimeout(timer));
      if (done) return;
      unread += value;
      const parts = unread.split('\n\n');
      unread = parts.pop();
      for (const part of parts) {
        const member = (name) => part.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        yield { id: member('id') ?? null, data: member('data') ?? null };
      }
    }
  } finally {
    lines.cancel().catch(() => {});
  }
}
