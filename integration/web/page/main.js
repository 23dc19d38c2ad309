// Keeps the page up to date: one stream of server-sent events, which is opened
// again when it ends.

import { $, ask, set, span } from './dom.js';
import { showStatus, tick } from './status.js';
import { addRecords, noteDropped } from './flow.js';
import './request.js';
import './search.js';

let stream = null;
let after = null; // what to continue after
let attempts = 0;
let retryAt = 0;
let retry = 0;
let why = '';

function link(state, text) {
  $('link').dataset.state = state;
  document.body.classList.toggle('stale', state !== 'live');
  set($('link-text'), text);
}

function banner(text) {
  $('banner').hidden = !text;
  set($('banner'), text || '');
}

function connect() {
  retry = 0;
  link('connecting', attempts ? 'Reconnecting…' : 'Connecting…');
  stream = new EventSource(after === null ? '/api/events' : `/api/events?after=${after}`);
  stream.addEventListener('open', () => {
    attempts = 0;
    link('live', 'Live');
    banner('');
  });
  stream.addEventListener('status', (e) => {
    const status = JSON.parse(e.data);
    showStatus(status);
    if (status.draining) banner('The host is ending: calls in flight finish, new ones are refused.');
  });
  stream.addEventListener('records', (e) => {
    const batch = JSON.parse(e.data);
    after = batch.next;
    if (batch.dropped) noteDropped(batch.dropped);
    addRecords(batch.records);
  });
  stream.addEventListener('over', () => lost('The host has ended.'));
  stream.addEventListener('error', () => lost(''));
}

// lost closes the stream, finds out why, and tries again later each time.
async function lost(reason) {
  if (!stream) return;
  stream.close();
  stream = null;
  attempts++;
  why = reason || 'The host does not answer.';
  link('gone', why);
  if (!reason) {
    // A stream does not say why it was refused.
    try {
      await ask('/api/events?after=why');
    } catch (e) {
      if (e.status === 401 || e.status === 403) {
        link('gone', 'This page has no access any more');
        banner('The host was started anew and has a new link: open the one that it printed on stderr.');
        return;
      }
      if (e.status === 503) why = e.message;
    }
  }
  banner(`${why} What you see is from before; the page tries again by itself.`);
  const wait = Math.min(10, 2 ** Math.min(attempts - 1, 4));
  retryAt = Date.now() + wait * 1000;
  retry = setTimeout(connect, wait * 1000);
}

setInterval(() => {
  tick();
  if (retry) link('gone', `Host is gone; again in ${span(Math.ceil((retryAt - Date.now()) / 1000))}`);
}, 1000);

connect();
