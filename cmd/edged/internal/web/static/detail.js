// The drawer on the side: all that is known of one thing.

import { $, h, put, short, clock, mark, ns, ms, count } from './dom.js';
import { get, post } from './talk.js';

const drawer = $('detail'), facts = $('facts');
let from, asked = 0;

$('close').addEventListener('click', close);
document.addEventListener('keydown', e => { if (e.key === 'Escape' && !drawer.hidden) close(); });

export function close() {
  drawer.hidden = true;
  if (from?.isConnected) from.focus({ preventScroll: true });
}

// open shows a title and, as they come, parts: each an element, or a promise of
// one.
export function open(title, ...parts) {
  if (drawer.hidden) from = document.activeElement;
  const mine = ++asked;
  put($('h-detail'), title);
  facts.replaceChildren();
  for (const p of parts) {
    const slot = h('div');
    facts.append(slot);
    Promise.resolve(p).then(el => { if (mine === asked && el) slot.replaceWith(el); else slot.remove(); }, e => slot.replaceWith(h('p', { class: 'dim' }, e.message)));
  }
  drawer.hidden = false;
  drawer.scrollTop = 0;
  drawer.focus({ preventScroll: true });
}

const part = (title, ...kids) => h('section', {}, h('h3', {}, title), ...kids);

// source shows a line of a script with those around it. At is file:line:col.
export async function source(at) {
  if (!at) return null;
  const [file, line] = at.split(':'), n = Number(line);
  let text;
  try { text = await get('source', { file }); } catch (e) { return part('Source', h('p', {}, h('code', {}, at)), h('p', { class: 'dim' }, e.message)); }
  const lines = String(text.text ?? text).split('\n'), first = Math.max(1, n - 6);
  const list = h('ol', { class: 'code', start: first }, lines.slice(first - 1, n + 14).map((t, i) => h('li', { class: first + i === n ? 'here' : '', 'aria-current': first + i === n ? 'true' : null }, t || ' ')));
  list.style.counterReset = `line ${first - 1}`;
  return part('Source', h('p', {}, h('code', {}, `${file}:${line}`)), list);
}

export async function why(name) {
  const list = await get('why', { name });
  return part('Why', list.map(a => h('div', {}, h('p', { class: 'dim' }, [a.kind, a.what].filter(Boolean).join(': ')),
    h('ul', { class: 'reasons' }, a.reasons.map(r => h('li', {}, h('b', {}, r.why), ' ', r.text))))));
}

// runs lists the runs of a workflow: the durable ones, and those of the record.
export async function runs(name, list) {
  const mine = list.filter(r => r.workflow === name).slice(-10).reverse(), level = name.replace(/[/+#]/g, '_');
  let ends = [];
  try { ends = (await get('trace', { filter: `edged/+/${level}/end`, n: 10 })).reverse(); } catch { /* it keeps no record */ }
  if (!mine.length && !ends.length) return null;
  return part('Recent runs',
    h('ul', { class: 'plain' }, mine.map(r => h('li', {}, mark(r.state), ' ', h('button', { class: 'link', type: 'button', on: { click: () => run(r.id) } }, clock(r.started)), ' ', r.state, r.reason && h('span', { class: 'dim' }, ' ' + r.reason)))),
    h('ul', { class: 'plain' }, ends.map(e => h('li', {}, mark(e.payload?.status), ' ', clock(e.time), ' ', e.payload?.status, e.payload?.elapsed ? ` after ${ms(e.payload.elapsed * 1000)}` : '', e.payload?.reason && h('span', { class: 'dim' }, ' ' + e.payload.reason)))));
}

// run shows a durable run, with its steps and what can be done about it.
export function run(id) {
  open('Run ' + id.slice(-8), get('runs/' + encodeURIComponent(id)).then(r => h('div', {}, head(r), steps(r), turns(r.turns ?? []))));
}

function head(r) {
  const said = h('p', { class: 'trouble', role: 'alert' });
  const op = (name, what = {}) => h('button', { type: 'button', on: { click: async () => {
    try { await post(`runs/${encodeURIComponent(r.id)}/${name}`, what); run(r.id); } catch (e) { put(said, e.message); }
  } } }, name);
  const open = !r.ended || r.ended.startsWith('0001');
  return h('section', {}, h('p', {}, mark(r.state), ` ${r.workflow}: ${r.state}`), r.reason && h('p', {}, r.reason), r.reply && h('p', { class: 'said' }, r.reply),
    h('p', { class: 'dim' }, `${r.id}, since ${new Date(r.started).toLocaleString()}`),
    h('div', { class: 'options' }, open && r.state !== 'running' && op('resume'), open && op('cancel'), !open && r.state !== 'not durable' && op('fork')), said);
}

function steps(r) {
  if (!r.steps?.length) return '';
  const decide = (st, decision) => h('button', { type: 'button', on: { click: () => post(`runs/${encodeURIComponent(r.id)}/decide`, { step: st.path, decision }).then(() => run(r.id)) } }, decision);
  return part('Steps', h('ul', { class: 'plain' }, r.steps.map(st => h('li', {}, mark(st.state), ` ${st.name} `, h('span', { class: 'dim' }, [st.state, st.reason, short(st.reply ?? '', 200)].filter(Boolean).join(': ')),
    st.state === 'in_doubt' && h('div', { class: 'options' }, 'What became of it? ', decide(st, 'done'), decide(st, 'again'), decide(st, 'failed'))))));
}

// turns lists who was asked what in a run of an interaction.
export function turns(list) {
  if (!list.length) return '';
  return part(count(list.length, 'turn'), list.map(t => h('details', { class: 'turn' },
    h('summary', {}, mark(t.state), ` ${t.n}. ${t.speaker} `, h('span', { class: 'dim' }, `round ${t.round}, ${t.kind}`), t.verdict ? ` ${t.verdict}` : '', h('span', { class: 'dim num' }, ns(t.elapsed))),
    pair('task', t.system), pair('prompt', t.prompt), pair('answer', t.answer ?? t.said), t.why && pair('why', t.why),
    t.tools?.length && pair('tools', t.tools), pair('tokens', t.usage?.calls ? `${t.usage.prompt_tokens ?? 0} read, ${t.usage.output_tokens ?? 0} written` : ''))));
}

const pair = (k, v) => v ? h('div', { class: 'pair' }, h('span', { class: 'dim' }, k), h('pre', {}, typeof v === 'string' ? v : JSON.stringify(v, null, 1))) : '';

// event shows one event whole.
export function event(e, follow) {
  open(e.topic, h('section', {}, h('p', { class: 'dim' }, `${clock(e.time)} · number ${e.seq} · of ${e.source}`),
    h('pre', {}, JSON.stringify(e.payload, null, 1) ?? ''),
    h('button', { type: 'button', on: { click: () => { close(); follow(e); } } }, 'Follow its cause')));
}

export { part };
