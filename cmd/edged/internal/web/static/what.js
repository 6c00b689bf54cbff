// What: the blackboard, devices with their readings, the map of the simulated
// robot.

import { $, h, s, put, attr, sync, pairs, short, count, age } from './dom.js';
import * as detail from './detail.js';
import { get } from './talk.js';

let world;
const board = new Map();  // entries by key
const series = new Map(); // the last numbers of keys and devices, by name
const POINTS = 60, MOST = 300;
let word = '';

export function start(w) {
  world = w;
  $('keys').addEventListener('input', e => { word = e.target.value.trim().toLowerCase(); show(); });
}

// --- Numbers over time -------------------------------------------------------

// note keeps a number, at most two a second of each.
function note(name, v, time) {
  if (typeof v === 'boolean') v = +v;
  if (typeof v !== 'number' || !isFinite(v)) return;
  let list = series.get(name);
  if (!list) series.set(name, list = []);
  if (list.length && time - list.at(-1)[0] < 500) list.at(-1)[1] = v;
  else list.push([time, v]);
  if (list.length > POINTS) list.shift();
}

function spark(el, name) {
  const list = series.get(name);
  if (!list || list.length < 2) { attr(el, 'hidden', ''); return; }
  const vs = list.map(p => p[1]), low = Math.min(...vs), span = Math.max(...vs) - low || 1;
  attr(el, 'hidden');
  attr(el.firstChild, 'points', list.map((p, i) => `${(i * 60 / (list.length - 1)).toFixed(1)},${(15 - (p[1] - low) * 14 / span).toFixed(1)}`).join(' '));
  attr(el, 'aria-label', `from ${low} to ${low + (span === 1 && Math.max(...vs) === low ? 0 : span)}`);
}

const sparkline = () => s('svg', { class: 'spark', viewBox: '0 0 60 16', role: 'img', hidden: true }, s('polyline', { points: '' }));

// --- The blackboard ----------------------------------------------------------

export function setBoard(list) {
  const gone = new Set(board.keys());
  for (const e of list) {
    gone.delete(e.key);
    const old = board.get(e.key);
    if (!old || old.version !== e.version || old.time !== e.time) board.set(e.key, { ...e, changed: old && Date.now() });
    note('b/' + e.key, e.value, Date.parse(e.time));
  }
  for (const k of gone) board.delete(k);
}

// hear takes changes of the board and readings from events.
export function hear(e) {
  if (e.topic.startsWith('board/')) {
    const key = e.topic.slice(6), p = e.payload;
    if (!p || typeof p !== 'object' || !('version' in p)) return;
    if (p.new === undefined || p.new === null && p.deleted) { board.delete(key); return; }
    const changed = JSON.stringify(p.new) !== JSON.stringify(p.old);
    board.set(key, { ...board.get(key), key, value: p.new, version: p.version, time: e.time, writer: p.writer, changed: changed ? Date.now() : board.get(key)?.changed });
    note('b/' + key, p.new, Date.parse(e.time));
  } else if (e.source.startsWith('hw:') && e.payload && 'value' in e.payload) {
    note('d/' + e.topic.slice(3), e.payload.value, Date.parse(e.time));
    if (e.topic === 'hw/pose' && map) Object.assign(map.robot, e.payload.value);
  }
}

export function show() {
  const all = [...board.values()].sort((a, b) => a.key < b.key ? -1 : 1);
  const list = all.filter(e => !word || e.key.toLowerCase().includes(word) || short(e.value).toLowerCase().includes(word));
  sync($('rows'), list.slice(0, MOST), e => e.key, entry, paint);
  devices();
  draw();
  put($('whatsum'), `${list.length < all.length ? list.length + ' of ' : ''}${count(all.length, 'key')}${list.length > MOST ? `, the first ${MOST} are shown` : ''}`);
}

function entry() {
  const p = { key: h('th', { scope: 'row' }), value: h('span', { class: 'value' }), spark: sparkline(), age: h('td', { class: 'num' }), kept: h('td', { class: 'dim' }), writer: h('td', { class: 'dim' }) };
  const more = h('button', { type: 'button', class: 'link' });
  p.key.append(more);
  const el = h('tr', {}, p.key, h('td', {}, h('div', { class: 'cell' }, p.value, p.spark)), p.age, p.kept, p.writer);
  more.addEventListener('click', () => detail.open(el.e.key, h('section', {}, h('p', { class: 'dim' }, `version ${el.e.version}, by ${el.e.writer}, ${new Date(el.e.time).toLocaleString()}${el.e.durable ? ', kept on disk' : ', in memory'}${el.e.ttl ? ', gone after ' + el.e.ttl : ''}`), h('pre', {}, JSON.stringify(el.e.value, null, 1))), detail.why('board/' + el.e.key)));
  return Object.assign(el, { p, more });
}

function paint(el, e) {
  put(el.p.age, age((Date.now() - Date.parse(e.time)) / 1000));
  if (el.e === e) return;
  el.e = e;
  put(el.more, e.key);
  attr(put(el.p.value, pairs(typeof e.value === 'number' ? Number(e.value.toPrecision(6)) : e.value, 90)), 'data-num', typeof e.value === 'number' ? '' : null);
  put(el.p.kept, e.ttl ? e.ttl.replace(/(\D)0s$/, '$1') : e.durable ? 'disk' : 'memory');
  put(el.p.writer, (e.writer ?? '').replace(/^script:/, ''));
  spark(el.p.spark, 'b/' + e.key);
  if (e.changed && e.changed !== el.flashed) {
    el.flashed = e.changed;
    el.classList.remove('flash');
    void el.offsetWidth; // so that it begins anew
    el.classList.add('flash');
  }
}

// --- Devices -----------------------------------------------------------------

function devices() {
  const list = world.status?.devices ?? [];
  sync($('devices'), list.length ? [list] : [], () => 'd', () => h('div', {}, h('h3', {}, 'Devices'), h('ul', { class: 'devices' })), (el, all) =>
    sync(el.lastChild, all, d => d.name, device, (li, d) => {
      li.d = d;
      put(li.p.name, d.name);
      attr(put(li.p.badge, d.simulated ? 'sim' : 'real'), 'title', d.simulated ? 'simulated' : 'a real device');
      li.p.badge.className = 'badge ' + (d.simulated ? 'sim' : 'real');
      put(li.p.value, d.error ?? (d.at_rest ? 'at rest' : valueOf(d)));
      attr(li, 'data-tone', d.error ? 'bad' : d.quality && d.quality !== 'good' ? 'warn' : null);
      put(li.p.more, [d.goal && '▶ ' + d.goal, d.quality && d.quality !== 'good' && d.quality].filter(Boolean).join(' · '));
      spark(li.p.spark, 'd/' + d.name);
    }));
}

const valueOf = d => (d.value === undefined || d.value === null ? 'no reading' : pairs(d.value)) + (d.unit && typeof d.value !== 'object' ? ' ' + d.unit : '');

function device() {
  const p = { name: h('button', { type: 'button', class: 'link' }), badge: h('span'), value: h('span', { class: 'value' }), spark: sparkline(), more: h('span', { class: 'dim' }) };
  const li = h('li', {}, ...Object.values(p));
  p.name.addEventListener('click', () => detail.open(li.d.name, h('section', {}, h('p', {}, `${li.d.simulated ? 'simulated' : 'real'} ${li.d.kind}${li.d.time ? ', ' + age((Date.now() - Date.parse(li.d.time)) / 1000) + ' ago' : ''}`), h('pre', {}, JSON.stringify(li.d.value ?? null, null, 1))), detail.why(li.d.name)));
  return Object.assign(li, { p });
}

// --- The map -----------------------------------------------------------------

let map, asked = 0, version = 0, drawn = '';

// look asks for the map of a simulated robot.
export async function look() {
  if (!world.status?.devices?.some(d => d.simulated && d.name === 'pose') || Date.now() - asked < 900) return;
  asked = Date.now();
  try { map = await get('map'); } catch { map = undefined; }
  version++;
}

function draw() {
  const box = $('map');
  const key = map?.walls && [version, map.robot.x, map.robot.y, map.robot.theta].join();
  if (key === drawn) return;
  drawn = key;
  if (!(box.hidden = !map?.walls)) {
    const y = v => map.height - v, r = map.robot;
    const line = ([a, b, c, d], cls) => s('line', { x1: a, y1: y(b), x2: c, y2: y(d), class: cls });
    const svg = s('svg', { viewBox: `-.15 -.15 ${map.width + .3} ${map.height + .3}`, role: 'img', 'aria-label': `Map: the robot is in ${r.room || 'no room'}, at ${r.x}, ${r.y}` },
      map.rooms.flatMap(m => m.rects.map(q => s('rect', { x: q[0], y: y(q[1] + q[3]), width: q[2], height: q[3], class: 'room' + (m.lamp > 0 ? ' lit' : '') }))),
      map.rooms.map(m => s('text', { x: m.at[0], y: y(m.at[1]) }, `${m.name} ${m.temp ? Math.round(m.temp) + '°' : ''}`)),
      map.walls.map(w => line(w, 'wall')), (map.doors ?? []).map(d => line(d.line, d.open ? 'door open' : 'door')),
      s('rect', { x: map.dock[0] - .2, y: y(map.dock[1]) - .2, width: .4, height: .4, class: 'dock' }),
      map.path?.length && s('polyline', { points: [[r.x, r.y], ...map.path].map(p => `${p[0]},${y(p[1])}`).join(' '), class: 'path' }),
      Object.values(map.obstacles ?? {}).map(o => s('circle', { cx: o[0], cy: y(o[1]), r: o[2], class: 'obstacle' })),
      s('g', { class: 'robot', transform: `translate(${r.x} ${y(r.y)}) rotate(${-r.theta * 180 / Math.PI})` }, s('circle', { r: Math.max(r.radius, .2) }), s('path', { d: 'M.5 0 .16-.2V.2z' })));
    box.replaceChildren(svg);
  }
}
