// Now: the trees as they stand, handlers, and durable runs.

import { $, h, put, attr, sync, glyph, tone, ns, count, clock } from './dom.js';
import * as detail from './detail.js';

let world;
export const start = w => { world = w; keys($('trees')); keys($('handlers')); };

const tucked = new Set(); // what is folded, by tree and path

let drawn = [];

// show draws the pictures of the robot, and its handlers, when there are new
// ones.
export function show() {
  const all = [world.graph, world.status, world.runs];
  if (all.every((v, i) => v === drawn[i])) return;
  drawn = all;
  const trees = world.graph.filter(p => p.kind !== 'society').map(p => p.kind === 'graph' ? ofGraph(p) : p);
  sync($('trees'), trees.map(rows), list => list[0].key, () => h('ul', { role: 'tree', class: 'tree' }), (el, list) => {
    attr(el, 'aria-label', list[0].name);
    sync(el, list, r => r.key, row, paint);
  });
  const lines = (world.status?.scripts?.handlers ?? []).map(ofHandler);
  sync($('handlers'), lines.length ? [lines] : [], () => 'h', () => h('div', {}, h('h3', {}, 'Handlers'), h('ul', { role: 'tree', class: 'tree', 'aria-label': 'Handlers' })),
    (el, list) => sync(el.lastChild, list, r => r.key, row, paint));
  first($('trees'));
  first($('handlers'));
  const nodes = trees.flatMap(rows), run = nodes.filter(r => r.state === 'running').length;
  put($('nowsum'), [nodes.length && count(nodes.length, 'node'), run && `${run} running`].filter(Boolean).join(', '));
  runs();
}

// ofGraph makes a tree of an execution graph: each node, and under it where its
// edges lead.
function ofGraph(g) {
  const latest = new Map((g.latest?.children ?? []).map(c => [c.name, c]));
  const to = id => [...new Set((g.edges ?? []).filter(e => e.source === id).flatMap(e => e.condition?.to ?? [e.target]))].join(' or ');
  return {
    ...g.latest, name: g.name, kind: 'graph', path: '',
    children: (g.nodes ?? []).map((n, i) => ({ ...latest.get(n.id), name: n.id, kind: n.type, effect: n.effectClass, path: String(i), detail: to(n.id) && '→ ' + to(n.id), children: latest.get(n.id)?.children })),
  };
}

function rows(tree) {
  const list = [];
  const walk = (o, depth, up) => {
    const key = `${tree.name} ${up}/${o.path} ${o.name}`, folded = tucked.has(key);
    list.push({ ...o, key, depth, top: tree.name, folds: o.children?.length > 0, folded });
    if (!folded) (o.children ?? []).forEach((c, i) => walk(c, depth + 1, `${up}.${i}`));
  };
  walk(tree, 0, '');
  return list;
}

function ofHandler(x, i) {
  const bad = [x.errors && count(x.errors, 'error'), x.dropped && `${x.dropped} lost`].filter(Boolean).join(', ');
  return {
    key: 'h' + i + x.handler, depth: 0, name: x.handler, kind: `${x.kind} ${(x.what ?? []).join(', ')}`, at: x.at, state: x.queued ? 'running' : '',
    detail: [count(x.runs ?? 0, 'run'), x.queued && `${x.queued} waiting`].filter(Boolean).join(', '), reason: bad,
  };
}

// row makes the line of a node; paint fills it.
function row(r) {
  const parts = { fold: h('span', { class: 'fold', 'aria-hidden': 'true' }), mark: h('span', { 'aria-hidden': 'true' }), name: h('b'), kind: h('span', { class: 'kind' }), state: h('span', { class: 'out' }), reason: h('span', { class: 'reason' }), ms: h('span', { class: 'num ms' }) };
  const el = h('li', { role: 'treeitem', tabIndex: -1 }, parts.fold, parts.mark, h('span', { class: 'node' }, parts.name, ' ', parts.kind, parts.state), parts.ms, parts.reason);
  el.addEventListener('click', e => e.target === parts.fold ? fold(el.r) : look(el.r));
  return Object.assign(el, { parts, r });
}

function paint(el, r) {
  el.r = r;
  el.style.setProperty('--depth', r.depth);
  attr(el, 'aria-level', r.depth + 1);
  attr(el, 'aria-expanded', r.folds ? !r.folded : null);
  attr(el, 'data-tone', tone(r.state));
  const p = el.parts;
  put(p.fold, r.folds ? (r.folded ? '▸' : '▾') : '');
  put(p.mark, glyph(r.state));
  p.mark.className = 'mark ' + tone(r.state);
  put(p.name, (r.label ? r.label + ': ' : '') + r.name);
  put(p.kind, [r.kind, r.detail, r.guard && 'if ' + r.guard].filter(Boolean).join(' · '));
  put(p.state, ', ' + (r.state || 'did not run'));
  put(p.reason, r.stopped_by ? `stopped by ${r.stopped_by}` : r.reason ?? '');
  put(p.ms, r.elapsed ? ns(r.elapsed) : '');
}

function fold(r) {
  if (!r.folds) return;
  if (!tucked.delete(r.key)) tucked.add(r.key);
  drawn = [];
  show();
}

function look(r) {
  const at = r.at ?? world.status?.scripts?.places?.[r.name];
  const state = h('section', {}, h('p', {}, `${r.kind}, ${r.state || 'did not run'}`), r.reason && h('p', {}, r.reason), r.guard && h('p', { class: 'dim' }, 'guarded by ' + r.guard));
  detail.open(r.name, state, detail.source(at), detail.why(r.name), detail.runs(r.name, world.runs));
}

// keys moves in a tree as trees are moved in: arrows, Home, End, Enter.
function keys(root) {
  root.addEventListener('keydown', e => {
    const el = e.target.closest('[role=treeitem]');
    if (!el) return;
    const all = [...root.querySelectorAll('[role=treeitem]')], i = all.indexOf(el), r = el.r;
    const go = x => { if (x) { el.tabIndex = -1; x.tabIndex = 0; x.focus(); } };
    if (e.key === 'ArrowDown') go(all[i + 1]);
    else if (e.key === 'ArrowUp') go(all[i - 1]);
    else if (e.key === 'Home') go(all[0]);
    else if (e.key === 'End') go(all.at(-1));
    else if (e.key === 'ArrowRight') r.folds && r.folded ? fold(r) : go(all[i + 1]);
    else if (e.key === 'ArrowLeft') r.folds && !r.folded ? fold(r) : go(all.slice(0, i).findLast(x => x.r.depth < r.depth));
    else if (e.key === 'Enter') look(r);
    else return;
    e.preventDefault();
  });
  root.addEventListener('focusin', e => { const el = e.target.closest('[role=treeitem]'); if (el) { root.querySelectorAll('[tabindex="0"]').forEach(x => x.tabIndex = -1); el.tabIndex = 0; } });
}

function first(root) {
  if (!root.querySelector('[tabindex="0"]')) { const el = root.querySelector('[role=treeitem]'); if (el) el.tabIndex = 0; }
}

function runs() {
  const list = world.runs.slice(-8).reverse();
  sync($('runs'), list.length ? [list] : [], () => 'r', () => h('div', {}, h('h3', {}, 'Durable runs'), h('ul', { class: 'plain runs' })), (el, all) =>
    sync(el.lastChild, all, r => r.id, r => h('li', {}, h('span'), h('button', { class: 'link', type: 'button', on: { click: () => detail.run(r.id) } }), h('span', { class: 'dim' })), (li, r) => {
      put(li.children[0], glyph(r.state) + ' ').className = 'mark ' + tone(r.state);
      put(li.children[1], r.workflow);
      put(li.children[2], ` ${r.state}, ${clock(r.started).slice(0, 8)}${r.reason ? ': ' + r.reason : ''}`);
    }));
}
