// Small helpers. Whatever comes from a child is text here, never markup.

export const $ = (id) => document.getElementById(id);

// el makes an element: el('p', 'note', 'some text', child, …).
export function el(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== '').map((c) => (c instanceof Node ? c : document.createTextNode(String(c)))));
  return node;
}

// set changes a text only where it differs, so that nothing is announced twice.
export function set(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
}

export function plural(n, one, many = one + 's') {
  return `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
}

// options gives a select a first entry and one for each name; what was chosen
// stays chosen.
export function options(select, names) {
  const have = [...select.options].slice(1).map((o) => o.value);
  if (have.length === names.length && have.every((v, i) => v === names[i])) return;
  const chosen = select.value;
  select.replaceChildren(select.options[0], ...names.map((n) => new Option(n, n)));
  select.value = names.includes(chosen) ? chosen : '';
}

// duration writes nanoseconds for people.
export function duration(ns) {
  if (!ns) return '0';
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${round(ns / 1e3)} µs`;
  if (ns < 1e9) return `${round(ns / 1e6)} ms`;
  return `${round(ns / 1e9)} s`;
}

const round = (x) => (x < 10 ? x.toFixed(1) : Math.round(x));

// span writes seconds for people.
export function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function clock(time) {
  const t = new Date(time);
  const two = (n) => String(n).padStart(2, '0');
  return `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}.${String(t.getMilliseconds()).padStart(3, '0')}`;
}

// ask gets JSON from this host; what fails is an Error with a message for
// people and the status (0: the host was not reached).
export async function ask(path) {
  let answer;
  try {
    answer = await fetch(path, { headers: { Accept: 'application/json' } });
  } catch {
    throw Object.assign(new Error('The host does not answer.'), { status: 0 });
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const text = body.message || `The host answered with status ${answer.status}`;
    throw Object.assign(new Error([text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.'), body.hint].filter(Boolean).join(' ')), { status: answer.status });
  }
  return body;
}
