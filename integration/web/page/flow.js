// The live flow: a ring of records in memory and those of them that the filter
// lets pass in the list, newest first. The list changes at most ten times a
// second, and not while somebody is in it.

import { $, clock, duration, el, plural, set } from './dom.js';
import { bytes, failed, serverOf, sign, title, way } from './records.js';

const ringSize = 500;
const pause = 100; // least time between two changes of the list, in ms

const list = $('flow');
let ring = []; // oldest first
let fresh = []; // not in the list yet
let dropped = 0; // never shown, since the start
let paused = false;
let timer = 0;
const types = new Set();

export function addRecords(records) {
  for (const r of records) {
    if (r.kind === 'dropped') dropped += r.count || 0;
    const name = r.kind === 'message' ? r.type : r.kind;
    if (name && types.size < 200 && !types.has(name)) {
      types.add(name);
      $('types').append(new Option(name));
    }
  }
  ring = ring.concat(records).slice(-ringSize);
  fresh = fresh.concat(records).slice(-ringSize);
  soon();
}

// noteDropped puts a line where records are missing.
export function noteDropped(count) {
  addRecords([{ kind: 'dropped', time: new Date().toISOString(), count, detail: `${plural(count, 'record')} went by too fast to be shown` }]);
}

function soon() {
  if (!timer) timer = setTimeout(flush, pause);
}

// held says that the list must not move: somebody has paused it, points at it,
// or is in it with the keyboard.
const held = () => paused || list.matches(':hover') || list.contains(document.activeElement) && document.activeElement !== list;

function wanted() {
  const kind = $('filter-kind').value;
  const server = $('filter-server').value;
  const type = $('filter-type').value.trim().toLowerCase();
  const request = $('filter-request').value.trim().replace(/^#/, '');
  return (r) => {
    if (r.kind === 'start' || r.kind === 'dropped') return true;
    if (kind === 'requests' && r.kind !== 'request' && r.kind !== 'answer') return false;
    if (kind === 'events' && (r.kind === 'message' || r.kind === 'request' || r.kind === 'answer')) return false;
    if (kind === 'trouble' && !failed(r)) return false;
    if (server && serverOf(r) !== server) return false;
    if (type && !`${r.type || ''} ${r.kind}`.toLowerCase().includes(type)) return false;
    return !request || String(r.request || '') === request;
  };
}

function flush() {
  timer = 0;
  if (!held()) {
    const rows = fresh.filter(wanted()).map(rowOf).reverse();
    fresh = [];
    if (rows.length) list.prepend(...rows);
    while (list.children.length > ringSize) list.lastElementChild.remove();
  }
  note();
}

function rebuild() {
  fresh = [];
  list.replaceChildren(...ring.filter(wanted()).map(rowOf).reverse());
  list.scrollTop = 0;
  note();
}

function note() {
  const parts = [];
  if (fresh.length && held()) parts.push(`${paused ? 'Paused' : 'Held while you are in the list'}: ${fresh.length} new`);
  else if (paused) parts.push('Paused');
  if (dropped) parts.push(`${dropped.toLocaleString('en')} dropped`);
  set($('flow-note'), parts.join(' · '));
  $('flow-empty').hidden = list.children.length > 0;
}

function rowOf(r) {
  const row = el('li', failed(r) ? 'bad' : '');
  row.dataset.kind = r.kind;
  const time = el('time', '', clock(r.time));
  time.dateTime = r.time;
  let request = el('span', 'request');
  if (r.request) {
    request = el('a', 'request', `#${r.request}`);
    request.href = `#request/${r.request}`;
    request.setAttribute('aria-label', `Request ${r.request}`);
  }
  const mark = el('span', 'sign', sign(r));
  mark.setAttribute('aria-hidden', 'true');
  row.append(time, request, mark, el('span', 'title', title(r)), el('span', 'way', way(r)), el('span', 'rest', rest(r)));
  return row;
}

// rest is what is left to say of a record in a line.
export function rest(r) {
  const parts = [];
  if (r.before && r.after && r.before !== r.after) parts.push(`${r.before} → ${r.after}`);
  if (r.outcome) parts.push(r.outcome);
  if (r.kind === 'message') {
    if (r.waitNs) parts.push(`waited ${duration(r.waitNs)}`);
    parts.push(`ran ${duration(r.ranNs)}`);
  } else if (r.ranNs) {
    parts.push(`after ${duration(r.ranNs)}`);
  }
  if (r.bytes) parts.push(bytes(r.bytes));
  if (r.detail) parts.push(r.detail);
  return parts.join(' · ');
}

$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', String(paused));
  set($('pause'), paused ? 'Go on' : 'Pause');
  flush();
});
$('clear').addEventListener('click', () => {
  ring = [];
  dropped = 0;
  rebuild();
});
for (const event of ['input', 'change']) $('filters').addEventListener(event, rebuild);
$('filters').addEventListener('submit', (e) => e.preventDefault());
$('filters').addEventListener('keydown', (e) => {
  if (e.key === 'Escape' && e.target.matches('input') && e.target.value) {
    e.target.value = '';
    rebuild();
  }
});
for (const event of ['pointerleave', 'focusout']) list.addEventListener(event, soon);
