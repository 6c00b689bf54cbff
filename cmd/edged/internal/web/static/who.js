// Who: societies as they are drawn, and a card for each agent.

import { $, h, s, put, attr, sync, short, age, glyph, tone, count } from './dom.js';
import * as detail from './detail.js';
import { get } from './talk.js';

let world;
const told = new Map();   // of agents, by name: what events have told
const rounds = new Map(); // of interactions, by name: the turn that was told last
let heard = 0;            // turns

export const start = w => { world = w; };

const fresh = () => ({ asked: 0, proved: 0, tools: [] });
const of = name => { if (!told.has(name)) told.set(name, fresh()); return told.get(name); };

// hear takes what events tell of agents and turns.
export function hear(e) {
  const [root, kind, name, what] = e.topic.split('/');
  if (root !== 'edged') return;
  const p = e.payload ?? {};
  if (kind === 'society' && what === 'turn') { heard++; rounds.set(p.edge, p); Object.assign(of(p.speaker), { turn: p }); }
  if (kind !== 'agent') return;
  const a = of(name);
  if (what === 'start') Object.assign(a, { busy: e.time, task: p.task, origin: p.origin, reply: undefined, reason: undefined, asked: 0, proved: 0, tools: [] });
  else if (what === 'end') Object.assign(a, { busy: undefined, status: p.status, reply: p.reply, reason: p.reason, elapsed: p.elapsed });
  else if (what === 'model' && p.skipped) a.skipped = `${p.skipped}: ${p.reason}`;
  else if (what === 'model') Object.assign(a, { tokens: (p.prompt_tokens ?? 0) + (p.output_tokens ?? 0) });
  else if (what === 'tool') { a.asked++; if (p.ran && !p.error) a.proved++; a.tools = [...a.tools.slice(-9), p]; }
}

export function show() {
  const societies = world.graph.filter(p => p.kind === 'society');
  sync($('societies'), societies, x => x.name, () => h('figure', { class: 'society' }), (el, x) => {
    if (el.x === x && el.heard === heard) return;
    Object.assign(el, { x, heard });
    const now = JSON.stringify([x, x.edges.map(e => rounds.get(e.name))]);
    if (el.now !== now) { el.now = now; const at = document.activeElement?.dataset?.edge; draw(el, x); if (at && el.had) [...el.querySelectorAll('[data-edge]')].find(g => g.dataset.edge === at)?.focus(); el.had = true; }
  });
  const steps = new Set(), walk = o => { steps.add(o.name); (o.children ?? []).forEach(walk); };
  world.graph.forEach(p => p.kind !== 'society' && walk(p));
  // There is something to tell of an agent if it is more than a step of a tree.
  const telling = a => a.service || a.is || a.models?.length || a.turn || a.task !== undefined && !steps.has(a.name);
  const list = agents(societies), quiet = list.filter(a => !telling(a));
  sync($('agents'), list.filter(telling), a => a.name, card, paint);
  $('others').hidden = !quiet.length;
  put($('others').firstChild, `${count(quiet.length, 'other')}: steps of trees, and functions that did not run`);
  put($('others').lastChild, quiet.map(a => a.name).join(', '));
  const busy = list.filter(a => a.state === 'busy').length;
  put($('whosum'), [count(list.length, 'agent'), busy && `${busy} busy`].filter(Boolean).join(', '));
}

// agents puts together what status, societies, the robot's list and events say.
function agents(societies) {
  const by = new Map();
  const note = (name, more) => by.set(name, { ...by.get(name), ...more, name });
  for (const name of world.status?.scripts?.agents ?? []) note(name, {});
  for (const x of societies) for (const a of x.agents) note(a.name, { role: a.role, is: a.is });
  for (const a of world.agents) note(a.name, a);
  const walk = t => { if (t.kind === 'agent') note(t.name, { service: t, ...t.detail }); (t.children ?? []).forEach(walk); };
  if (world.status?.scripts?.background) walk(world.status.scripts.background);
  return [...by.values()].map(a => {
    const t = told.get(a.name) ?? {};
    const merged = { ...a, ...Object.fromEntries(Object.entries(t).filter(([, v]) => v !== undefined)) };
    merged.state = t.busy || a.busy === true ? 'busy' : a.service && a.service.state !== 'running' ? a.service.state : t.status ?? a.status ?? 'idle';
    return merged;
  });
}

function card() {
  const p = { mark: h('span', { 'aria-hidden': 'true' }), name: h('b'), state: h('span', { class: 'kind' }), role: h('p', { class: 'dim role' }), facts: h('p', { class: 'facts' }), bar: h('meter', { min: 0, 'aria-label': 'tokens in context' }), task: h('p', { class: 'task' }), reply: h('p', { class: 'said' }), trouble: h('p', { class: 'trouble' }) };
  const open = h('button', { type: 'button', class: 'card' }, h('span', { class: 'head' }, p.mark, p.name, p.state));
  const el = h('article', { class: 'agent' }, open, p.role, p.task, p.reply, p.trouble, p.bar, p.facts);
  open.addEventListener('click', () => look(el.a));
  return Object.assign(el, { p });
}

function paint(el, a) {
  el.a = a;
  const { p } = el;
  put(p.mark, glyph(a.state)).className = 'mark ' + tone(a.state);
  put(p.name, a.name);
  put(p.state, a.state === 'busy' && a.busy !== true ? 'busy for ' + age((Date.now() - Date.parse(a.busy)) / 1000) : a.state);
  line(p.role, [a.role, a.is].filter(Boolean).join(' · '));
  line(p.task, a.task === undefined ? '' : short(a.task, 160));
  line(p.reply, a.reply ? short(a.reply, 200) : '');
  line(p.trouble, a.service?.last_error ?? a.last_error ?? (a.state === 'busy' || a.status === 'done' ? '' : a.reason));
  const lost = Object.values(a.drops ?? {}).reduce((x, y) => x + y, 0);
  const tokens = a.tokens ?? a.context, limit = a.limit ?? a.num_ctx;
  p.bar.hidden = !(tokens && limit);
  if (!p.bar.hidden) Object.assign(p.bar, { max: limit, high: limit * .85, value: tokens });
  line(p.facts, [
    tokens && `${tokens}${limit ? ' / ' + limit : ''} tokens`,
    a.max_queue !== undefined && `queue ${a.queue ?? 0}/${a.max_queue}`,
    lost > 0 && `${lost} dropped`,
    a.restarts_left !== undefined ? `${count(a.restarts_left, 'restart')} left` : a.service?.restarts && count(a.service.restarts, 'restart'),
    a.asked && `tools said ${a.asked}, proved ${a.proved ?? 0}`,
  ].filter(Boolean).join(' · '));
}

const line = (el, text) => { put(el, text ?? ''); el.hidden = !text; };

function look(a) {
  const tools = a.tools?.length ? detail.part('Receipts', h('ul', { class: 'plain' }, a.tools.map(t => h('li', {}, h('span', { class: 'mark ' + (t.error ? 'bad' : 'ok') }, t.error ? '✗' : '✓'), ' ', h('code', {}, t.tool), ' ', short(t.args ?? {}, 120), h('span', { class: 'dim' }, t.error ? ' ' + t.error : t.result === undefined || t.result === null ? '' : ' → ' + short(t.result, 160)))))) : null;
  const about = h('section', {}, h('p', {}, [a.role, a.is, a.state].filter(Boolean).join(' · ')),
    a.task !== undefined && h('div', { class: 'pair' }, h('span', { class: 'dim' }, 'task'), h('pre', {}, short(a.task, 4000))),
    a.reply && h('div', { class: 'pair' }, h('span', { class: 'dim' }, 'reply'), h('pre', {}, a.reply)),
    a.skipped && h('p', { class: 'dim' }, 'passed over ' + a.skipped));
  detail.open(a.name, about, tools, detail.source(a.at ?? world.status?.scripts?.places?.[a.name]), detail.why(a.name), detail.runs(a.name, []));
}

// --- The drawing -------------------------------------------------------------
// Agents on the left, interactions on the right, a line from each member to
// what it takes part in; that of who is asked for its work has an arrow.

const W = 420, H = 30, GAP = 12;

function draw(fig, x) {
  const ax = 8, aw = 124, ex = W - 4 - 204, ew = 204, eh = 42;
  const rows = Math.max(x.agents.length * (H + GAP), x.edges.length * (eh + GAP)), top = 6;
  const spread = (n, i, unit) => top + (rows - n * unit) / (n + 1) * (i + 1) + i * unit;
  const mid = new Map(x.agents.map((a, i) => [a.name, spread(x.agents.length, i, H) + H / 2]));
  const svg = s('svg', { viewBox: `0 0 ${W} ${rows + 2 * top}`, role: 'group', 'aria-label': `society ${x.name}` });
  const arrow = 'arrow-' + x.name.replace(/\W/g, '_');
  svg.append(s('defs', {}, s('marker', { id: arrow, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: 'auto-start-reverse' }, s('path', { d: 'M0 0 8 4 0 8z', class: 'head' }))));
  const boxes = s('g');
  x.edges.forEach((e, i) => {
    const y = spread(x.edges.length, i, eh), m = y + eh / 2, binary = e.type === 'delegation' || e.type === 'oversight';
    const turn = rounds.get(e.name), latest = x.latest?.[e.name];
    const link = (name, cls, head) => {
      const a = mid.get(name);
      if (a === undefined) return;
      svg.append(s('path', { d: `M${ax + aw} ${a}C${(ax + aw + ex) / 2} ${a} ${(ax + aw + ex) / 2} ${m} ${ex} ${m}`, class: `link ${e.type} ${cls}`, ...(head ? { [head]: `url(#${arrow})` } : {}) }));
    };
    e.members.forEach((name, k) => link(name, turn?.speaker === name && latest?.state === 'running' ? 'speaks' : '', binary && k === 1 ? 'marker-start' : null));
    (e.deciders ?? []).forEach(name => e.members.includes(name) || link(name, 'decides'));
    (e.escalation ?? []).slice(0, 1).forEach(name => e.members.includes(name) || link(name, 'decides'));
    const state = latest?.state ?? '', round = turn ? `round ${turn.round}/${e.maxRounds}` : `≤ ${count(e.maxRounds, 'round')}`;
    const g = s('g', { class: `edge ${e.type}`, tabindex: 0, role: 'button', 'data-edge': e.name, 'aria-label': `${e.name}, ${e.type} of ${e.members.join(' and ')}, ${state || 'did not run'}, ${round}` },
      s('title', {}, e.name), s('rect', { x: ex, y, width: ew, height: eh, rx: 9 }),
      s('text', { x: ex + 10, y: y + 17, class: 'name' }, `${glyph(state)} ${clip(e.name.split('/').pop().replace(/\(.*/, '') || e.name, 22)}`),
      s('text', { x: ex + 10, y: y + 33, class: 'sub' }, clip([e.name.includes(e.type) ? '' : e.type, round, turn?.verdict].filter(Boolean).join(' · '), 36)));
    const go = () => edge(x, e);
    g.addEventListener('click', go);
    g.addEventListener('keydown', ev => { if (ev.key === 'Enter') go(); });
    boxes.append(g);
  });
  x.agents.forEach(a => {
    const y = mid.get(a.name) - H / 2;
    boxes.append(s('g', { class: 'node' }, s('title', {}, [a.name, a.role, a.is].filter(Boolean).join(' · ')), s('rect', { x: ax, y, width: aw, height: H, rx: H / 2 }), s('text', { x: ax + aw / 2, y: y + 20, 'text-anchor': 'middle' }, clip(a.name, 16))));
  });
  svg.append(boxes);
  fig.replaceChildren(h('figcaption', {}, h('b', {}, x.name), h('span', { class: 'dim' }, ` society of ${count(x.agents.length, 'agent')}`)), svg);
}

const clip = (t, n) => t.length > n ? t.slice(0, n - 1) + '…' : t;

// edge tells all of an interaction: its facts, who sees what, its turns.
function edge(x, e) {
  const latest = x.latest?.[e.name];
  const facts = [`${e.type} of ${e.members.join(', ')}`, `at most ${count(e.maxRounds, 'round')}, ${e.protocol}`, e.timeout && `${e.timeout} each, then ${e.onTimeout}`, e.resolve && `resolved by ${e.resolve}`, e.quorum && `${e.quorum} of ${e.members.length} are enough`, e.artifacts && `artifacts ${e.artifacts.join(', ')}`, e.guardrails && `guardrails ${e.guardrails.join(', ')}`, `escalates to ${[...(e.escalation ?? []), 'the caller'].join(', then ')}`];
  detail.open(e.name,
    h('section', {}, latest?.state && h('p', {}, h('span', { class: 'mark ' + tone(latest.state) }, glyph(latest.state)), ` ${latest.state} ${latest.reason ?? ''}`), h('ul', { class: 'reasons' }, facts.filter(Boolean).map(f => h('li', {}, f)))),
    sights(e), lastTurns(e), detail.why(e.name));
}

// sights is a table: a row for each who sees, a column for each whose it is.
function sights(e) {
  const sealed = e.type === 'competition' || e.type === 'coopetition';
  const seen = e.sights.filter(t => t.view && t.view !== 'nothing' && (t.topic !== 'sealed' || sealed) && (t.topic !== 'draft' || e.type !== 'competition'));
  const order = ['', ...e.members], by = (x, y) => order.indexOf(x) - order.indexOf(y);
  const viewers = [...new Set(e.sights.map(v => v.viewer))], authors = [...new Set(e.sights.map(v => v.author))].sort(by);
  const word = { full: '', summary: ' (a summary)', unnamed: ' (without names)' };
  const cell = (v, a) => [...new Set(seen.filter(t => t.viewer === v && t.author === a).map(t => t.topic + (word[t.view] ?? ` (${t.view})`)))];
  return detail.part('Who sees what', h('div', { class: 'scroll' }, h('table', { class: 'sights' },
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'sees'), authors.map(a => h('th', { scope: 'col' }, a ? 'of ' + a : 'of the caller')))),
    h('tbody', {}, viewers.map(v => h('tr', {}, h('th', { scope: 'row' }, v), authors.map(a => h('td', {}, v === a ? 'itself' : cell(v, a).join(', ') || 'nothing'))))))));
}

async function lastTurns(e) {
  const talks = (await get('turns')).filter(t => t.edge === e.name);
  return talks.length ? detail.turns((await get('turns/' + encodeURIComponent(talks.at(-1).id))).filter(t => t.edge === e.name)) : null;
}
