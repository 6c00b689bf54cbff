// Timeline: events and actions on one axis of time, and as a list.

import { $, h, put, attr, short, pairs, clock, match, count } from './dom.js';
import * as detail from './detail.js';
import { get, post } from './talk.js';

const KEEP = 4000, ROWS = 120, SPAN = 60e3;
const lanes = [['outside', 'in'], ['thinks', 'think'], ['board', 'board'], ['acts', 'act'], ['safety', 'bad']];

let world, filter = '', readings = false, paused, chain, held = false, dirty = false, rate = 0;
const events = [], bySeq = new Map();

export function start(w) {
  world = w;
  const list = $('events');
  $('filter').addEventListener('input', e => { filter = e.target.value.trim(); show(true); });
  $('readings').addEventListener('change', e => { readings = e.target.checked; show(true); });
  $('pause').addEventListener('click', () => { paused = paused ? undefined : events.slice(); attr($('pause'), 'aria-pressed', !!paused); put($('pause'), paused ? 'Go on' : 'Pause'); show(true); });
  $('follow').addEventListener('click', () => { chain = undefined; $('follow').hidden = true; show(true); });
  $('test').addEventListener('click', save);
  list.addEventListener('focusin', () => { held = true; });
  list.addEventListener('focusout', () => { held = false; });
  list.addEventListener('pointerenter', () => { held = true; });
  list.addEventListener('pointerleave', () => { held = list.contains(document.activeElement); });
  list.addEventListener('click', e => { const li = e.target.closest('li'); if (li?.e) detail.event(li.e, follow); });
  list.addEventListener('keydown', e => {
    const b = e.target.closest('li');
    const to = e.key === 'ArrowDown' ? b?.nextElementSibling : e.key === 'ArrowUp' ? b?.previousElementSibling : null;
    if (to) { to.firstChild.focus(); e.preventDefault(); }
  });
  $('axis').addEventListener('click', e => { const hit = nearest(e); if (hit) detail.event(hit, follow); });
}

// lane is where on the axis an event belongs.
function lane(e) {
  const t = e.topic;
  if (t.startsWith('edged/safety') || t === 'edged/error' || t.startsWith('edged/confirm') || t.startsWith('edged/question')) return 4;
  if (/^hw\/[^/]+\/(set|goal)/.test(t) || t.startsWith('voice/say')) return 3;
  if (t.startsWith('board/')) return 2;
  if (t.startsWith('edged/') || t.startsWith('request/')) return 1;
  return e.source.startsWith('script') || e.source.startsWith('agent') ? 1 : 0;
}

// plain is what happens all the time and tells little.
const plain = e => e.lane === 0 && e.source.startsWith('hw:') || e.lane === 2 && e.payload && short(e.payload.new) === short(e.payload.old) || /\/(set|goal)$/.test(e.topic) && e.source.startsWith('hw:') && again(e);

// again says whether the same was told just before: an actuator is told to go on.
function again(e) {
  for (let i = events.length - 1, n = 0; i >= 0 && n < 60; i--, n++) {
    const o = events[i];
    if (o !== e && o.seq < e.seq && o.topic === e.topic) return Date.parse(e.time) - o.at < 1500 && o.payload?.state === e.payload?.state;
  }
  return false;
}

// hear takes events, oldest first.
export function hear(list) {
  for (const e of list) {
    if (bySeq.has(e.seq)) continue;
    e.at = Date.parse(e.time);
    e.lane = lane(e);
    e.plain = plain(e);
    events.push(e);
    bySeq.set(e.seq, e);
  }
  if (events.some((e, i) => i && e.seq < events[i - 1].seq)) events.sort((a, b) => a.seq - b.seq);
  if (events.length > KEEP) for (const e of events.splice(0, events.length - KEEP)) bySeq.delete(e.seq);
  rate += list.length;
  dirty = true;
}

// forget drops everything: numbers begin anew when a robot is started.
export function forget() {
  events.length = 0;
  bySeq.clear();
  dirty = true;
}

function wanted(e) {
  if (chain) return chain.has(e.seq);
  if (!filter) return readings || !e.plain;
  if (/[/+#]/.test(filter) && match(filter, e.topic)) return true;
  const word = filter.toLowerCase();
  return e.topic.toLowerCase().includes(word) || e.source.toLowerCase().includes(word) || short(e.payload, 400).toLowerCase().includes(word);
}

// show draws the list, and the axis. What is read is not moved.
export function show(now) {
  if (!now && (held || !dirty)) { axis(); return; }
  dirty = false;
  const from = paused ?? events, list = [];
  for (let i = from.length - 1; i >= 0 && list.length < ROWS; i--) if (wanted(from[i])) list.push(from[i]);
  const ol = $('events');
  while (ol.children.length > list.length) ol.lastChild.remove();
  while (ol.children.length < list.length) ol.append(row());
  list.forEach((e, i) => paint(ol.children[i], e));
  if (chain) list.length && put($('timesum'), `${count(list.length, 'event')} of one cause`);
  axis();
}

function row() {
  const p = { time: h('time'), topic: h('b'), payload: h('span', { class: 'value' }), source: h('span', { class: 'dim' }) };
  return Object.assign(h('li', {}, h('button', { type: 'button', class: 'event' }, ...Object.values(p))), { p });
}

function paint(li, e) {
  if (li.e === e) return;
  li.e = e;
  attr(li, 'data-lane', lanes[e.lane][1]);
  put(li.p.time, clock(e.time));
  put(li.p.topic, e.topic);
  put(li.p.payload, told(e));
  put(li.p.source, e.source);
  const d = chain ? depth(e) : 0;
  li.style.setProperty('--depth', d);
}

// told is a payload in one line; a change of the board as a change.
function told({ topic, payload: v, cut }) {
  if (cut) return `${cut} bytes`;
  if (topic.startsWith('board/') && v && 'version' in v) return `${pairs(v.old)} → ${pairs(v.new)}`;
  return v === undefined ? '' : pairs(v, 90);
}

function depth(e) { let n = 0; for (let c = bySeq.get(e.cause); c && chain.has(c.seq) && n < 12; c = bySeq.get(c.cause)) n++; return n; }

// follow shows what led to an event, and what came of it. The robot is asked
// for what came before the page was opened.
async function follow(e) {
  let top = e;
  while (bySeq.get(top.cause)) top = bySeq.get(top.cause);
  if (top.cause) try { const n = rate; hear((await get('trace/' + e.seq)).sort((a, b) => a.seq - b.seq)); rate = n; } catch { /* the record does not go that far back */ }
  chain = new Set([e.seq]);
  for (let c = bySeq.get(e.cause); c; c = bySeq.get(c.cause)) chain.add(c.seq);
  let root = e; while (bySeq.get(root.cause)) root = bySeq.get(root.cause);
  for (const x of events) if (x.cause && x.seq > root.seq && chain.has(x.cause)) chain.add(x.seq);
  $('follow').hidden = false;
  show(true);
  $('timeline').scrollIntoView({ block: 'nearest' });
  $('follow').focus({ preventScroll: true });
}

// beat is called once a second.
export function beat() {
  if (!chain) put($('timesum'), [paused ? 'paused' : `${rate} a second`, held && !paused ? 'held while you read' : ''].filter(Boolean).join(', '));
  rate = 0;
}

async function save() {
  const b = $('test'), said = $('saved');
  b.disabled = true;
  put(said, 'saving…');
  try {
    const r = await post('test', { last: '60s' }, 60000);
    put(said, r.file ? `saved in ${r.file}${r.golden ? `, what the robot does then in ${r.golden}` : ''}` : short(r, 300));
  } catch (e) { put(said, e.message); }
  b.disabled = false;
}

// --- The axis ----------------------------------------------------------------

let ink;
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { ink = undefined; });

function colours() {
  const style = getComputedStyle(document.documentElement), get = n => style.getPropertyValue(n).trim();
  return { lanes: lanes.map(l => get('--lane-' + l[1])), text: get('--dim'), line: get('--line'), font: '11px ' + getComputedStyle(document.body).fontFamily };
}

const left = 58;
let shown = [];

function axis() {
  const canvas = $('axis'), box = canvas.getBoundingClientRect(), dpr = window.devicePixelRatio || 1;
  if (!box.width || box.bottom < 0 || box.top > innerHeight) return;
  const w = box.width, high = box.height;
  if (canvas.width !== Math.round(w * dpr)) { canvas.width = Math.round(w * dpr); canvas.height = Math.round(high * dpr); }
  const c = canvas.getContext('2d');
  ink ??= colours();
  c.setTransform(dpr, 0, 0, dpr, 0, 0);
  c.clearRect(0, 0, w, high);
  c.font = ink.font;
  c.textBaseline = 'middle';
  const from = paused ?? events, end = paused ? from.at(-1)?.at ?? Date.now() : Date.now() + (world.skew ?? 0), unit = (high - 14) / lanes.length;
  const x = t => left + (w - left - 4) * (1 - (end - t) / SPAN);
  lanes.forEach((l, i) => {
    c.fillStyle = ink.text;
    c.textAlign = 'left';
    c.fillText(l[0], 2, unit * (i + .5));
    c.strokeStyle = ink.line;
    c.beginPath(); c.moveTo(left, unit * (i + .5)); c.lineTo(w, unit * (i + .5)); c.stroke();
  });
  c.textAlign = 'center';
  for (let t = 0; t <= 60; t += w < 500 ? 20 : 10) c.fillText(t ? `−${t} s` : 'now', Math.min(w - 14, x(end - t * 1000)), high - 6);
  shown = [];
  const taken = new Set();
  for (let i = from.length - 1; i >= 0 && from[i].at > end - SPAN; i--) {
    const e = from[i], px = Math.round(x(e.at)), spot = px * 8 + e.lane;
    if (px < left || taken.has(spot) || (chain || filter) && !wanted(e)) continue;
    taken.add(spot);
    const tall = e.plain ? unit * .3 : unit * .72;
    c.fillStyle = ink.lanes[e.lane];
    c.globalAlpha = e.plain ? .45 : 1;
    c.fillRect(px, unit * (e.lane + .5) - tall / 2, e.plain ? 1 : 2, tall);
    shown.push([px, e]);
  }
  c.globalAlpha = 1;
}

function nearest(ev) {
  const box = $('axis').getBoundingClientRect(), px = ev.clientX - box.left, l = Math.floor((ev.clientY - box.top) / ((box.height - 14) / lanes.length));
  return shown.filter(([, e]) => e.lane === l).sort((a, b) => Math.abs(a[0] - px) - Math.abs(b[0] - px))[0]?.[1];
}

