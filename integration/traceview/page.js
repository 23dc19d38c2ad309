'use strict';
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const make = (tag, attrs, ...inner) => fill(document.createElement(tag), attrs, inner);
const draw = (tag, attrs, ...inner) => fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attrs, inner);
function fill(el, attrs, inner) {
  for (const k in attrs || {}) if (attrs[k] !== undefined && attrs[k] !== '') el.setAttribute(k, attrs[k]);
  el.append(...inner.filter(x => x !== null));
  return el;
}
// Records come as lists, to keep the page small.
const MSG = 0;
const read = a => a[0] === MSG
  ? {msg: true, at: a[1], from: a[2], to: a[3], type: a[4], wait: a[5], ran: a[6], self: a[7], before: a[8], after: a[9], outcome: a[10]}
  : {msg: false, at: a[1], to: a[2], kind: a[3], text: a[4], bad: a[5] === 1};
const EDGE = -1;
const actorName = i => i === EDGE ? 'edge' : data.short[i];
const took = ns => {
  const f = (v, u) => (v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2)) + u;
  if (ns < 1e3) return ns + 'ns';
  if (ns < 1e6) return f(ns / 1e3, 'µs');
  if (ns < 1e9) return f(ns / 1e6, 'ms');
  return f(ns / 1e9, 's');
};
const when = ns => ns >= 1e6 && ns < 1e10 ? (ns / 1e6).toFixed(3) + 'ms' : took(ns);
const clock = iso => new Date(iso).toLocaleTimeString([], {hour12: false}) + '.' + iso.slice(20, 23).padEnd(3, '0');
const count = (n, what) => n + ' ' + what + (n === 1 ? '' : 's');
const CHAR = 7.3;
const fit = (text, px) => {
  const n = Math.floor(px / CHAR);
  return text.length <= n ? text : n < 3 ? '' : text.slice(0, n - 1) + '…';
};

let current = null, tab = 'sequence', picked = -1, zoom = 1, rows = 0;
const MORE = 500;
const shown = [];

function haystack(r) {
  if (r.hay) return r.hay;
  const words = new Set([r.name, r.server, r.tool, r.outcome]);
  for (const a of r.records) {
    words.add(a[0] === MSG ? a[4] : a[3]);
    for (const i of a[0] === MSG ? [a[2], a[3]] : [a[2]]) if (i !== EDGE) words.add(data.actors[i]);
  }
  return r.hay = [...words].join('\n').toLowerCase();
}

function list() {
  const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean), failed = $('errors').checked;
  const all = data.requests.filter(r => (!failed || r.failed) && words.every(w => haystack(r).includes(w)));
  shown.splice(0, shown.length, ...all.slice(0, 1000));
  $('count').textContent = all.length === 1 ? '1 request' : all.length + ' requests' + (all.length > shown.length ? ', the first ' + shown.length + ' listed' : '');
  $('list').replaceChildren(...shown.map((r, i) => {
    const title = r.own ? 'the host’s own work' : '#' + r.name + ' ' + (r.server || '') + (r.tool ? '/' + r.tool : '');
    const item = make('div', {role: 'option', id: 'r' + i, 'aria-selected': r === current}, make('b', {}, title),
      make('span', {class: r.failed ? 'bad' : ''}, clock(r.start) + ' · ' + took(r.took) + (r.outcome ? ' · ' + r.outcome : '')));
    item.addEventListener('click', () => open(r));
    return item;
  }));
  mark();
}

function mark() {
  const at = shown.indexOf(current);
  [...$('list').children].forEach((el, i) => el.setAttribute('aria-selected', i === at));
  if (at >= 0) { $('list').setAttribute('aria-activedescendant', 'r' + at); $('list').children[at].scrollIntoView({block: 'nearest'}); }
  else $('list').removeAttribute('aria-activedescendant');
}

function open(r) {
  current = r; picked = -1; rows = MORE; zoom = 1;
  r.list = r.list || r.records.map(read);
  mark();
  $('title').textContent = r.own ? 'The host’s own work' : 'Request ' + r.name + (r.server ? ' · ' + r.server : '') + (r.tool ? '/' + r.tool : '');
  $('facts').textContent = new Date(r.start).toLocaleString() + ' · took ' + took(r.took) + (r.outcome ? ' · ' + r.outcome : '') +
    ' · ' + count(r.messages, 'message') + ', ' + count(r.events, 'event') + (r.slow >= 0 ? ' · slowest hop: ' + hop(r) : '') + (r.cut ? ' · ' + r.cut : '');
  $('facts').className = r.failed ? 'bad' : 'muted';
  history.replaceState(null, '', '#' + tab + ':' + r.name);
  show();
}

const hop = r => { const m = read(r.records[r.slow]); return m.type + ' at ' + actorName(m.to) + ', ' + took(m.wait + m.self); };

function lanes(r) {
  const order = [], seen = new Set();
  let edge = false;
  const add = i => { if (i === EDGE) edge = true; else if (!seen.has(i)) { seen.add(i); order.push(i); } };
  for (const m of r.list) { if (m.msg) add(m.from); add(m.to); }
  return edge ? [EDGE, ...order] : order;
}

function describe(m) {
  if (!m) return '';
  if (!m.msg) return when(m.at) + ' · event at ' + actorName(m.to) + ': ' + m.text;
  return when(m.at) + ' · ' + m.type + ' from ' + actorName(m.from) + ' to ' + actorName(m.to) + ' · wait ' + took(m.wait) + ', ran ' + took(m.ran) + ', itself ' + took(m.self) +
    (m.before !== m.after ? ' · ' + m.before + ' → ' + m.after : m.after ? ' · ' + m.after : '') + (m.outcome ? ' · ' + m.outcome : '');
}

function pick(i) {
  picked = i;
  $('panel').querySelectorAll('.on').forEach(el => el.classList.remove('on'));
  $('panel').querySelectorAll('[data-i="' + i + '"]').forEach(el => { el.classList.add('on'); });
  $('picked').textContent = i < 0 ? 'Choose a message for its details: click, or use the arrow keys in the diagram.' : describe(current.list[i]);
}

function row(i, cls, ...inner) {
  const g = draw('g', {class: 'row ' + cls, 'data-i': i}, ...inner);
  g.addEventListener('click', () => pick(i));
  return g;
}

function sequence(r) {
  const who = lanes(r), wide = $('panel').clientWidth || 800, time = 78;
  const gap = Math.max(wide < 600 ? 92 : 130, Math.min(230, (wide - time - 30) / who.length));
  const width = time + gap * who.length + 10, x = {};
  who.forEach((a, i) => { x[a] = time + gap * i + gap / 2; });
  const head = draw('svg', {class: 'head', width, height: 30, 'aria-hidden': 'true'});
  for (const a of who) head.append(draw('text', {class: 'name', x: x[a], y: 20, 'text-anchor': 'middle'}, draw('title', {}, a === EDGE ? 'the front, a timer or a child’s reader' : data.actors[a]), fit(actorName(a), gap - 8)));
  const items = r.list.slice(0, rows), H = 38, height = items.length * H + 16;
  const svg = draw('svg', {width, height, role: 'img', 'aria-label': 'Sequence diagram of ' + items.length + ' messages and events between ' + who.map(actorName).join(', ') + '. The tab Messages has the same as a table.'});
  for (const a of who) svg.append(draw('line', {class: 'life', x1: x[a], x2: x[a], y1: 0, y2: height}));
  items.forEach((m, i) => {
    const y = i * H + 24, parts = [draw('title', {}, describe(m)), draw('rect', {class: 'hit', x: 0, y: y - 20, width, height: H}), draw('text', {class: 'faint', x: time - 12, y: y + 4, 'text-anchor': 'end'}, when(m.at))];
    const label = (text, cls, lx, ly, room, anchor) => {
      const t = fit(text, room);
      if (!t) return;
      const w = t.length * CHAR, at = anchor === 'middle' ? lx - w / 2 : anchor === 'end' ? lx - w : lx;
      parts.push(draw('rect', {class: 'halo', x: at - 2, y: ly - (cls === 'faint' ? 9 : 11), width: w + 4, height: cls === 'faint' ? 11 : 14, 'pointer-events': 'none'}), draw('text', {class: cls, x: lx, y: ly, 'text-anchor': anchor, 'pointer-events': 'none'}, t));
    };
    if (!m.msg) {
      parts.push(draw('circle', {class: 'dot' + (m.bad ? ' bad' : ''), cx: x[m.to], cy: y, r: 4}));
      const right = width - x[m.to] - 14, left = x[m.to] - time - 14, long = m.text.length * CHAR;
      if (long > right && left > right) label(m.text, m.bad ? 'bad' : 'event', x[m.to] - 9, y + 4, left, 'end');
      else label(m.text, m.bad ? 'bad' : 'event', x[m.to] + 9, y + 4, right, 'start');
      svg.append(row(i, '', ...parts));
      return;
    }
    const slow = i === r.slow, cls = m.outcome ? 'failed' : slow ? 'slow' : '', a = x[m.from], b = x[m.to];
    const times = took(m.wait) + ' + ' + took(m.ran);
    if (a === b) {
      parts.push(draw('path', {class: 'arrow', d: `M${a} ${y - 8}h16v10h-10`}), draw('path', {class: 'head-of', d: `M${a + 1} ${y + 2}l7 -4v8z`}));
      label(m.type, slow ? 'slow' : '', a + 22, y + 2, width - a - 30, 'start');
    } else {
      const d = b > a ? 1 : -1, room = Math.abs(b - a) - 14, half = (a + b) / 2;
      parts.push(draw('line', {class: 'arrow', x1: a, x2: b - 7 * d, y1: y + 4, y2: y + 4}), draw('path', {class: 'head-of', d: `M${b - 1 * d} ${y + 4}l${-8 * d} -4v8z`}));
      label(m.type, m.outcome ? 'bad' : slow ? 'slow' : '', half, y - 3, room, 'middle');
      if (times.length * CHAR <= room + 12) label(times, 'faint', half, y + 15, room + 12, 'middle');
    }
    svg.append(row(i, cls, ...parts));
  });
  return [make('p', {class: 'muted'}, 'Numbers below an arrow: wait in the mailbox + time in the handler.'), keyed(head, svg), more(r)];
}

function keyed(...inner) {
  const box = make('div', {class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Diagram; arrow keys choose a message'}, ...inner);
  box.addEventListener('keydown', e => {
    const step = {ArrowDown: 1, ArrowUp: -1}[e.key];
    if (!step) return;
    e.preventDefault();
    pick(Math.min(Math.max(picked + step, 0), Math.min(rows, current.list.length) - 1));
    const el = box.querySelector('.on');
    if (el) el.scrollIntoView({block: 'nearest', inline: 'nearest'});
  });
  return box;
}

function more(r) {
  if (r.list.length <= rows) return null;
  const b = make('button', {class: 'small', type: 'button'}, 'Show more: ' + rows + ' of ' + r.list.length);
  b.addEventListener('click', () => { rows += MORE; show(); });
  return b;
}

// scale maps time to pixels; stretches in which nothing happens are shortened.
function scale(items, width, shorten) {
  const busy = [];
  for (const m of items) {
    const from = m.at, to = m.at + (m.msg ? m.wait + m.ran : 0), last = busy[busy.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to); else busy.push([from, to]);
  }
  const GAP = width < 500 ? 44 : 54, total = busy.reduce((n, b) => n + b[1] - b[0], 0) || 1;
  let least = shorten ? total / 5 : Infinity, parts;
  for (;;) {
    parts = [];
    for (const b of busy) {
      const last = parts[parts.length - 1];
      if (last && b[0] - last[1] < least) last[1] = b[1]; else parts.push([...b]);
    }
    if (parts.length <= Math.max(4, width / 120)) break;
    least *= 2;
  }
  const sum = parts.reduce((n, p) => n + p[1] - p[0], 0) || 1, room = Math.max(width - (parts.length - 1) * GAP, 50), breaks = [];
  let px = 0;
  for (const [i, p] of parts.entries()) {
    if (i) { breaks.push({x: px, wide: GAP, ns: p[0] - parts[i - 1][1]}); px += GAP; }
    p.push(px, px += (p[1] - p[0]) / sum * room);
  }
  const map = t => {
    let at = parts[0];
    for (const p of parts) if (t >= p[0]) at = p;
    return at[1] === at[0] ? at[2] : at[2] + Math.min((t - at[0]) / (at[1] - at[0]), 1) * (at[3] - at[2]);
  };
  return {map, breaks, parts};
}

let shorten = true;
function timeline(r) {
  const who = lanes(r).filter(a => a !== EDGE), items = r.list.slice(0, rows);
  const inner = Math.max(($('panel').clientWidth || 800) - 40, 260) * zoom, pad = 12, LANE = 48, top = 38;
  const s = scale(items, inner, shorten), height = top + who.length * LANE + 8, width = inner + pad * 2;
  const svg = draw('svg', {width, height, role: 'img', 'aria-label': 'Timeline of ' + who.map(actorName).join(', ') + ': wait in the mailbox and handling of each message'});
  let free = 0;
  for (const p of s.parts) if (p[2] >= free) { svg.append(draw('text', {class: 'faint', x: pad + p[2], y: 15}, when(p[0]))); free = p[2] + when(p[0]).length * CHAR + 8; }
  const lane = {};
  who.forEach((a, i) => {
    lane[a] = top + i * LANE;
    svg.append(draw('rect', {class: 'lane', x: pad, y: lane[a] + 18, width: inner, height: 24, rx: 3}), draw('text', {class: 'name', x: pad, y: lane[a] + 13}, draw('title', {}, data.actors[a]), fit(actorName(a), inner)));
  });
  for (const b of s.breaks) {
    const x = pad + b.x + b.wide / 2;
    svg.append(draw('line', {class: 'break', x1: x, x2: x, y1: top - 6, y2: height}), draw('text', {class: 'faint', x, y: 30, 'text-anchor': 'middle'}, took(b.ns)));
  }
  items.forEach((m, i) => {
    if (lane[m.to] === undefined) return;
    const y = lane[m.to] + 18, x = pad + s.map(m.at);
    if (!m.msg) { svg.append(row(i, '', draw('title', {}, describe(m)), draw('circle', {class: 'dot' + (m.bad ? ' bad' : ''), cx: x, cy: y + 4, r: 4}))); return; }
    const h = pad + s.map(m.at + m.wait), e = pad + s.map(m.at + m.wait + m.ran);
    svg.append(row(i, '', draw('title', {}, describe(m)), draw('rect', {class: 'wait', x, y: y + 10, width: Math.max(h - x, 1), height: 5}),
      draw('rect', {class: 'bar' + (m.outcome ? ' bad' : i === r.slow ? ' slow' : ''), x: h, y: y + 5, width: Math.max(e - h, 2.5), height: 15, rx: 1.5})));
  });
  const button = (text, label, act) => { const b = make('button', {class: 'small', type: 'button', 'aria-label': label}, text); b.addEventListener('click', () => { act(); show(); $('panel').querySelector('[aria-label="' + label + '"]').focus(); }); return b; };
  const bar = make('div', {}, button('+', 'Zoom in', () => { zoom = Math.min(zoom * 2, 64); }), button('−', 'Zoom out', () => { zoom = Math.max(zoom / 2, 1); }),
    button(shorten ? 'True to scale' : 'Shorten quiet times', 'Change the scale', () => { shorten = !shorten; }),
    ...[['wait', 'waits'], ['bar', 'is handled'], ['slow', 'slowest hop'], ['event', 'event']].map(([k, text]) => make('span', {class: 'muted key-of'}, make('i', {class: 'key k-' + k}), text)));
  return [bar, keyed(svg), more(r)];
}

function table(r) {
  const head = ['At', 'Message or event', 'From', 'To', 'Wait', 'Ran', 'Itself', 'State'], num = new Set([0, 4, 5, 6]);
  const body = r.list.slice(0, rows).map((m, i) => {
    const cells = m.msg ? [when(m.at), m.type + (m.outcome ? ' (' + m.outcome + ')' : ''), actorName(m.from), actorName(m.to), took(m.wait), took(m.ran), took(m.self), m.before !== m.after ? m.before + ' → ' + m.after : m.after]
      : [when(m.at), m.text, '', actorName(m.to), '', '', '', ''];
    return make('tr', {class: m.bad || m.outcome ? 'bad' : '', 'data-i': i}, ...cells.map((c, n) => make('td', {class: num.has(n) ? 'n' : ''}, c)));
  });
  return [make('div', {class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Messages'}, make('table', {}, make('thead', {}, make('tr', {}, ...head.map((h, n) => make('th', {scope: 'col', class: num.has(n) ? 'n' : ''}, h)))), make('tbody', {}, ...body))), more(r)];
}

let stats = null;
function actorTree() {
  if (!stats) {
    stats = data.actors.map(() => ({n: 0, ran: 0, wait: 0, events: 0}));
    for (const r of data.requests) for (const a of r.records) {
      const s = stats[a[0] === MSG ? a[3] : a[2]];
      if (!s) continue;
      if (a[0] === MSG) { s.n++; s.ran += a[7]; s.wait = Math.max(s.wait, a[5]); } else s.events++;
    }
  }
  const root = {kids: new Map()};
  data.actors.forEach((path, i) => {
    let at = root;
    for (const part of path.split('/')) { if (!at.kids.has(part)) at.kids.set(part, {kids: new Map()}); at = at.kids.get(part); }
    at.actor = i;
  });
  const branch = (node, cls) => make('ul', {class: cls}, ...[...node.kids].map(([name, kid]) => {
    const s = kid.actor === undefined ? null : stats[kid.actor], line = make('span', {});
    if (s) {
      const b = make('button', {type: 'button', title: 'Only requests of ' + data.actors[kid.actor]}, name);
      b.addEventListener('click', () => { $('filter').value = data.actors[kid.actor]; list(); });
      line.append(b, make('span', {class: 'muted'}, ' ' + count(s.n, 'message') + ', ' + took(s.ran) + ' of its own, longest wait ' + took(s.wait) + (s.events ? ', ' + count(s.events, 'event') : '')));
    } else line.append(name);
    if (!kid.kids.size) return make('li', {}, line);
    return make('li', {}, make('details', {open: 'open'}, make('summary', {}, line), branch(kid, '')));
  }));
  return [make('p', {class: 'muted'}, 'All actors of the requests in this page. Choosing one filters the requests.'), make('div', {class: 'scroll'}, branch(root, 'tree'))];
}

function show() {
  for (const b of document.querySelectorAll('[role=tab]')) {
    const on = b.dataset.tab === tab;
    b.setAttribute('aria-selected', on); b.tabIndex = on ? 0 : -1;
    if (on) $('panel').setAttribute('aria-labelledby', b.id);
  }
  if (!current) { $('panel').replaceChildren(make('p', {class: 'muted'}, 'No request.')); return; }
  $('panel').replaceChildren(...({sequence, timeline, messages: table, actors: actorTree}[tab])(current).filter(Boolean));
  $('picked').hidden = tab === 'actors' || tab === 'messages';
  pick(picked);
}

$('filter').addEventListener('input', list);
$('errors').addEventListener('change', list);
$('list').addEventListener('keydown', e => {
  const at = shown.indexOf(current), to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1}[e.key];
  if (e.key === 'Enter') { $('title').focus(); e.preventDefault(); return; }
  if (to === undefined) return;
  e.preventDefault();
  if (shown[to]) open(shown[to]);
});
$('filter').addEventListener('keydown', e => { if ((e.key === 'ArrowDown' || e.key === 'Enter') && shown.length) { e.preventDefault(); if (!shown.includes(current)) open(shown[0]); $('list').focus(); } });
const tabs = [...document.querySelectorAll('[role=tab]')];
tabs.forEach((b, i) => {
  b.addEventListener('click', () => { tab = b.dataset.tab; if (current) open(current); else show(); });
  b.addEventListener('keydown', e => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!step) return;
    e.preventDefault();
    const next = tabs[(i + step + tabs.length) % tabs.length];
    next.click(); next.focus();
  });
});
let wide = innerWidth;
addEventListener('resize', () => { if (innerWidth !== wide) { wide = innerWidth; show(); } });

$('summary').textContent = data.summary;
$('notes').replaceChildren(...data.notes.map(n => make('li', {}, n)));
const wanted = /^#(sequence|timeline|messages|actors):(.+)$/.exec(decodeURIComponent(location.hash));
if (wanted) tab = wanted[1];
list();
const first = wanted && data.requests.find(r => r.name === wanted[2]) || data.requests[0];
if (first) open(first); else show();
})();
