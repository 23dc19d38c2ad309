// Pool, calls and servers, as the host last described them.

import { $, el, options, plural, set, span } from './dom.js';

const maxPlaces = 64; // more than these are no longer drawn one by one
let last = null;
let skew = 0; // how much later it is here than there, in ms
const rows = new Map(); // by server

const now = () => Date.now() - skew;

export function showStatus(status) {
  last = status;
  skew = Date.now() - Date.parse(status.at);
  showPool(status.pool);
  set($('calls-inflight'), status.calls.inFlight.toLocaleString('en'));
  set($('calls-total'), status.calls.total.toLocaleString('en'));
  set($('calls-failed'), status.calls.failed.toLocaleString('en'));
  $('calls-failed').classList.toggle('bad', status.calls.failed > 0);
  set($('sessions'), status.sessions.toLocaleString('en'));
  showServers(status.servers, Date.parse(status.at));
  const names = status.servers.map((s) => s.name);
  options($('filter-server'), names);
  options($('search-server'), names);
  tick();
}

// tick brings up to date what only the clock changes.
export function tick() {
  if (!last) return;
  set($('host'), [last.name, last.version, `pid ${last.pid}`, `up ${span((now() - Date.parse(last.started)) / 1000)}`].filter(Boolean).join(' · '));
  for (const row of rows.values()) row.tick();
}

function showPool(p) {
  set($('pool-used'), p.used);
  set($('pool-size'), ` of ${plural(p.size, 'place')} in use`);
  const busy = Math.max(0, p.used + p.reserveUsed - p.idle);
  const idle = Math.min(p.idle, p.used + p.reserveUsed);
  const kinds = [];
  const total = p.size + p.reserve;
  const scale = total > maxPlaces ? maxPlaces / total : 1;
  const add = (n, kind) => { for (let i = 0; i < (n > 0 ? Math.max(1, Math.round(n * scale)) : 0); i++) kinds.push(kind); };
  add(busy, 'busy');
  add(idle, 'idle');
  add(Math.max(0, p.size - p.used), 'free');
  add(Math.max(0, p.reserve - p.reserveUsed), 'reserve');
  const places = $('places');
  while (places.children.length > kinds.length) places.lastChild.remove();
  kinds.forEach((kind, i) => {
    const box = places.children[i] || places.appendChild(el('span'));
    if (box.className !== kind) box.className = kind;
  });
  places.setAttribute('aria-label', `${plural(busy, 'place')} busy, ${idle} idle, ${p.size - p.used} free, ${p.reserve - p.reserveUsed} in reserve`);
  const legend = [['busy', `${busy} busy`], ['idle', `${idle} idle`], ['free', `${Math.max(0, p.size - p.used)} free`], ['reserve', p.reserve ? `${p.reserve - p.reserveUsed} in reserve` : ''], ['waiters', `${p.waiters} of ${p.maxWaiters} waiting`], ['evictions', plural(p.evictions, 'eviction')]];
  const list = $('pool-legend');
  legend.forEach(([kind, text], i) => {
    const item = list.children[i] || list.appendChild(el('li', kind));
    set(item, text);
    item.hidden = !text;
    if (kind === 'waiters') item.classList.toggle('bad', p.waiters > 0);
  });
}

function showServers(servers, at) {
  const list = $('server-list');
  const seen = new Set();
  servers.forEach((s, i) => {
    seen.add(s.name);
    let row = rows.get(s.name);
    if (!row) {
      row = newRow(s.name);
      rows.set(s.name, row);
    }
    row.show(s, at);
    if (list.children[i] !== row.node) list.insertBefore(row.node, list.children[i] || null);
  });
  for (const [name, row] of rows) {
    if (seen.has(name)) continue;
    row.node.remove();
    rows.delete(name);
  }
  $('servers-empty').hidden = servers.length > 0;
  const up = servers.filter((s) => (s.instances || []).length > 0).length;
  set($('servers-note'), servers.length ? `${up} of ${servers.length} running` : '');
}

// took is a time in milliseconds for people.
const took = (ms) => (ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`);

// newRow makes the row of one server; its parts stay, so that nobody who reads
// it loses the place.
function newRow(name) {
  const state = el('span', 'badge state');
  const breaker = el('span', 'badge breaker');
  const tools = el('span', 'tools');
  const processes = el('span', 'processes');
  const use = el('span', 'use');
  const description = el('p', 'description');
  const message = el('p');
  const details = el('pre');
  const more = el('details', '', el('summary', '', 'Details'), details);
  const error = el('div', 'error', message, more);
  const node = el('li', '', el('div', 'line', el('h3', '', name), state, breaker), el('p', 'meta', tools, processes, use), description, error);
  node.dataset.server = name;
  let current = null;
  let before = null; // usage that was shown, and when it was taken
  const row = {
    node,
    show(s, at) {
      current = s;
      const parts = [];
      if (s.calls && s.calls.total) parts.push(`${plural(s.calls.total, 'call')}, p50 ${took(s.calls.p50Ms)}, p99 ${took(s.calls.p99Ms)}`);
      if (s.usage) {
        parts.push(`${(s.usage.memoryBytes / 2 ** 20).toFixed(0)} MiB`);
        if (before && at > before.at) parts.push(`${Math.max(0, (100 * (s.usage.cpuMs - before.cpu)) / (at - before.at)).toFixed(0)} % CPU`);
      }
      if (!s.usage) before = null;
      else if (!before || at > before.at) before = { at, cpu: s.usage.cpuMs };
      set(use, parts.join(' · '));
      use.hidden = parts.length === 0;
      const text = s.disabled ? 'DISABLED' : s.state;
      set(state, text.toLowerCase());
      node.dataset.state = text;
      set(tools, s.known ? (s.enabled === s.tools ? plural(s.tools, 'tool') : `${s.enabled} of ${plural(s.tools, 'tool')} enabled`) : 'tools not known yet');
      const alive = s.instances || [];
      set(processes, alive.length ? alive.map((i) => `${i.pid ? `pid ${i.pid}` : 'no process'}${alive.length > 1 ? ` ${i.state.toLowerCase()}` : ''}${i.inFlight ? `, ${i.inFlight} in flight` : ''}`).join(' · ') : 'no process');
      set(description, s.description || '');
      description.hidden = !s.description;
      const e = s.error;
      set(message, e ? [`${e.code}: ${e.message}.`.replace(/\.\.$/, '.'), e.hint].filter(Boolean).join(' ') : '');
      set(details, e && e.details ? e.details.join('\n') : '');
      more.hidden = !details.textContent;
      error.hidden = !e;
      row.tick();
    },
    tick() {
      const s = current;
      breaker.hidden = s.breaker === 'closed' && !s.failures;
      breaker.dataset.breaker = s.breaker;
      let text = `breaker ${s.breaker}`;
      const left = s.retryAt ? Math.ceil((Date.parse(s.retryAt) - now()) / 1000) : 0;
      if (s.breaker === 'open') text += left > 0 ? `, ${span(left)} left` : ', next call tries';
      if (s.breaker === 'closed' && s.failures) text = plural(s.failures, 'failure');
      set(breaker, text);
    },
  };
  return row;
}
