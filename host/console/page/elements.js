// Elements of the page. Every text is set as text: nothing of it becomes markup.

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

export const code = (text) => el('code', {}, String(text));

/** The beginning of a hash or id, with all of it as a tooltip. */
export const short = (hash) => el('code', { title: hash }, `${String(hash).slice(0, 12)}…`);

/** Names and values; entries without a value are left out. */
export function facts(entries) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return el('dl', {}, shown.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

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
