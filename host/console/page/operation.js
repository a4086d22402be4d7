// One operation: what it does, in the words of the bytes that are signed; who did what when; and what the reader can do.

import { el, time, code, facts, card, alert, done, list, said, visible } from './elements.js';
import { ask, evidencePages, eventsOf, viewOf, Refused, SignedOut } from './gateway.js';
import { caution, happened, sentence } from './words.js';
import { decisionLink, decisionsOn, missing, reasons } from './decisions.js';
import { stateOf } from './lists.js';
import { check, Unsound } from './checks.js';
import { sign, usable } from './passkeys.js';
import { keptRoots, report, rootsChooser } from './evidence.js';

/**
 * The page of the operation at this path. `page.done(note)` shows it anew with a note, `page.say(note)` says something of it also if the
 * reader has gone on, `page.busy(is)` keeps it as it is meanwhile.
 */
export async function operation(href, me, page) {
  const { raw, view } = await viewOf(href);
  const keyRef = view.intent.key_ref ?? view.key_ref;
  const life = el('ol', { class: 'life' }, el('li', {}, 'Loading…'));
  showLife(href, life);
  return [
    el('h1', {}, sentence(view.intent, keyRef)),
    el('p', {}, stateOf(view), view.failure ? [': ', said(view.failure.message)] : null),
    await decision(raw, view, me, page),
    card('State', facts([
      ['Approvals', [`${view.approvals.approved} of ${view.approvals.required}`, view.approvals.subjects.flatMap((subject, nth) => [nth ? ', ' : ': ', said(subject)])].flat()],
      ['Missing', missing(view.approvals.missing)],
      ...(view.approvals.lapsed ?? []).map((one) => ['No longer counts', [said(one.subject_id), ` (${one.reason})`]]),
      ['Rejections', view.rejections?.length ? list(view.rejections.map(({ subject_id: who, reason }) => [said(who), ': ', said(reason)])) : null],
      ['Key', el('a', { href: `#/v1/custody/keys/${encodeURIComponent(keyRef)}` }, said(keyRef))],
      ['Submitted', time(view.created_at_ms)], ['Changed', time(view.updated_at_ms)],
      ['Waits until', view.approvals.admit_not_before_ms ? time(view.approvals.admit_not_before_ms) : null],
      ['Expires', view.expires_at_ms && view.state === 'pending_approval' ? time(view.expires_at_ms) : null],
      ['Policy', `${view.policy.decision} by ${view.policy.bundle_id}`], ['bundle_hash', code(view.policy.bundle_hash)],
      ['Reasons', list(view.policy.reasons)], ['Obligations', list(view.policy.obligations)], ['Facts', list(view.policy.facts)],
      ['Decisions', decisionsOn(view.operation_id, 'What the policy decided on it')],
      ['Warnings', list(view.warnings.map((warning) => warning.message ?? warning))],
      ['Signature', view.result?.signature_hex && code(view.result.signature_hex)],
      ['Public key', view.result?.public_key_hex && code(view.result.public_key_hex)],
      ['Signed digest', view.result?.signed_digest && code(view.result.signed_digest)],
      ['Operation', code(view.operation_id)],
    ])),
    steps(view, me, page),
    card('What happened', life),
    evidence(href, view),
  ];
}

async function showLife(href, life) {
  try {
    const events = eventsOf(await evidencePages(href));
    life.replaceChildren(...events.map(({ event, hash }) =>
      el('li', { title: hash }, time(event.at_ms), ' ', happened(event))));
  } catch (error) {
    life.replaceChildren(el('li', {}, `It cannot be shown: ${error.message}.`));
  }
}

/** Whether the reader's scopes cover this action. */
function may({ scopes }, action, view) {
  const family = view.links.self.href.startsWith('/v1/custody/') ? 'custody' : 'operations';
  const covers = [`${family}.${action}`, `${family}.*`, ...(family === 'operations' ? ['operations.sign'] : [])];
  return scopes.some((scope) => covers.includes(scope));
}

/** What an approver decides on, and how. Nothing can be signed if the view differs from what would be signed. */
async function decision(raw, view, me, page) {
  if (!view.approval_statement) return null;
  let checked;
  try {
    checked = await check({ call: 'check', view: raw });
  } catch (error) {
    if (error instanceof Unsound) {
      return alert(el('strong', {}, 'Do not approve this. '), `What the gateway shows is not what you would sign: ${error.message}.`);
    }
    return alert(`What you would sign cannot be checked, so nothing can be approved here: ${error.message}. `,
      el('button', { type: 'button', class: 'second', onclick: () => page.done(null) }, 'Try again'));
  }
  const intent = JSON.parse(checked.intent);
  const member = (value) => (value === '' ? code('""') : typeof value === 'string' ? said(value) : code(JSON.stringify(value)));
  const warning = caution(intent);
  return card(view.links.approve ? 'What approvers sign' : 'What approvers signed',
    el('p', { id: 'sentence' }, el('strong', {}, sentence(intent, checked.key_ref))),
    warning ? el('p', {}, warning) : null,
    facts([
      ...Object.entries(intent).map(([name, value]) => [name, member(value)]),
      ['Key', said(checked.key_ref)], ['Submitted by', said(checked.submitter)], ['Tenant', said(checked.tenant)],
    ]),
    el('details', {}, el('summary', {}, 'Exact bytes and hash'),
      el('pre', { id: 'bytes', tabindex: 0 }, visible(checked.intent)), facts([['intent_hash', code(checked.intent_hash)], ['key_id', code(checked.key_id)]])),
    el('p', { class: 'quiet' }, 'This page has computed the hash and the key’s id from these words, with the code of the command-line signer.'),
    form(raw, view, me, page));
}

function form(raw, view, me, page) {
  const { identity, signed_approvals: rule } = me;
  const say = (...words) => el('p', {}, words);
  if (!identity) return say('Say who you are, at the top of the page, to approve or reject it.');
  const id = identity.subject_id;
  // An admitted change of a key can be aborted, and nothing else can be decided on it.
  const end = ['abort', 'reject'].find((action) => view.links[action]);
  if (view.approvals.subjects.includes(id) && !end) return say('You have approved it.');
  if (end !== 'abort' && view.rejections?.some((rejection) => rejection.subject_id === id)) return say('You have rejected it.');
  if (!may(identity, 'approve', view)) return say('You have no scope to approve or reject it.');
  const groups = usable(identity.approver_keys);
  if (rule === 'required' && groups.size === 0) {
    return say('Approvals must be signed, and you have no passkey for this page. ', el('a', { href: '#/passkeys' }, 'Make one'), ', or sign on the command line.');
  }
  const held = groups.size > 0 ? identity.roles.filter((role) => identity.approver_roles.includes(role)) : identity.roles;
  if (held.length === 0) return say('You have no role in which you could approve it.');
  const result = el('div', {});
  const roles = held.map((role, nth) => {
    const box = el('input', { type: 'checkbox', id: `role-${nth}`, value: role, checked: true });
    return [box, el('label', { class: 'inline', for: `role-${nth}` }, ' ', said(role))];
  });
  const site = el('select', { id: 'site' }, [...groups.keys()].map((name) => el('option', { value: name }, name)));
  const reason = el('textarea', { id: 'reason', rows: 2 });
  const lost = el('input', { type: 'text', id: 'lost', inputmode: 'numeric', pattern: '[0-9, ]*' });
  const buttons = [];
  const decide = async (action) => {
    const ends = action !== 'approve';
    const chosen = roles.map(([box]) => box).filter((box) => box.checked).map((box) => box.value);
    const nodes = lost.value.split(/[, ]+/).filter(Boolean).map(Number);
    if (nodes.some((node) => !Number.isSafeInteger(node))) {
      result.replaceChildren(alert('Give the numbers of the lost nodes, separated by commas, or none.'));
      lost.focus();
      return;
    }
    if (ends && reason.value.trim() === '') {
      result.replaceChildren(alert('Give a reason: it becomes part of the evidence.'));
      reason.focus();
      return;
    }
    buttons.forEach((button) => { button.disabled = true; });
    result.replaceChildren(el('p', { role: 'status' }, groups.size > 0 ? 'Waiting for your passkey…' : 'Sending…'));
    page.busy(true);
    try {
      const word = { action, reason: ends ? reason.value : null, lost: action === 'abort' ? nodes : null };
      await send(raw, view, identity, chosen, groups.size > 0 ? [site.value, groups.get(site.value)] : null, word);
      page.done(done({ approve: 'You have approved it.', reject: 'You have rejected it.', abort: 'You have aborted it.' }[action]));
    } catch (error) {
      page.busy(false);
      buttons.forEach((button) => { button.disabled = false; });
      result.replaceChildren();
      page.say(failure(error), result);
    }
  };
  const button = (action, attributes, words) => {
    const shown = groups.size > 0 ? `${words} with a passkey` : words;
    const made = el('button', { type: 'button', id: action, ...attributes, onclick: () => decide(action) }, shown);
    buttons.push(made);
    return made;
  };
  const approves = view.links.approve && !view.approvals.subjects.includes(id);
  return el('div', {},
    view.approvals.subjects.includes(id) ? el('p', {}, `You have approved it. You can still ${end} it.`) : null,
    id === checkedSubmitter(view) ? el('p', {}, 'You have submitted it yourself: the policy may not count your approval.') : null,
    el('fieldset', {}, el('legend', {}, 'Decide as ', said(id), ', in the roles'), roles),
    groups.size > 1 ? [el('label', { for: 'site' }, 'Your passkey of'), site] : null,
    approves ? el('div', { class: 'actions' }, button('approve', {}, 'Approve')) : null,
    end ? [el('label', { for: 'reason' }, end === 'abort' ? 'Reason for an abort' : 'Reason for a rejection'), reason,
      end === 'abort' ? [el('label', { for: 'lost' }, 'Numbers of the nodes that are lost, once the new shares are stored'), lost] : null,
      el('div', { class: 'actions' }, button(end, { class: 'danger' }, end === 'abort' ? 'Abort' : 'Reject'))] : null,
    result);
}

const checkedSubmitter = (view) => view.approval_statement.submitter;

/** Signs, if the reader has a passkey, and sends. What is signed is made from the view that was shown, and from nothing newer. */
async function send(raw, view, identity, roles, passkeys, { action, reason, lost }) {
  const at = Date.now();
  const word = {
    approve: { approved_at_ms: at },
    reject: { rejected_at_ms: at, reason },
    abort: { aborted_at_ms: at, reason, lost_participants: lost },
  }[action];
  const body = { subject_id: identity.subject_id, roles, ...word };
  if (passkeys !== null) {
    const request = { call: 'state', view: raw, subject_id: identity.subject_id, roles, at_ms: at, reason, lost };
    body.signature = await sign((await check(request)).digest, ...passkeys);
  }
  const { href } = view.links[action];
  return ask('POST', href, body);
}

/** What a failed request means. Whether something was recorded is said only if it is known. */
function failure(error) {
  const words = () => {
    if (error.name === 'NotAllowedError') return 'The passkey was not used, so nothing was sent.';
    if (error instanceof SignedOut || error.status === 401) return `Nothing is recorded: ${error.message}.`;
    if (error instanceof Refused && error.status === 409) return `It has changed meanwhile: ${error.message}.`;
    if (error instanceof Refused && error.code === 'policy_rejected') return `The policy has ended it: ${error.message}.`;
    if (error instanceof Refused && error.status < 500) return `It does not count: ${error.message}.`;
    return `It is not known whether it was recorded: ${error.message}. Look at its present state; the same can be sent again.`;
  };
  return alert(words(), reasons(error.reasons ?? []), error.decisionId ? el('p', {}, 'The decision: ', decisionLink(error.decisionId)) : null);
}

/** What else the reader may do with it now. */
function steps(view, { identity }, page) {
  const result = el('div', {});
  const step = (name, words, body) => {
    const link = view.links[name];
    if (!link || (identity && name !== 'cancel' && !may(identity, name, view))) return null;
    const onclick = async (event) => {
      event.target.disabled = true;
      page.busy(true);
      try {
        await ask('POST', link.href, body());
        page.done(done(`Done: ${words.toLowerCase()}.`));
      } catch (error) {
        page.busy(false);
        event.target.disabled = false;
        page.say(failure(error), result);
      }
    };
    return el('button', { type: 'button', class: 'second', id: name, onclick }, words);
  };
  const scope = view.intent.operation_type === 'sign' ? 'signature' : 'public_key';
  const offered = [
    step('execute', 'Execute', () => ({ requested_at_ms: Date.now() })),
    step('publish', 'Publish', () => ({ scope, requested_at_ms: Date.now() })),
    !identity || identity.subject_id === view.approval_statement?.submitter ? step('cancel', 'Cancel', () => ({ reason: 'cancelled in the console' })) : null,
  ].filter(Boolean);
  return offered.length === 0 ? null : card('Next', el('div', { class: 'actions' }, offered), result);
}

function evidence(href, view) {
  const result = el('div', { id: 'report' });
  const verify = async () => {
    result.replaceChildren(el('p', { role: 'status' }, 'Checking…'));
    try {
      result.replaceChildren(...await report(await evidencePages(href), view.operation_id));
    } catch (error) {
      result.replaceChildren(alert(`The evidence cannot be read: ${error.message}.`));
    }
  };
  return card('Evidence',
    el('p', {}, 'Verified on this device, with roots of trust that you have from the operator.'),
    keptRoots() === null ? rootsChooser() : null,
    el('div', { class: 'actions' },
      el('button', { type: 'button', class: 'second', id: 'verify', onclick: verify }, 'Verify the evidence'),
      el('button', { type: 'button', class: 'second', onclick: () => save(href, view.operation_id, result) }, 'Save it as files')),
    result);
}

async function save(href, id, result) {
  try {
    const pages = await evidencePages(href);
    pages.forEach((page, nth) => {
      const url = URL.createObjectURL(new Blob([page], { type: 'application/json' }));
      el('a', { href: url, download: `evidence-${id.slice(0, 12)}${pages.length > 1 ? `-${nth + 1}` : ''}.json` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    });
  } catch (error) {
    result.replaceChildren(alert(`The evidence cannot be read: ${error.message}.`));
  }
}
