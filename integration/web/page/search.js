// The search of the catalog, as mcp_discover has it.

import { $, ask, el, plural, set } from './dom.js';

let asked = 0; // counts searches: a late answer is not shown

$('search').addEventListener('submit', async (e) => {
  e.preventDefault();
  const text = $('query').value.trim();
  if (!text) {
    $('query').focus();
    return;
  }
  const mine = ++asked;
  $('search').setAttribute('aria-busy', 'true');
  set($('search-note'), 'Searching…');
  try {
    const found = await ask(`/api/search?${new URLSearchParams({ q: text, server: $('search-server').value })}`);
    if (mine === asked) show(found);
  } catch (err) {
    if (mine !== asked) return;
    $('matches').replaceChildren();
    set($('search-note'), err.message);
  } finally {
    if (mine === asked) $('search').removeAttribute('aria-busy');
  }
});

$('query').addEventListener('keydown', (e) => {
  if (e.key !== 'Escape') return;
  asked++;
  $('query').value = '';
  $('matches').replaceChildren();
  $('search').removeAttribute('aria-busy');
  set($('search-note'), '');
});

function show(found) {
  $('matches').replaceChildren(...found.matches.map((m, i) => match(m, i)));
  const none = found.soon ? 'No tool has these words; search again in a moment' : 'No tool fits; use other words';
  const parts = [found.matches.length ? plural(found.matches.length, 'tool fits', 'tools fit') : none];
  if (found.pending.length) parts.push(`not ready yet: ${found.pending.join(', ')}`);
  for (const f of found.failed) parts.push(`${f.server} could not be asked: ${f.error}`);
  set($('search-note'), [...parts, ...found.notes].join(' · '));
}

function match(m, i) {
  const score = el('meter', '');
  score.min = 0;
  score.max = 1;
  score.value = m.score;
  score.setAttribute('aria-label', 'Score');
  const button = el('button', '', 'Schema');
  button.type = 'button';
  button.setAttribute('aria-expanded', 'false');
  button.setAttribute('aria-controls', `schema-${i}`);
  button.setAttribute('aria-label', `Schema of ${m.tool}`);
  const schema = el('pre', 'schema');
  schema.id = `schema-${i}`;
  schema.hidden = true;
  schema.tabIndex = 0;
  schema.setAttribute('aria-label', `Definition of ${m.tool}`);
  button.addEventListener('click', async () => {
    schema.hidden = !schema.hidden;
    button.setAttribute('aria-expanded', String(!schema.hidden));
    if (schema.hidden || schema.textContent) return;
    try {
      const { definition } = await ask(`/api/tool?${new URLSearchParams({ server: m.server, tool: m.tool })}`);
      set(schema, JSON.stringify(definition, null, 2));
    } catch (err) {
      set(schema, err.message);
    }
  });
  return el('li', '',
    el('div', 'line', el('h3', '', m.tool), el('span', 'badge', m.server), el('span', 'score', score, m.score.toFixed(3)), button),
    el('p', 'description', m.summary || 'It has no description.'),
    m.hidden ? el('p', 'error', 'Its texts held invisible characters, which were removed; be careful with what they say.') : null,
    schema);
}
