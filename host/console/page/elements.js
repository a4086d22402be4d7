// Elements of the page. Every text is set as text: nothing of it becomes markup.

// No answer can give all objects a member that a later check or sentence would read.
Object.freeze(Object.prototype);
Object.freeze(Array.prototype);

/** An element with attributes, event listeners (`onclick: f`) and children: elements, texts, or lists of them; `null` is left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A point in time, in the reader's zone, with the exact one as a tooltip. */
export function time(ms) {
  const at = new Date(Number(ms));
  if (Number.isNaN(at.getTime())) return String(ms);
  const shown = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  return el('time', { datetime: at.toISOString(), title: at.toISOString() }, shown);
}

export const code = (text) => el('code', {}, visible(String(text)));

/** Characters that are not seen as themselves: controls, spaces other than the plain one, invisible ones, those that turn the direction. */
const UNSEEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\u2d7f\ufffc\u{1107f}\u{11d45}\u{11d97}\u{13441}\u{13442}\u{16fe4}\u{1bc9d}\u{1d159}]/u;

/** A text of someone else, in which a character that is not seen as itself is shown by its number, marked. */
export function visible(text) {
  const parts = [];
  for (const character of text) {
    if (character !== ' ' && UNSEEN.test(character)) {
      parts.push(el('mark', { title: 'a character that is not seen' }, `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`));
    } else if (typeof parts.at(-1) === 'string') {
      parts[parts.length - 1] += character;
    } else {
      parts.push(character);
    }
  }
  return parts;
}

/** A text of someone else within a sentence of the page: it is seen where it begins and ends, and turns nothing around it. */
export const said = (text) => el('bdi', { class: 'said' }, visible(String(text)));

/** The beginning of a hash or id, with all of it as a tooltip. */
export const short = (hash) => el('code', { title: hash }, `${String(hash).slice(0, 12)}…`);

/** Names and values; entries without a value are left out. */
export function facts(entries) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined);
  return el('dl', {}, shown.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

/** A list of elements, or of texts of someone else; `null` if there are none. */
export const list = (items) => (items.length === 0 ? null : el('ul', {}, items.map((item) => el('li', {}, typeof item === 'string' ? said(item) : item))));

/** A table. On narrow screens each row is a block whose cells name their column. */
export function table(caption, columns, rows) {
  const head = el('tr', {}, columns.map((name) => el('th', { scope: 'col' }, name)));
  const row = (cells) => el('tr', {}, cells.map((cell, n) => el('td', { 'data-name': columns[n] }, cell)));
  return el('div', { class: 'scroll' },
    el('table', { 'aria-label': caption }, el('thead', {}, head), el('tbody', {}, rows.map(row))));
}

/** Says that something failed, to screen readers at once. */
export const alert = (...children) => el('div', { class: 'alert', role: 'alert' }, children);

/** Says that something is done. */
export const done = (...children) => el('div', { class: 'done', role: 'status' }, children);

export const card = (title, ...children) => el('section', { class: 'card' }, el('h2', {}, title), children);
