// One operation: what it does, in the words of the bytes that are signed; who did what when; and what the reader can do.

import { el, time, code, facts, card, alert, done } from './elements.js';
import { ask, get, evidencePages, eventsOf, Refused } from './gateway.js';
import { happened, sentence } from './words.js';
import { stateOf } from './lists.js';
import { check } from './checks.js';
import { sign, usable } from './passkeys.js';
import { keptRoots, report, rootsChooser } from './evidence.js';

/** The page of the operation at this path. `reload` shows it anew. */
export async function operation(href, me, reload) {
  const view = await get(href);
  const keyRef = view.intent.key_ref ?? view.key_ref;
  const life = el('ol', { class: 'life' }, el('li', {}, 'Loading…'));
  showLife(href, life);
  return [
    el('h1', {}, sentence(view.intent, keyRef)),
    el('p', {}, stateOf(view), view.failure ? `: ${view.failure.message}` : null),
    await decision(view, me, reload),
    card('State', facts([
      ['Approvals', `${view.approvals.approved} of ${view.approvals.required}${view.approvals.subjects.length ? ': ' + view.approvals.subjects.join(', ') : ''}`],
      ['Key', el('a', { href: `#/v1/custody/keys/${encodeURIComponent(keyRef)}` }, keyRef)],
      ['Submitted', time(view.created_at_ms)], ['Changed', time(view.updated_at_ms)],
      ['Expires', view.expires_at_ms && view.state === 'pending_approval' ? time(view.expires_at_ms) : null],
      ['Policy', `${view.policy.decision} by ${view.policy.bundle_id}`], ['bundle_hash', code(view.policy.bundle_hash)],
      ['Reasons', list(view.policy.reasons)], ['Obligations', list(view.policy.obligations)], ['Facts', list(view.policy.facts)],
      ['Warnings', list(view.warnings.map((warning) => warning.message ?? warning))],
      ['Signature', view.result?.signature_hex && code(view.result.signature_hex)],
      ['Public key', view.result?.public_key_hex && code(view.result.public_key_hex)],
      ['Signed digest', view.result?.signed_digest && code(view.result.signed_digest)],
      ['Operation', code(view.operation_id)],
    ])),
    steps(view, me, reload),
    card('What happened', life),
    evidence(href, view),
  ];
}

const list = (texts) => (texts.length === 0 ? null : el('ul', {}, texts.map((text) => el('li', {}, String(text)))));

async function showLife(href, life) {
  try {
    const events = eventsOf(await evidencePages(href));
    life.replaceChildren(...events.map(({ event, hash }) =>
      el('li', { title: hash }, time(event.at_ms), ' ', happened(event))));
  } catch (error) {
    life.replaceChildren(el('li', {}, `It cannot be shown: ${error.message}`));
  }
}

/** What an approver decides on, and how. Nothing can be signed if the view differs from what would be signed. */
async function decision(view, me, reload) {
  if (!view.links.approve && !view.links.reject) return null;
  if (!view.approval_statement) return null;
  let checked;
  try {
    checked = await check({ call: 'check', view });
  } catch (error) {
    return alert(el('strong', {}, 'Do not approve this. '), `What the gateway shows is not what you would sign: ${error.message}.`);
  }
  const intent = JSON.parse(checked.intent);
  const members = Object.entries(intent).map(([name, value]) => [name, typeof value === 'string' ? value : code(JSON.stringify(value))]);
  return card('What approvers sign',
    el('p', { id: 'sentence' }, el('strong', {}, sentence(intent, checked.key_ref))),
    facts([...members, ['Key', checked.key_ref], ['Submitted by', checked.submitter], ['Tenant', checked.tenant]]),
    el('details', {}, el('summary', {}, 'Exact bytes and hash'),
      el('pre', { id: 'bytes', tabindex: 0 }, checked.intent), facts([['intent_hash', code(checked.intent_hash)], ['key_id', code(checked.key_id)]])),
    el('p', { class: 'quiet' }, 'This page has computed the hash and the key’s id from these words, with the code of the command-line signer.'),
    form(view, me, reload));
}

function form(view, me, reload) {
  const { identity, signed_approvals: rule } = me;
  if (!identity) return el('p', {}, 'Say who you are, at the top of the page, to approve or reject it.');
  if (identity.roles.length === 0) return el('p', {}, 'You have no role in which you could approve it.');
  const passkeys = usable(identity.approver_keys);
  if (rule === 'required' && passkeys.length === 0) {
    return el('p', {}, 'Approvals must be signed, and you have no passkey for this page. ', el('a', { href: '#/passkeys' }, 'Make one'), ', or sign on the command line.');
  }
  const result = el('div', {});
  const roles = identity.roles.map((role) => {
    const box = el('input', { type: 'checkbox', id: `role-${role}`, value: role, checked: true });
    return [box, el('label', { class: 'inline', for: `role-${role}` }, ` ${role}`)];
  });
  const reason = el('textarea', { id: 'reason', rows: 2 });
  const buttons = [];
  const decide = async (rejects) => {
    const chosen = roles.map(([box]) => box).filter((box) => box.checked).map((box) => box.value);
    if (rejects && reason.value.trim() === '') {
      result.replaceChildren(alert('Give a reason: it becomes part of the evidence.'));
      reason.focus();
      return;
    }
    buttons.forEach((button) => { button.disabled = true; });
    result.replaceChildren(el('p', { role: 'status' }, passkeys.length > 0 ? 'Waiting for your passkey…' : 'Sending…'));
    try {
      await send(view, identity, chosen, passkeys, rejects ? reason.value : null);
      reload(done(rejects ? 'You have rejected it.' : 'You have approved it.'));
    } catch (error) {
      buttons.forEach((button) => { button.disabled = false; });
      result.replaceChildren(alert(failure(error), ' ', el('a', { href: location.hash, onclick: () => reload() }, 'Show its present state')));
    }
  };
  const button = (attributes, words, rejects) => {
    const made = el('button', { type: 'button', ...attributes, onclick: () => decide(rejects) }, words);
    buttons.push(made);
    return made;
  };
  return el('div', {},
    el('fieldset', {}, el('legend', {}, `Decide as ${identity.subject_id}, in the roles`), roles),
    el('div', { class: 'actions' }, view.links.approve ? button({ id: 'approve' }, passkeys.length > 0 ? 'Approve with a passkey' : 'Approve', false) : null),
    view.links.reject ? [el('label', { for: 'reason' }, 'Reason for a rejection'), reason,
      el('div', { class: 'actions' }, button({ id: 'reject', class: 'danger' }, passkeys.length > 0 ? 'Reject with a passkey' : 'Reject', true))] : null,
    result);
}

/** Signs, if the reader has a passkey, and sends. What is signed is made from the view that was shown, and from nothing newer. */
async function send(view, identity, roles, passkeys, reason) {
  const at = Date.now();
  const word = reason === null ? { approved_at_ms: at } : { rejected_at_ms: at, reason };
  const body = { subject_id: identity.subject_id, roles, ...word };
  if (passkeys.length > 0) {
    const request = { call: 'state', view, subject_id: identity.subject_id, roles, at_ms: at, reason };
    body.signature = await sign((await check(request)).digest, passkeys);
  }
  const { href } = view.links[reason === null ? 'approve' : 'reject'];
  return ask('POST', href, body);
}

function failure(error) {
  if (error.name === 'NotAllowedError') return 'The passkey was not used, so nothing was sent.';
  if (error instanceof Refused && error.status === 409) return `It has changed meanwhile: ${error.message}.`;
  return `Nothing is recorded: ${error.message}.`;
}

/** What else the reader may do with it now. */
function steps(view, { identity }, reload) {
  const result = el('div', {});
  const step = (name, words, body) => {
    const link = view.links[name];
    if (!link) return null;
    const onclick = async (event) => {
      event.target.disabled = true;
      try {
        await ask('POST', link.href, body);
        reload(done(`Done: ${words.toLowerCase()}.`));
      } catch (error) {
        event.target.disabled = false;
        result.replaceChildren(alert(failure(error)));
      }
    };
    return el('button', { type: 'button', class: 'second', id: name, onclick }, words);
  };
  const publication = view.intent.operation_type === 'sign'
    ? { scope: 'signature', requested_at_ms: Date.now() } : { scope: 'public_key', requested_at_ms: Date.now() };
  const offered = [
    step('execute', 'Execute', { requested_at_ms: Date.now() }),
    step('publish', 'Publish', publication),
    !identity || identity.subject_id === view.approval_statement?.submitter ? step('cancel', 'Cancel', { reason: 'cancelled in the console' }) : null,
  ].filter(Boolean);
  return offered.length === 0 ? null : card('Next', el('div', { class: 'actions' }, offered), result);
}

function evidence(href, view) {
  const result = el('div', {});
  const verify = async () => {
    result.replaceChildren(el('p', { role: 'status' }, 'Checking…'));
    try {
      result.replaceChildren(...await report(await evidencePages(href), view.operation_id));
    } catch (error) {
      result.replaceChildren(alert(`The evidence cannot be read: ${error.message}`));
    }
  };
  return card('Evidence',
    el('p', {}, 'Verified on this device, with roots of trust that you have from the operator.'),
    keptRoots() === null ? rootsChooser() : null,
    el('div', { class: 'actions' },
      el('button', { type: 'button', class: 'second', id: 'verify', onclick: verify }, 'Verify the evidence'),
      el('button', { type: 'button', class: 'second', onclick: () => save(href, view.operation_id) }, 'Save it as files')),
    result);
}

async function save(href, id) {
  const pages = await evidencePages(href);
  pages.forEach((page, nth) => {
    const url = URL.createObjectURL(new Blob([page], { type: 'application/json' }));
    el('a', { href: url, download: `evidence-${id.slice(0, 12)}${pages.length > 1 ? `-${nth + 1}` : ''}.json` }).click();
    URL.revokeObjectURL(url);
  });
}
