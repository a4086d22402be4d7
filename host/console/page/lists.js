// Lists: operations, keys, the policy's bundles, the log.

import { el, time, code, short, facts, table, card, alert } from './elements.js';
import { get, text, Refused } from './gateway.js';
import { sentence, state } from './words.js';

export const hrefOf = (operation) => `#${operation.links.self.href}`;

export function stateOf(operation) {
  const [words, kind] = state(operation.state);
  return el('span', { class: `state ${kind}` }, words);
}

/** Asks for something; what may not be seen, or is not there, is left out. */
async function optional(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Refused && [403, 404].includes(error.status)) return null;
    throw error;
  }
}

const FAMILIES = ['/v1/operations', '/v1/custody/operations'];

/** How many operations the first view shows of those that await the reader: it must be there at once, also over a slow connection. */
const FIRST = 10;

/** Operations of both families, newest first. */
async function operations(query) {
  const lists = await Promise.all(FAMILIES.map((path) => optional(get(`${path}?${query}`))));
  const all = lists.flatMap((list) => list?.operations ?? []);
  return all.sort((one, other) => other.created_at_ms - one.created_at_ms);
}

function operationsTable(caption, all) {
  const row = (operation) => [
    el('a', { href: hrefOf(operation) }, sentence(operation.intent, operation.intent.key_ref ?? operation.key_ref)),
    stateOf(operation),
    `${operation.approvals.approved} of ${operation.approvals.required}`,
    time(operation.created_at_ms),
  ];
  return table(caption, ['Operation', 'State', 'Approvals', 'Submitted'], all.map(row));
}

/** What awaits the reader, at once; then what awaits others, and what is newest. */
export async function overview({ identity }, early) {
  const section = (title, all, none, n_shown = all.length) => [
    el('h2', {}, title),
    all.length === 0 ? el('p', { class: 'quiet' }, none) : operationsTable(title, all.slice(0, n_shown)),
  ];
  const mine = identity ? await (early ?? awaitingMe()) : [];
  const more = el('div', {}, el('p', { class: 'quiet' }, 'Loading…'));
  const rest = async () => {
    const [all, pending, recent] = await Promise.all([
      identity && mine.length > FIRST ? operations('awaiting=me&limit=100') : mine,
      operations('state=pending_approval&limit=50'), operations('limit=25'),
    ]);
    const isMine = new Set(all.map((operation) => operation.operation_id));
    const others = pending.filter((operation) => !isMine.has(operation.operation_id));
    more.replaceChildren(...[
      all.length > FIRST ? operationsTable('More that awaits you', all.slice(FIRST)) : null,
      section(identity ? 'Awaiting others' : 'Awaiting approvals', others, 'Nothing else waits for approvals.'),
      section('Newest', recent, 'There are no operations yet.'),
    ].flat(9).filter(Boolean));
  };
  const failed = (error) => more.replaceChildren(alert(error.message));
  setTimeout(() => rest().catch(failed));
  return [
    el('h1', {}, 'Operations'),
    identity ? section('Awaiting you', mine, 'Nothing awaits you.', FIRST) : null,
    more,
  ];
}

/** The newest operations that await the reader, one more than are shown at first. */
export const awaitingMe = () => operations(`awaiting=me&limit=${FIRST + 1}`);

export async function keys() {
  const { keys: all } = await get('/v1/custody/keys?limit=200');
  const row = (key) => [
    el('a', { href: `#/v1/custody/keys/${encodeURIComponent(key.key_ref)}` }, key.key_ref), key.state, key.asset_id,
    `${key.threshold} of ${key.participants.length}`, key.active_epoch ?? 'none',
  ];
  return [
    el('h1', {}, 'Keys'),
    all.length === 0 ? el('p', {}, 'There are no keys yet.') : table('Keys', ['Key', 'State', 'Asset', 'Signers', 'Epoch'], all.map(row)),
  ];
}

export async function key(href) {
  const [shown, list] = await Promise.all([get(href), get(`${href}/operations?limit=50`)]);
  return [
    el('h1', {}, `Key ${shown.key_ref}`),
    card('State', facts([
      ['State', shown.state], ['Asset', shown.asset_id], ['Purpose', shown.purpose], ['Tenant', shown.tenant_id],
      ['Signature profile', shown.signature_profile], ['Public key', shown.public_key_hex && code(shown.public_key_hex)],
      ['Key id', code(shown.key_id)], ['Created', time(shown.created_at_ms)],
    ])),
    card('Epoch and roster', facts([
      ['Epoch', shown.active_epoch], ['Since', shown.active_epoch_since_ms && time(shown.active_epoch_since_ms)],
      ['Root', shown.active_epoch_root && code(shown.active_epoch_root)],
      ['Signers', `${shown.threshold} of the participants ${shown.participants.join(', ')}`],
    ])),
    el('h2', {}, 'Operations on this key'),
    operationsTable('Operations on this key', list.operations),
  ];
}

export async function policy() {
  const { active, candidate, refused, last_refusal: last, fault, history } = await get('/v1/policy/bundles?limit=20');
  const bundle = ({ bundle: shown }) => [
    ['Bundle', `${shown.bundle_id} ${shown.version}, sequence ${shown.sequence}`], ['bundle_hash', code(shown.bundle_hash)],
    ['Facts that it reads', shown.facts.join(', ')], ['Fuel of an evaluation', `at most ${shown.limits.fuel}`],
    ['Valid until', shown.validity.not_after_ms ? time(shown.validity.not_after_ms) : 'no end'],
  ];
  const shadow = (counts) => counts && facts([
    ['Evaluated', counts.evaluated], ['The same', counts.same], ['Allowed now, denied by the candidate', counts.allow_to_deny],
    ['Denied now, allowed by the candidate', counts.deny_to_allow], ['Otherwise different', counts.otherwise_different], ['Faults', counts.faults],
  ]);
  const activation = (one) => [time(one.activated_at_ms), one.kind, one.bundle ? `${one.bundle.bundle_id} ${one.bundle.version}` : '', short(one.bundle_hash), one.reason];
  return [
    el('h1', {}, 'Policy'),
    fault ? alert(`The policy decides nothing: ${typeof fault === 'string' ? fault : fault.message ?? JSON.stringify(fault)}`) : null,
    card('Active', active ? facts([...bundle(active), ['Since', time(active.activated_at_ms)], ['Reason', active.reason], ['Signed by', active.signers.join(', ')]]) : el('p', {}, 'None.')),
    candidate ? card('Candidate, evaluated in its shadow', facts(bundle(candidate)), shadow(candidate.shadow)) : null,
    refused.length > 0 ? card('Refused', el('ul', {}, refused.map((one) => el('li', {}, `${one.offer}: ${one.reason ?? one.message ?? ''}`)))) : null,
    last && refused.length === 0 ? el('p', { class: 'quiet' }, 'An offer was refused earlier; it is not there any more.') : null,
    el('h2', {}, 'Activations'),
    table('Activations', ['When', 'Kind', 'Bundle', 'Hash', 'Reason'], history.map(activation)),
  ];
}

export async function log() {
  const [checkpoint, ready] = await Promise.all([optional(text('/v1/log/checkpoint')), optional(get('/readyz')).catch(() => null)]);
  const witnessed = ready?.witnesses ? await optional(text('/v1/log/checkpoint?witnessed=true')) : null;
  if (checkpoint === null) return [el('h1', {}, 'Log'), el('p', {}, 'You need the scope audit.read to see the log.')];
  const head = (title, note) => {
    const [origin, size, root] = note.split('\n');
    return card(title, facts([['Log', origin], ['Entries', size], ['Root', code(root)]]), el('details', {}, el('summary', {}, 'Signed note'), el('pre', {}, note)));
  };
  return [
    el('h1', {}, 'Log of all events'),
    el('p', {}, 'Every event of every operation is an entry of one log. A signed head that someone keeps shows any later change.'),
    head('Head', checkpoint),
    witnessed ? head('Newest head that witnesses cosigned', witnessed) : el('p', { class: 'quiet' }, 'No head is cosigned by witnesses.'),
    ready ? card('Checks of the gateway', facts(Object.entries(ready.checks).map(([name, { status, detail }]) => [name, detail ? `${status}: ${detail}` : status]))) : null,
  ];
}
