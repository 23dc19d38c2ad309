// One request as a sequence: its actors are lanes, its messages arrows between
// them. The address has #request/NUMBER meanwhile, which opens it again.

import { $, ask, clock, duration, el, plural, set } from './dom.js';
import { rest } from './flow.js';
import { actor, bytes, called, failed, sign, title } from './records.js';

const dialog = $('request');
let shown = '';

// actorsOf lists the actors in the order in which they come in.
function actorsOf(records) {
  const names = [];
  for (const r of records) {
    const message = r.kind === 'message' || r.kind === 'dead-letter';
    for (const path of message ? [r.from, r.to] : [r.to]) {
      if (!names.includes(actor(path))) names.push(actor(path));
    }
  }
  return names;
}

async function open(id) {
  shown = id;
  set($('request-title'), `Request #${id}`);
  set($('request-note'), '');
  $('request-facts').replaceChildren();
  $('sequence').replaceChildren();
  if (!dialog.open) dialog.showModal();
  // Not a button: whoever holds Enter would press it at once.
  $('request-title').focus();
  try {
    const view = await ask(`/api/requests/${encodeURIComponent(id)}`);
    if (shown === id) show(view.records);
  } catch (e) {
    if (shown === id) set($('request-note'), e.message);
  }
}

function show(records) {
  const asked = records.find((r) => r.kind === 'request');
  const answer = records.find((r) => r.kind === 'answer');
  const facts = [
    ['Tool', asked || answer ? called(asked || answer) : 'not known'],
    ['Outcome', answer ? answer.outcome : 'no answer yet'],
    ['Took', answer ? duration(answer.ranNs) : '–'],
    ['Sizes', [asked && asked.bytes ? `${bytes(asked.bytes)} in` : '', answer && answer.bytes ? `${bytes(answer.bytes)} out` : ''].filter(Boolean).join(', ') || '–'],
    ['Began', clock(records[0].time)],
  ];
  $('request-facts').replaceChildren(...facts.map(([k, v]) => el('div', k === 'Outcome' && answer && answer.outcome !== 'ok' ? 'bad' : '', el('dt', '', k), el('dd', '', v))));
  set($('request-note'), `${plural(records.length, 'record')}${asked && answer ? '' : '; some are not kept any more, or not there yet'}`);
  draw(records);
}

function draw(records) {
  // The order of sending, since an inner message is recorded before the outer.
  const sorted = records.toSorted((a, b) => nanoseconds(b.time, a.time));
  const names = actorsOf(sorted);
  const start = sorted[0].time;
  const head = el('div', 'lanes-head', ...names.map((n) => el('span', '', ...n.split(/(?=\/)/).flatMap((part) => [part, el('wbr')]))));
  head.setAttribute('aria-hidden', 'true');
  const list = el('ol', 'steps');
  for (const r of sorted) list.append(step(r, names, start));
  const box = $('sequence');
  box.style.setProperty('--lanes', names.length);
  box.replaceChildren(head, list);
}

function step(r, names, start) {
  const row = el('li', failed(r) ? 'bad' : '');
  row.dataset.kind = r.kind;
  const message = r.kind === 'message' || r.kind === 'dead-letter';
  const text = message ? `${actor(r.from)} → ${actor(r.to)}` : r.to ? actor(r.to) : '';
  const told = el('div', 'told', el('p', 'what', el('strong', '', `${message ? '' : `${sign(r)} `}${title(r)}`), el('span', 'way', text)), el('p', 'rest', rest(r)));
  if (r.payload !== undefined) told.append(el('pre', '', JSON.stringify(r.payload, null, 2)));
  row.append(el('span', 'offset', `+${offset(nanoseconds(start, r.time))}`), lanes(r, names, message), told);
  return row;
}

// nanoseconds is the time between two times of RFC 3339, finer than a Date.
function nanoseconds(from, to) {
  const fraction = (t) => Number(((/\.(\d+)/.exec(t) || ['', '0'])[1]).padEnd(9, '0').slice(0, 9));
  const seconds = (t) => Math.floor(Date.parse(t) / 1000);
  return (seconds(to) - seconds(from)) * 1e9 + fraction(to) - fraction(from);
}

// offset writes such a time as finely as it matters for the order.
function offset(ns) {
  if (ns < 1e6) return `${Math.round(ns / 1e3)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(2)} ms`;
  return `${(ns / 1e9).toFixed(3)} s`;
}

const svg = (tag, attributes, ...children) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  node.append(...children);
  return node;
};

// lanes draws a row of the diagram: what stays in the middle of a lane is placed
// in percent, so that arrows keep their shape in every size.
function lanes(r, names, message) {
  const middle = (name) => ((names.indexOf(name) + 0.5) * 100) / names.length;
  const root = svg('svg', { 'aria-hidden': 'true' });
  for (const n of names) root.append(svg('line', { class: 'life', x1: `${middle(n)}%`, x2: `${middle(n)}%`, y1: 0, y2: '100%' }));
  const from = middle(actor(r.from));
  const to = middle(actor(r.to));
  if (message && from !== to) {
    root.append(
      svg('line', { class: 'arrow', x1: `${from}%`, x2: `${to}%`, y1: '1.25em', y2: '1.25em' }),
      svg('svg', { x: `${to}%`, y: '1.25em', overflow: 'visible' }, svg('path', { class: 'tip', d: to > from ? 'M-1 0 l-9 -5 v10 z' : 'M1 0 l9 -5 v10 z' })));
  } else {
    root.append(svg('circle', { class: 'event', cx: `${to}%`, cy: '1.25em', r: 5 }));
  }
  return el('div', 'lanes', root);
}

function follow() {
  const m = /^#request\/(\d+)$/.exec(location.hash);
  if (m) open(m[1]);
  else if (dialog.open) dialog.close();
}

dialog.addEventListener('close', () => {
  const id = shown;
  shown = '';
  if (location.hash === `#request/${id}`) history.replaceState(null, '', location.pathname);
  // The row may have gone from the list meanwhile, and the focus with it.
  const row = document.querySelector(`#flow a[href="#request/${id}"]`);
  if (!document.activeElement || document.activeElement === document.body) (row || $('flow')).focus();
});
dialog.addEventListener('click', (e) => { if (e.target === dialog) dialog.close(); });
$('request-close').addEventListener('click', () => dialog.close());
$('request-copy').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    set($('request-note'), 'The link is in the clipboard; it works in a browser that has opened this page.');
  } catch {
    set($('request-note'), `The clipboard cannot be used; the link is ${location.href}`);
  }
});
window.addEventListener('hashchange', follow);
// A click on the request that is in the address already changes no address.
document.addEventListener('click', (e) => {
  const a = e.target.closest ? e.target.closest('a[href^="#request/"]') : null;
  if (a && a.getAttribute('href') === location.hash) follow();
});
follow();
