// What a record of the trace means; see docs/TRACE.md.

const trouble = new Set(['dead-letter', 'failure', 'refused', 'spawn-failed', 'late', 'stray', 'unsent', 'too-large', 'noise', 'dropped']);

export const failed = (r) => trouble.has(r.kind) || Boolean(r.outcome && r.outcome !== 'ok');

// serverOf is the server that a record is about, or ''.
export function serverOf(r) {
  if (r.server) return r.server;
  for (const actor of [r.to, r.from]) {
    const m = /\/breaker\/([^/]+)/.exec(actor || '');
    if (!m) continue;
    try {
      return decodeURIComponent(m[1].replace(/~[^~]*$/, ''));
    } catch {
      return '';
    }
  }
  return '';
}

// actor is the path of an actor without what all have in common.
export function actor(path) {
  if (!path) return 'edge';
  return path.replace(/^metamcp\/(pool\/breaker\/)?/, '');
}

// title is what a record is in one word.
export function title(r) {
  switch (r.kind) {
    case 'message': return r.type;
    case 'request': return 'request';
    case 'answer': return 'answer';
    case 'dead-letter': return `${r.type || 'message'} (dead letter)`;
    default: return r.kind;
  }
}

// called is the tool that a request or a call is about; a script has no server.
export function called(r) {
  return [r.server, r.tool].filter(Boolean).join('/');
}

// way says who tells whom.
export function way(r) {
  if (['request', 'answer', 'call', 'return'].includes(r.kind)) return called(r);
  if (r.kind === 'message' || r.kind === 'dead-letter') return `${actor(r.from)} → ${actor(r.to)}`;
  return r.to ? actor(r.to) : '';
}

// sign goes before a record: requests go in, answers come out.
export function sign(r) {
  return { message: '→', request: '▶', answer: '◀', call: '▷', return: '◁', start: '●', dropped: '⋯' }[r.kind] || '✱';
}

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1 << 20) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / (1 << 20)).toFixed(1)} MiB`;
}
