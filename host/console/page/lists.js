// Lists: operations, keys, the policy's bundles, the log.

import { el, time, code, short, facts, table, card, alert, said } from './elements.js';
import { ask, get, text, Refused } from './gateway.js';
import { sentence, state } from './words.js';

export const hrefOf = (operation) => `#${operation.links.self.href}`;

export function stateOf(operation) {
  const [words, kind] = state(operation);
  return el('span', { class: `state ${kind}` }, words);
}

/** What was asked for, or `null` if the reader may not see it, or it is not there. */
export async function optional(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Refused && [403, 404].includes(error.status)) return null;
    throw error;
  }
}

const FAMILIES = [['/v1/operations', 'payments', 'operations.read'], ['/v1/custody/operations', 'custody operations', 'custody.read']];

/** How many operations the first view shows of those that await the reader: it must be there at once, also over a slow connection. */
const FIRST = 10;

/**
 * A list of operations of both families, newest first, that grows by pages. `query`: what is asked for. Families that the reader may not
 * see are named in `hidden`.
 */
class Operations {
  constructor(query, limit) {
    Object.assign(this, { query, limit, shown: [], waiting: FAMILIES.map(() => []), cursors: FAMILIES.map(() => ''), hidden: [] });
  }

  /** Reads up to `limit` more. */
  async more() {
    await Promise.all(FAMILIES.map(async ([path, words, scope], nth) => {
      if (this.cursors[nth] === null || this.waiting[nth].length >= this.limit) return;
      const cursor = this.cursors[nth] === '' ? '' : `&cursor=${this.cursors[nth]}`;
      try {
        const page = await get(`${path}?${this.query}&limit=${this.limit}${cursor}`);
        this.waiting[nth].push(...page.operations);
        this.cursors[nth] = page.next_cursor ?? null;
      } catch (error) {
        if (!(error instanceof Refused && error.status === 403)) throw error;
        this.cursors[nth] = null;
        this.hidden.push(`${words} (scope ${scope})`);
      }
    }));
    // What comes after the last operation of a family that has more is not known yet.
    for (let n = 0; n < this.limit; n += 1) {
      const next = this.waiting.map((list, nth) => [list[0], nth]);
      if (next.some(([first, nth]) => first === undefined && this.cursors[nth] !== null)) break;
      const [newest] = next.filter(([first]) => first !== undefined).sort(([one], [other]) => other.created_at_ms - one.created_at_ms);
      if (newest === undefined) break;
      this.shown.push(this.waiting[newest[1]].shift());
    }
    return this;
  }

  get hasMore() {
    return this.cursors.some((cursor) => cursor !== null) || this.waiting.some((list) => list.length > 0);
  }
}

const COLUMNS = ['Operation', 'State', 'Approvals', 'Submitted'];

function operationsTable(caption, all) {
  const row = (operation) => [
    el('a', { href: hrefOf(operation) }, sentence(operation.intent, operation.intent.key_ref ?? operation.key_ref)),
    stateOf(operation),
    `${operation.approvals.approved} of ${operation.approvals.required}`,
    time(operation.created_at_ms),
  ];
  return table(caption, COLUMNS, all.map(row));
}

/** A button that reads more of a list into `body`. */
function showMore(more, body) {
  const onclick = ({ currentTarget: button }) => {
    button.disabled = true;
    more().catch((error) => { button.disabled = false; body.append(alert(error.message)); });
  };
  return el('p', {}, el('button', { type: 'button', class: 'second', onclick }, 'Show more'));
}

/**
 * A list that grows by pages. `read(cursor)` gives the entries of a page and the cursor of the next one, `show(entries, hasMore)` the element
 * of all that were read.
 */
export async function growing(read, show) {
  const [all, body] = [[], el('div', {})];
  const more = async (cursor) => {
    const n = all.length;
    const [entries, next] = await read(cursor);
    all.push(...entries);
    body.replaceChildren(...[show(all, Boolean(next)), next ? showMore(() => more(next), body) : null].filter(Boolean));
    // Who reads by keyboard goes on with the first new entry.
    if (cursor !== null) (body.querySelectorAll('tbody a')[n] ?? body.querySelector('button'))?.focus();
  };
  await more(null);
  return body;
}

/** What a reader who lacks this scope is told. */
export const lacks = (scope, { identity }) => el('div', {},
  el('p', {}, 'You need the scope ', code(scope), ' to see this. Ask the operator of the gateway, or those who issue your token, for it.'),
  identity ? el('p', { class: 'quiet' }, `Your scopes: ${identity.scopes.join(', ') || 'none'}.`) : null);

/** A list that was read, with a button for more. */
function section(title, list, none) {
  const body = el('div', {});
  const show = () => {
    body.replaceChildren(...[
      list.hidden.length > 0 ? el('p', { class: 'quiet' }, `Not shown to you: ${list.hidden.join(', ')}.`) : null,
      list.shown.length > 0 ? operationsTable(title, list.shown) : null,
      list.shown.length === 0 && list.hidden.length < FAMILIES.length ? el('p', { class: 'quiet' }, list.hasMore ? 'None on the newest pages.' : none) : null,
      list.hasMore ? showMore(() => list.more().then(show), body) : null,
    ].filter(Boolean));
  };
  show();
  return [el('h2', {}, title), body];
}

/** The newest operations that await the reader. */
export const awaitingMe = () => new Operations('awaiting=me', FIRST).more();

/** What awaits the reader, at once; then all that waits, and what is newest. */
export async function overview({ identity }, { early }) {
  const mine = identity ? await (early ?? awaitingMe()) : null;
  const rest = el('div', {}, el('p', { class: 'quiet' }, 'Loading…'));
  const load = async () => {
    const [pending, newest] = await Promise.all([new Operations('state=pending_approval', 25).more(), new Operations('', 25).more()]);
    rest.replaceChildren(
      ...section('All that waits for approvals', pending, 'Nothing waits for approvals.'),
      ...section('Newest', newest, 'There are no operations yet.'));
  };
  setTimeout(() => load().catch((error) => rest.replaceChildren(alert(error.message))));
  return [el('h1', {}, 'Operations'), mine ? section('Awaiting you', mine, 'Nothing awaits you.') : null, rest];
}

export async function keys() {
  const row = (key) => [
    el('a', { href: `#/v1/custody/keys/${encodeURIComponent(key.key_ref)}` }, said(key.key_ref)), key.state, said(key.asset_id),
    `${key.threshold} of ${key.participants.length}`, key.active_epoch ?? 'none',
  ];
  const read = async (cursor) => {
    const page = await get(`/v1/custody/keys?limit=50${cursor ? `&cursor=${cursor}` : ''}`);
    return [page.keys, page.next_cursor];
  };
  const show = (all) => (all.length === 0 ? el('p', {}, 'There are no keys yet.') : table('Keys', ['Key', 'State', 'Asset', 'Signers', 'Epoch'], all.map(row)));
  return [el('h1', {}, 'Keys'), await growing(read, show)];
}

export async function key(href) {
  const [shown, list] = await Promise.all([get(href), get(`${href}/operations?limit=50`)]);
  return [
    el('h1', {}, 'Key ', said(shown.key_ref)),
    card('State', facts([
      ['State', shown.state], ['Asset', said(shown.asset_id)], ['Purpose', said(shown.purpose)], ['Tenant', said(shown.tenant_id)],
      ['Signature profile', shown.signature_profile], ['Public key', shown.public_key_hex && code(shown.public_key_hex)],
      ['Public key of payments', shown.payments_public_key_hex && code(shown.payments_public_key_hex)],
      ['Key id', code(shown.key_id)], ['Created', time(shown.created_at_ms)],
    ])),
    card('Epoch and roster', facts([
      ['Epoch', shown.active_epoch], ['Since', shown.active_epoch_since_ms && time(shown.active_epoch_since_ms)],
      ['Root', shown.active_epoch_root && code(shown.active_epoch_root)],
      ['Signers', `${shown.threshold} of the participants ${shown.participants.join(', ')}`],
    ])),
    el('h2', {}, 'Newest operations on this key'),
    operationsTable('Newest operations on this key', list.operations),
    list.next_cursor ? el('p', { class: 'quiet' }, 'There are older ones.') : null,
  ];
}

/** How the candidate compares with the active bundle. */
export const counts = (shadow) => facts([
  ['Evaluated', shadow.evaluated], ['The same', shadow.same], ['Allowed now, denied by the candidate', shadow.allow_to_deny],
  ['Denied now, allowed by the candidate', shadow.deny_to_allow], ['Otherwise different', shadow.otherwise_different],
  ['Faults of either', shadow.faults], ['Not evaluated, since there were too many', shadow.dropped],
]);

export async function policy() {
  const { active, candidate, refused, last_refusal: last, fault, history } = await get('/v1/policy/bundles?limit=20');
  const bundle = ({ bundle: shown }) => (shown ? [
    ['Bundle', `${shown.bundle_id} ${shown.version}, sequence ${shown.sequence}`], ['bundle_hash', code(shown.bundle_hash)],
    ['Facts that it reads', shown.facts.join(', ')], ['Fuel of an evaluation', `at most ${shown.limits.fuel}`],
    ['Valid until', shown.validity.not_after_ms ? time(shown.validity.not_after_ms) : 'no end'],
  ] : []);
  const refusal = (one) => [one.offer, said(one.why), one.bundle_hash ? short(one.bundle_hash) : '', time(one.at_ms)];
  const refusals = last && refused.length === 0 ? [last] : refused;
  const activation = (one) => [
    time(one.activated_at_ms), one.kind, one.bundle ? `${one.bundle.bundle_id} ${one.bundle.version}` : '', short(one.bundle_hash), said(one.reason),
  ];
  return [
    el('h1', {}, 'Policy'),
    fault ? alert('The policy decides nothing: ', said(typeof fault === 'string' ? fault : JSON.stringify(fault))) : null,
    card('Active', active
      ? facts([...bundle(active), ['Since', time(active.activated_at_ms)], ['Reason', active.reason ? said(active.reason) : null], ['Signed by', active.signers.join(', ')]])
      : el('p', {}, 'None.')),
    candidate ? card('Candidate, evaluated in its shadow', facts([...bundle(candidate), ['Since', time(candidate.since_ms)], ['Signed by', candidate.signers.join(', ')]]), counts(candidate.shadow),
      el('p', {}, el('a', { href: '#/decisions/candidate' }, 'What it would decide otherwise'))) : null,
    refusals.length > 0
      ? card(refused.length > 0 ? 'Refused offers' : 'The last offer that was refused, which is not there any more', table('Refused offers', ['Offer', 'Why', 'Hash', 'When'], refusals.map(refusal)))
      : null,
    el('h2', {}, 'Newest activations'),
    table('Newest activations', ['When', 'Kind', 'Bundle', 'Hash', 'Reason'], history.map(activation)),
  ];
}

export async function log(me) {
  const [checkpoint, witnessed, ready] = await Promise.all([
    optional(text('/v1/log/checkpoint')), optional(text('/v1/log/checkpoint?witnessed=true')), ask('GET', '/readyz', undefined, 503).catch(() => null),
  ]);
  const head = (title, note) => {
    const [origin, size, root] = note.split('\n');
    return card(title, facts([['Log', origin], ['Entries', size], ['Root', code(root)]]), el('details', {}, el('summary', {}, 'Signed note'), el('pre', { tabindex: 0 }, note)));
  };
  const checks = ready?.checks && Object.entries(ready.checks).map(([name, { status, detail }]) => [name, said(detail ? `${status}: ${detail}` : status)]);
  return [
    el('h1', {}, 'Log of all events'),
    el('p', {}, 'Every event of every operation is an entry of one log. A signed head that someone keeps shows any later change.'),
    checkpoint === null ? lacks('audit.read', me) : head('Head', checkpoint),
    witnessed ? head('Newest head that witnesses cosigned', witnessed) : null,
    checkpoint !== null && !witnessed ? el('p', { class: 'quiet' }, 'No head is cosigned by a quorum of witnesses.') : null,
    card('Checks of the gateway', checks ? facts(checks) : el('p', {}, 'They are not available at this address.')),
  ];
}
