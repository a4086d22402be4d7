// The console: which page is shown, who reads it, and what happens meanwhile.

import { el, alert, said } from './elements.js';
import { credentials, follow, get, seen, signIn, Refused, SignedOut, Unreachable } from './gateway.js';
import { awaitingMe, key, keys, log, overview, policy } from './lists.js';

// Loaded when they are shown first, or once the first view is there.
const operation = async (...of) => (await import('./operation.js')).operation(...of);
const decision = async (...of) => (await import('./decisions.js')).decision(...of);
const decisions = async (...of) => (await import('./decisions.js')).decisions(...of);
const candidate = async (me) => (await import('./decisions.js')).candidate(me);
const enrolment = async (me) => (await import('./passkeys.js')).enrolment(me);
const verifyPage = async () => (await import('./evidence.js')).verifyPage();

const PAGES = [
  ['#/', 'Operations', overview],
  ['#/keys', 'Keys', keys],
  ['#/policy', 'Policy', policy],
  ['#/decisions', 'Decisions', decisions],
  ['#/log', 'Log', log],
  ['#/verify', 'Verify', verifyPage],
  ['#/passkeys', 'Passkeys', enrolment],
];
const OPERATION = /^#(\/v1\/(?:custody\/)?operations\/[0-9a-f]{64})$/;
const DECISION = /^#(\/v1\/policy\/decisions\/(?:refusal|preview|[0-9a-f]{64})-[0-9]{1,18})$/;
const KEY = /^#(\/v1\/custody\/keys\/[^/?]+)$/;

const main = document.getElementById('main');
const connection = document.getElementById('connection');
const notice = document.getElementById('notice');
const address = () => location.hash || '#/';
const pathOf = (hash) => hash.split('?')[0];

/** The number of the latest call of `show`. */
let latest = 0;
/** Until the page of that call is shown. */
let loading = Promise.resolve();
/** Whether a request of the reader is under way. */
let isBusy = false;
/** The wait before a page that could not be shown is tried again. */
let retryAfter = 1000;

/** Shows the page of the address. An older page that is still loading is dropped. `note` is shown above it. */
function show(...of) {
  loading = load(...of);
  return loading;
}

async function load(note = null, { isRefresh = false } = {}) {
  const nth = ++latest;
  const hash = address();
  navigate(hash);
  let content;
  let [is, failed] = [null, null];
  // What a page shows of a list is in its address.
  const query = hash.slice(pathOf(hash).length + 1);
  const page = PAGES.find(([known]) => known === pathOf(hash));
  try {
    // Asked for at the same time as who the reader is, if they said so.
    const early = hash === '#/' && Object.keys(credentials()).length > 0 ? awaitingMe() : undefined;
    early?.catch(() => {});
    is = await get('/v1/caller');
    if (page) content = await page[2](is, { early, query });
    else if (hash === '#/decisions/candidate') content = await candidate(is);
    else if (OPERATION.test(hash)) content = await operation(hash.match(OPERATION)[1], is, pageOf(hash));
    else if (DECISION.test(hash)) content = await decision(hash.match(DECISION)[1], is);
    else if (KEY.test(hash)) content = await key(hash.match(KEY)[1]);
    else content = [el('h1', {}, 'There is no such page'), el('p', {}, el('a', { href: '#/' }, 'To the operations'))];
    retryAfter = 1000;
  } catch (error) {
    failed = error;
    // Files are verified without the gateway.
    content = page?.[2] === verifyPage ? await verifyPage().catch(() => unshown(error)) : unshown(error);
  }
  if (nth !== latest) return;
  // What is shown stays when it cannot be shown anew: the line above says that there is no connection.
  if (isRefresh && (failed instanceof Unreachable || failed instanceof SignedOut)) return again(nth);
  if (is) reader(is);
  isBusy = false;
  const focused = isRefresh ? address_of(document.activeElement) : null;
  const kept = isRefresh ? [...main.querySelectorAll(':scope > .done')] : [note];
  notice.replaceChildren();
  main.replaceChildren(...[kept, content].flat(9).filter(Boolean));
  document.title = `${main.querySelector('h1')?.textContent ?? 'Console'} · operation-gateway`;
  if (!isRefresh) main.focus({ preventScroll: true });
  else if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  if (failed instanceof Unreachable && page?.[2] !== verifyPage) again(nth);
}

const address_of = (element) => (main.contains(element) ? element.getAttribute('href') : null);

/** Tries again, unless another page is shown by then. */
function again(nth) {
  setTimeout(() => { if (nth === latest) show(null, { isRefresh: true }); }, retryAfter);
  retryAfter = Math.min(retryAfter * 2, 30_000);
}

/** What the page of an operation may have done here. A note of one operation never stands on the page of another. */
function pageOf(hash) {
  const elsewhere = (note) => notice.replaceChildren(el('p', {}, el('a', { href: hash }, 'Of an operation that you have left:')), note);
  return {
    done: (note) => (address() === hash ? show(note) : note && elsewhere(note)),
    say: (note, place) => (address() === hash && main.contains(place) ? place.replaceChildren(note, link(hash)) : elsewhere(note)),
    busy: (is) => { if (address() === hash) isBusy = is; },
  };
}

const link = () => el('button', { type: 'button', class: 'second', id: 'present', onclick: () => show() }, 'Show its present state');

function unshown(error) {
  if (error instanceof Refused && error.status === 401) return [el('h1', {}, 'Sign in'), signInForm()];
  if (error instanceof SignedOut) {
    return [el('h1', {}, 'You may be signed out'), alert(`${error.message}.`), el('p', {}, el('button', { type: 'button', onclick: () => location.reload() }, 'Sign in again'))];
  }
  return [el('h1', {}, 'This cannot be shown'), alert(`${error.message}.`), el('p', {}, el('button', { type: 'button', onclick: () => show() }, 'Try again'))];
}

function navigate(hash) {
  const link = ([known, words]) => el('li', {}, el('a', { href: known, 'aria-current': known === pathOf(hash) ? 'page' : null }, words));
  document.getElementById('navigation').replaceChildren(...PAGES.map(link));
}

function reader({ identity }) {
  const who = identity ? [said(identity.subject_id), ', tenant ', said(identity.tenant)] : 'not identified';
  const change = () => { latest += 1; main.replaceChildren(el('h1', {}, 'Who reads this'), signInForm()); main.focus(); };
  document.getElementById('reader').replaceChildren(...[who, ' ', el('button', { type: 'button', class: 'second', id: 'who', onclick: change }, 'Change')].flat());
}

/** Credentials for this tab: a token; or in development, where the gateway authenticates no one, a name. */
function signInForm() {
  const now = credentials();
  const input = (id, type, value) => el('input', { id, type, value: value ?? '', autocomplete: 'off' });
  const [token, subject, roles, tenant] = [
    input('token', 'password', ''), input('subject', 'text', now.subject), input('roles', 'text', now.roles ?? 'approver'), input('tenant', 'text', now.tenant),
  ];
  const onsubmit = (event) => {
    event.preventDefault();
    if (token.value) signIn({ token: token.value.trim() });
    else signIn({ subject: subject.value.trim(), roles: roles.value.trim(), tenant: tenant.value.trim() });
    show();
  };
  const field = (words, made) => [el('label', { for: made.id }, words), made];
  return el('form', { class: 'card', onsubmit },
    el('p', {}, 'Behind a proxy that signs you in, load the page again instead. What you enter stays in this tab and is forgotten with it.'),
    field('Token of your identity provider', token),
    el('fieldset', {}, el('legend', {}, 'Or, on a development gateway that authenticates no one'),
      field('Name', subject), field('Roles, separated by spaces', roles), field('Tenant, if any', tenant)),
    el('div', { class: 'actions' }, el('button', {}, 'Use this')));
}

/**
 * Something happened to an operation. The list, and an operation on which the reader decides nothing, are shown anew. What the reader
 * decides on, and what they have verified, stays as it is: a line above it says that it has changed.
 */
async function changed({ href }) {
  const concerns = (href) => address() === '#/' || href === null || address() === `#${href}`;
  if (!concerns(href)) return;
  const isAwaited = due.size > 0;
  due.add(href);
  if (isAwaited) return;
  await passes(300);
  // What a page that is still loading shows may have been read before this happened.
  for (let awaited = null; awaited !== loading;) {
    awaited = loading;
    await Promise.race([awaited.catch(() => {}), passes(30_000)]);
  }
  const hrefs = [...due].filter(concerns);
  due.clear();
  if (hrefs.length === 0) return;
  const isInUse = isBusy || main.querySelector('#approve, #report > *, form') !== null || Boolean(main.querySelector('#reason')?.value);
  if (!isInUse) show(null, { isRefresh: true });
  else notice.replaceChildren(el('p', { role: 'status' }, `This operation ${hrefs.every((href) => href === null) ? 'may have' : 'has'} changed meanwhile. `, link()));
}

/** The addresses of operations to which something happened that is not shown yet. `null`: perhaps to any. */
const due = new Set();
const passes = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

window.addEventListener('hashchange', () => { isBusy = false; show(); });
// A page that is opened behind another one is loaded when it is seen: until then it is not told what happens.
seen().then(() => show()).then(() => Promise.all([import('./operation.js'), import('./passkeys.js'), import('./evidence.js')])).catch(() => {});
follow(changed, (fault) => {
  connection.textContent = fault === null ? '' : `What happens is not shown at present: ${fault}.`;
}, () => changed({ href: null }));
