// What the policy decided: found by what a caller knows of it, and one decision with everything that it rests on. What the candidate would
// decide otherwise.

import { el, time, code, facts, table, card, alert, list, said } from './elements.js';
import { get, Refused } from './gateway.js';
import { counts, growing, hrefOf, lacks, optional } from './lists.js';
import { amount, sentence } from './words.js';

const DECISIONS = '/v1/policy/decisions';
const SHADOW = '/v1/policy/shadow';
const SCOPE = 'audit.read';

/** A link to the page of a decision, with the number that the id of its operation begins with. */
export const decisionLink = (id) => el('a', { href: `#${DECISIONS}/${encodeURIComponent(id)}`, title: id }, id.replace(/^([0-9a-f]{12})[0-9a-f]{52}-/, '$1…-'));

/** A link to the list of decisions on an operation. */
export const decisionsOn = (id, words) => el('a', { href: `#/decisions?operation_id=${id}` }, words);

/** Who must approve yet; `null` if no one. */
export const missing = (all) => list(all.map(({ group, people }) => (group === null ? [`${people} more`] : [`${people} of `, said(group)])));

/** The place of a rule, as policies in Cedar state it. */
const PLACE = /^data\/([^:]+):([0-9]+):([0-9]+)$/;

/** The rule behind a reason, if its policy names one, and the operands that do not say so. */
function ruleOf(operands) {
  const value = (name) => operands.find((operand) => operand.name === name)?.value;
  const [id, place] = [value('policy'), value('place')?.match(PLACE)];
  if (id === undefined || !place) return [null, operands];
  const [, file, line, column] = place;
  return [[code(id), ', in ', code(`data/${file}`), `, line ${line}, column ${column}`], operands.filter(({ name }) => !['policy', 'place'].includes(name))];
}

function reason({ code: name, text, remedy, operands }) {
  const [rule, others] = ruleOf(operands);
  return [
    el('strong', {}, text ? said(text) : code(name)),
    facts([
      ['Code', text ? code(name) : null], ['Remedy', remedy ? said(remedy) : null], ['Rule', rule],
      ...others.map(({ name: operand, value }) => [said(operand), said(value)]),
    ]),
  ];
}

/** Reasons of the policy, or obligations: what each means, what can be done, the rule, and the values; `null` if there are none. */
export const reasons = (all) => list(all.map(reason));

const MOMENTS = new Map([['submit', 'submission']]);
const momentOf = ({ moment }) => MOMENTS.get(moment) ?? moment;

const verdictOf = ({ decision: verdict }) => el('span', { class: `state ${verdict === 'ALLOW' ? 'good' : 'bad'}` }, verdict);

const faultOf = ({ kind, detail }) => said([kind, detail].filter(Boolean).join(': '));

/** What decisions are found by: parameter of the API, its label, and the type of its input. */
const FILTERS = [
  ['code', 'Code of a reason or obligation', 'text'], ['subject_id', 'Submitted by', 'text'], ['operation_id', 'Operation', 'text'],
  ['request_id', 'Request id', 'text'], ['idempotency_key', 'Idempotency key', 'text'],
  ['after_ms', 'After (your time)', 'datetime-local'], ['before_ms', 'Before (your time)', 'datetime-local'],
];

/** Milliseconds since 1970 as the value of an input, in the reader's zone; empty if it is no time. */
function local(ms) {
  const at = new Date(Number(ms));
  const shown = new Date(at.getTime() - at.getTimezoneOffset() * 60_000);
  return ms === null || Number.isNaN(shown.getTime()) ? '' : shown.toISOString().slice(0, -1);
}

/** The filters of a list. They become part of its address, so that it can be sent to a colleague. */
function filterForm(asked) {
  const verdict = el('select', { id: 'filter-decision' }, [['', 'Any'], ['DENY', 'DENY'], ['ALLOW', 'ALLOW']].map(([value, words]) =>
    el('option', { value, selected: value === (asked.get('decision') ?? '') }, words)));
  const inputs = FILTERS.map(([name, words, type]) => {
    const given = asked.get(name);
    const isTime = type !== 'text';
    // An exact time in the address stays so.
    const step = isTime && (Number(given) % 1000 ? 0.001 : 1);
    return [name, words, el('input', { id: `filter-${name}`, type, step, value: (isTime ? local(given) : given) || null, autocomplete: 'off', spellcheck: 'false' })];
  });
  const all = [['decision', 'Decision', verdict], ...inputs];
  const onsubmit = (event) => {
    event.preventDefault();
    const value = ({ type, value }) => (type === 'datetime-local' ? new Date(value).getTime() : value.trim());
    const wanted = new URLSearchParams(all.filter(([, , input]) => input.value.trim() !== '').map(([name, , input]) => [name, value(input)]));
    const hash = wanted.size > 0 ? `#/decisions?${wanted}` : '#/decisions';
    if (location.hash !== hash) location.hash = hash;
    else window.dispatchEvent(new HashChangeEvent('hashchange'));
  };
  return el('form', { class: 'card filters', 'aria-label': 'Find decisions', onsubmit },
    all.map(([, words, input]) => el('div', {}, el('label', { for: input.id }, words), input)),
    el('p', { class: 'quiet' }, 'All that is given must apply. A request id finds refusals and previews; a decision that moved an operation is found by the operation.'),
    el('div', { class: 'actions' }, el('button', {}, 'Find'), asked.size > 0 ? el('a', { href: '#/decisions' }, 'All decisions') : null));
}

/** Decisions on a page of the list. */
const SHOWN = 25;

/** How many parts of a search without a result are read at once: each has some hundred records. */
const PARTS_MAX = 10;

/** The list: newest first, by the filters of `query`, which are those of the API. */
export async function decisions(me, { query }) {
  const title = el('h1', {}, 'Decisions of the policy');
  const row = (one) => [
    decisionLink(one.decision_id),
    [verdictOf(one), `, ${momentOf(one)}`],
    [...one.reasons, ...one.obligations].flatMap((statement, nth) => [nth ? ', ' : null, code(statement.code)]),
    said(one.subject_id),
    time(one.at_ms),
  ];
  const show = (all, hasMore) => (all.length > 0
    ? table('Decisions', ['Decision', 'Verdict', 'Reasons', 'Submitted by', 'When'], all.map(row))
    : el('p', {}, hasMore ? 'None among the newest ones.' : 'No decision is found.'));
  const read = async (from) => {
    for (let [cursor, part] = [from, 1]; ; part += 1) {
      const parameters = [`limit=${SHOWN}`, query, cursor && `cursor=${cursor}`].filter(Boolean);
      const page = await get(`${DECISIONS}?${parameters.join('&')}`);
      cursor = page.next_cursor ?? null;
      if (page.decisions.length > 0 || cursor === null || part === PARTS_MAX) return [page.decisions, cursor];
    }
  };
  try {
    const other = el('p', {}, el('a', { href: '#/decisions/candidate' }, 'What the candidate would decide otherwise'));
    return [title, other, filterForm(new URLSearchParams(query)), await growing(read, show)];
  } catch (error) {
    if (error instanceof Refused && error.status === 403) return [title, lacks(SCOPE, me)];
    if (error instanceof Refused && error.status === 400) return [title, filterForm(new URLSearchParams(query)), alert(said(error.message))];
    throw error;
  }
}

const CLASSES = new Map([
  ['own', 'nodes and authority compute it for themselves, and refuse another value'],
  ['bounded', 'each node and authority knows a bound on the dangerous side'],
  ['proven', 'it comes with signed statements, which each node and authority verifies'],
  ['claimed', 'the gateway’s word only: no admission rests on it'],
]);

function factsTable(all) {
  const classOf = (name) => (name === 'claimed' ? el('span', { class: 'state wait' }, 'only claimed') : name ?? 'no fact of any deployment');
  const row = ({ name, value, class: of }) => [code(name), value === null ? el('span', { class: 'quiet' }, 'none') : said(value), classOf(of)];
  const known = [...CLASSES].filter(([name]) => all.some((fact) => fact.class === name));
  return [
    table('Facts that the policy read', ['Fact', 'Value', 'Class'], all.map(row)),
    facts(known.map(([name, words]) => [classOf(name), words])),
  ];
}

/** What the decision was about, as entries: the operation, whose id does not tell its family. */
async function operationOf({ operation_id: id, moment, decision_id: name }) {
  if (id === null) return [['Operation', 'none: a preview']];
  if (moment === 'submit' && name.startsWith('refusal-')) return [['Operation', 'none: the submission was refused']];
  const view = await optional(get(`/v1/operations/${id}`)) ?? await optional(get(`/v1/custody/operations/${id}`));
  return [
    ['Operation', view === null ? [code(id), ', which is not shown to you'] : el('a', { href: hrefOf(view) }, sentence(view.intent, view.intent.key_ref ?? view.key_ref))],
    ['Others on it', decisionsOn(id, 'All decisions on the operation')],
  ];
}

/** The page of the decision at this path. */
export async function decision(href, me) {
  let one;
  try {
    one = await get(href);
  } catch (error) {
    if (error instanceof Refused && error.status === 403) return [el('h1', {}, 'Decision of the policy'), lacks(SCOPE, me)];
    throw error;
  }
  const { fault } = one;
  const stated = [...one.reasons, ...one.obligations];
  const did = fault ? 'failed on' : one.decision === 'ALLOW' ? 'allowed' : 'denied';
  return [
    el('h1', {}, `The policy ${did} this ${momentOf(one)}`),
    el('p', {}, verdictOf(one), ', ', time(one.at_ms)),
    fault ? alert('The policy gave no verdict: ', faultOf(fault)) : null,
    one.intact ? null : alert('This record is damaged: it does not match the hash that it was written with.'),
    card('Reasons', reasons(one.reasons) ?? el('p', {}, 'None.'),
      !fault && stated.length > 0 && stated.every(({ text }) => text === '')
        ? el('p', { class: 'quiet' }, 'The gateway has the words of these codes only while their bundle is active. The command ', code(`operation-gateway policy explain ${one.decision_id}`), ' finds them later too.')
        : null),
    one.obligations.length > 0 ? card('Obligations', reasons(one.obligations)) : null,
    card('Approvals', facts([
      ['Required', one.approvals_required], ['These count', list(one.approvals) ?? 'none'], ['Missing', missing(one.missing)],
    ])),
    card('Facts that the policy read', one.facts.length > 0 ? factsTable(one.facts) : el('p', {}, 'None.')),
    card('Record', facts([
      ['Decision', code(one.decision_id)], ['Moment', one.moment], ['When', time(one.at_ms)], ...await operationOf(one),
      ['Request id', one.request_id === null ? null : said(one.request_id)],
      ['Idempotency key', one.idempotency_key === null ? null : said(one.idempotency_key)],
      ['Submitted by', [said(one.subject_id), ' (', said(one.client_id), ')']], ['Tenant', said(one.tenant)], ['Key', said(one.key_ref)],
      ['intent_hash', code(one.intent_hash)], ['Bundle', said(one.bundle_id)], ['bundle_hash', code(one.bundle_hash)], ['Fuel used', one.fuel_used],
    ])),
  ];
}

/** The parts of an outcome: verdict and reasons, then what is shown only where the two bundles differ. */
const OUTCOME = [
  ['Verdict', (one) => [verdictOf(one), one.fault ? [', for a fault: ', faultOf(one.fault)] : null]],
  ['Reasons', (one) => reasons(one.reasons) ?? 'none'],
  ['Obligations', (one) => reasons(one.obligations) ?? 'none'],
  ['Approvals', (one) => facts([['Required', one.approvals_required], ['These count', list(one.approvals) ?? 'none'], ['Missing', missing(one.missing)]])],
];

/** A request that candidate and active bundle do not answer alike. */
function difference({ at_ms: at, moment, operation_id: id, payment, operation_type: type, key_ref: key, subject_id: subject, client_id: client, before, after }) {
  const what = payment ? ['Payment of ', ...amount(payment.amount_minor, payment.currency), ' to ', said(payment.recipient)] : [code(type)];
  const rows = OUTCOME.map(([name, part]) => [name, el('div', {}, part(before)), el('div', {}, part(after))]);
  // Most differ in their verdict and reasons only.
  const shown = rows.filter(([, one, other], nth) => nth < 2 || !one.isEqualNode(other));
  return card([what, ', key ', said(key)],
    facts([
      ['When', at === null ? 'no time was assumed' : time(at)], ['Moment', momentOf({ moment })], ['Submitted by', [said(subject), ' (', said(client), ')']],
      ['Operation', id === null ? 'none: a preview' : decisionsOn(id, 'Its decisions')],
    ]),
    table('Both outcomes', ['Outcome', 'Active bundle', 'Candidate'], shown));
}

/** The page of the candidate: what it would have decided otherwise, newest first. */
export async function candidate(me) {
  const title = el('h1', {}, 'What the candidate would decide otherwise');
  try {
    // The list is read after the counts, so that it lacks no difference of theirs that the reader may see.
    const { candidate: counted } = await get('/v1/policy/bundles?limit=1');
    const { candidate: hash, since_ms: since, differences } = await get(SHADOW);
    if (hash === null) return [title, el('p', {}, 'There is no candidate. If one was refused, the page ', el('a', { href: '#/policy' }, 'Policy'), ' says why.')];
    const shadow = counted?.bundle.bundle_hash === hash ? counted.shadow : null;
    const none = shadow && shadow.evaluated === shadow.same ? `No difference among ${shadow.evaluated} evaluated.` : 'None of your tenant.';
    return [
      title,
      card('Candidate', facts([['bundle_hash', code(hash)], ['Since', time(since)]]), shadow && counts(shadow),
        el('p', { class: 'quiet' }, 'The counts are those of all tenants, the differences those of yours among the latest. Both begin anew when the gateway restarts. Obligations and approvals are shown where the two bundles differ in them.')),
      differences.length > 0 ? differences.map(difference) : el('p', {}, none),
    ];
  } catch (error) {
    if (error instanceof Refused && error.status === 403) return [title, lacks(SCOPE, me)];
    throw error;
  }
}
