// The console: which page is shown, who reads it, and what happens meanwhile.

import { el, alert } from './elements.js';
import { credentials, follow, get, signIn, Refused } from './gateway.js';
import { awaitingMe, key, keys, log, overview, policy } from './lists.js';

// Loaded when they are shown first, or once the first view is there.
const operation = async (...of) => (await import('./operation.js')).operation(...of);
const enrolment = async (me) => (await import('./passkeys.js')).enrolment(me);
const verifyPage = async () => (await import('./evidence.js')).verifyPage();

const PAGES = [
  ['#/', 'Operations', overview],
  ['#/keys', 'Keys', keys],
  ['#/policy', 'Policy', policy],
  ['#/log', 'Log', log],
  ['#/verify', 'Verify', verifyPage],
  ['#/passkeys', 'Passkeys', enrolment],
];
const OPERATION = /^#(\/v1\/(?:custody\/)?operations\/[0-9a-f]{64})$/;
const KEY = /^#(\/v1\/custody\/keys\/[^/?]+)$/;

const main = document.getElementById('main');
const connection = document.getElementById('connection');
let me = {};
let shown = 0;
/** What the reader has done on this page, which stays until they go on. */
let standing = null;

/** Shows the page of the address. An older page that is still loading is dropped. `note` is shown above it. */
async function show(note = null, keepsFocus = false) {
  const nth = ++shown;
  standing = keepsFocus ? standing : note;
  const hash = location.hash || '#/';
  const page = PAGES.find(([address]) => address === hash);
  navigate(hash);
  let content;
  try {
    // Asked for at the same time as who the reader is, if they said so.
    const early = hash === '#/' && Object.keys(credentials()).length > 0 ? awaitingMe() : undefined;
    early?.catch(() => {});
    me = await get('/v1/caller');
    reader();
    if (page) content = await page[2](me, early);
    else if (OPERATION.test(hash)) content = await operation(hash.match(OPERATION)[1], me, (note) => show(note));
    else if (KEY.test(hash)) content = await key(hash.match(KEY)[1]);
    else content = [el('h1', {}, 'There is no such page'), el('p', {}, el('a', { href: '#/' }, 'To the operations'))];
  } catch (error) {
    // Files are verified without the gateway.
    if (page?.[2] === verifyPage) content = await verifyPage();
    else content = failed(error);
  }
  if (nth !== shown) return;
  main.replaceChildren(...[standing, content].flat(9).filter(Boolean));
  document.title = `${main.querySelector('h1')?.textContent ?? 'Console'} · operation-gateway`;
  if (!keepsFocus) main.focus({ preventScroll: true });
}

function failed(error) {
  if (error instanceof Refused && error.status === 401) return [el('h1', {}, 'Sign in'), signInForm()];
  return [el('h1', {}, 'This cannot be shown'), alert(error.message), el('p', {}, el('button', { type: 'button', onclick: () => show() }, 'Try again'))];
}

function navigate(hash) {
  const link = ([address, words]) => el('li', {}, el('a', { href: address, 'aria-current': address === hash ? 'page' : null }, words));
  document.getElementById('navigation').replaceChildren(...PAGES.map(link));
}

function reader() {
  const who = me.identity ? `${me.identity.subject_id}, tenant ${me.identity.tenant}` : 'not identified';
  const change = el('button', { type: 'button', class: 'second', id: 'who', onclick: () => { main.replaceChildren(el('h1', {}, 'Who reads this'), signInForm()); main.focus(); } }, 'Change');
  document.getElementById('reader').replaceChildren(who, ' ', change);
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
    el('p', {}, 'Behind a proxy that signs you in there is nothing to do here. What you enter stays in this tab and is forgotten with it.'),
    field('Token of your identity provider', token),
    el('fieldset', {}, el('legend', {}, 'Or, on a development gateway that authenticates no one'),
      field('Name', subject), field('Roles, separated by spaces', roles), field('Tenant, if any', tenant)),
    el('div', { class: 'actions' }, el('button', {}, 'Use this')));
}

/** Shows the page anew when something happened that it shows, but not while the reader enters something. */
let isDue = null;
function changed(event) {
  const hash = location.hash || '#/';
  const concerns = hash === '#/' || hash === `#${event.href}`;
  if (!concerns || isDue !== null) return;
  isDue = setTimeout(() => {
    isDue = null;
    const isBusy = main.contains(document.activeElement) && ['INPUT', 'TEXTAREA', 'BUTTON'].includes(document.activeElement.tagName);
    if (!isBusy) show(null, true);
  }, 300);
}

window.addEventListener('hashchange', () => show());
show().then(() => Promise.all([import('./operation.js'), import('./passkeys.js'), import('./evidence.js')])).catch(() => {});
let isConnected = true;
follow(changed, (error) => {
  connection.textContent = error === null ? '' : `What happens is not shown at present: ${error.message}.`;
  // What was missed while there was no connection.
  if (error === null && !isConnected) show(null, true);
  isConnected = error === null;
});
