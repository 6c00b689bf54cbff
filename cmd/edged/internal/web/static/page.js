// The operator's page: what the robot says of itself, drawn anew as it changes.
// Events come by themselves; how things stand is asked for every two seconds,
// and at once when an event says that it changed. Nobody looks: nothing is asked.

import { $, h, put, attr, age, size, short } from './dom.js';
import { get, post, Stream } from './talk.js';
import * as asks from './asks.js';
import * as now from './now.js';
import * as who from './who.js';
import * as what from './what.js';
import * as timeline from './timeline.js';

const may = document.body.dataset.may !== 'no';
const world = { status: undefined, graph: [], runs: [], agents: [], models: [], skew: 0 };
for (const part of [now, who, what, timeline]) part.start(world);

// --- The bar -----------------------------------------------------------------

function bar() {
  const st = world.status;
  if (!st) return;
  document.title = `${st.mode === 'stopped' ? '■ ' : ''}${st.name}`;
  put($('robot'), st.name);
  put($('mode'), st.mode + (st.mode === 'stopped' ? (st.dry ? ' (dry)' : st.sim ? ' (sim)' : '') : ''));
  attr(document.body, 'data-mode', st.mode);
  const m = st.machine ?? {}, models = Object.entries(st.models ?? {}), down = world.models.filter(n => n.error);
  const busy = models.reduce((n, [, q]) => n + q.running, 0), wait = models.reduce((n, [, q]) => n + q.waiting, 0);
  const b = st.broker ?? {}, lost = (b.dropped ?? 0) + (b.denied ?? 0) + (b.refused ?? 0) + (b.slow ?? 0);
  const facts = [
    ['broker', st.mqtt ? (st.mqtt.connected ? 'connected' : 'not connected') + (lost ? `, ${lost} lost or refused` : '') : short(st.link ?? 'none', 24),
      (lost || st.mqtt && !st.mqtt.connected) && 'warn', 
      st.link + (st.broker ? `\n${b.clients} clients, ${b.waiting} messages wait, ${b.retained} kept\nlost: ${b.dropped} messages; refused: ${b.denied} messages, ${b.refused} connections; cut off: ${b.slow}` : '')],
    ['models', short(world.models.map(n => (n.error ? '✗' : n.info?.warm ? '●' : '○') + ' ' + n.name.replace(/^\w+:(?=.)/, '')).join('  ') || 'none', 44) + (busy ? ` ▶${busy}` : '') + (wait ? ` +${wait}` : ''), down.length && down.length === world.models.length && 'warn',
      [...world.models.map(n => `${n.name}: ${n.error ?? (n.info?.warm ? 'warm' : 'cold')}`), ...models.map(([n, q]) => `${n}: ${q.running} running, ${q.waiting} wait`)].join('\n')],
    ['CPU', m.cpu === undefined ? '–' : Math.round(m.cpu) + ' %', m.cpu > 90 && 'warn', m.load !== undefined && `load ${m.load}`],
    ['temp.', m.temp === undefined ? '–' : Math.round(m.temp) + ' °C', m.temp > 80 && 'warn'],
    ['memory', st.memory?.resident ? size(st.memory.resident) : '–', '', st.memory?.aim],
    ['up', age(st.uptime)],
  ];
  const dl = $('vitals');
  while (dl.children.length < facts.length) dl.append(h('div', {}, h('dt'), h('dd')));
  facts.forEach(([k, v, tone, title], i) => {
    const [dt, dd] = dl.children[i].children;
    put(dt, k); put(dd, v); attr(dd, 'data-tone', tone || null); attr(dl.children[i], 'title', title || null);
  });
  banner('stopped', st.stop && `Stopped by ${st.stop.source}: ${st.stop.reason}`, '', new Date(st.stop?.time ?? 0).toLocaleTimeString());
  banner('reload', st.reload && 'The last edit was refused; the version before goes on.', 'bad', st.reload);
  banner('data', st.data && 'Data folder: ' + st.data, 'bad');
  banner('aside', st.aside && 'Not everything was taken up at the start.', 'bad', st.aside?.join('\n'));
  banner('audit', st.audit?.trouble, 'bad');
  banner('trouble', st.board?.trouble && 'Blackboard: ' + st.board.trouble, 'bad');
  banner('damage', st.board?.damages && `Blackboard: ${st.board.damages.length} damaged`, 'bad', st.board?.damages?.map(d => `${d.what}: ${d.error}`).join('\n'));
  $('resume').hidden = st.mode !== 'stopped';
}

// banner shows a line above everything, with more of it below; no text is none.
const banners = {};
function banner(name, text, tone = '', more = '') {
  const had = banners[name];
  if (!text) { had?.remove(); delete banners[name]; return; }
  if (had && had.said === text + more) return;
  const el = h('div', { class: 'banner ' + (tone || name), 'data-name': name }, h('b', {}, text), more && (tone === 'bad' ? h('pre', { tabIndex: 0, 'aria-label': 'backtrace' }, more) : h('span', {}, ' · ' + more)));
  el.said = text + more;
  had ? had.replaceWith(el) : $('banners').append(el);
  banners[name] = el;
}

new ResizeObserver(([e]) => document.documentElement.style.setProperty('--bar', e.borderBoxSize[0].blockSize + 'px')).observe($('bar'));

// --- Stop --------------------------------------------------------------------

let stopping = false;
async function stop(how) {
  if (stopping) return;
  stopping = true;
  document.body.classList.add('stopping');
  try {
    const r = await post('stop', { reason: how }, 3000);
    banner('stopfail', r.error && 'Stopped, but: ' + r.error, 'bad');
  } catch (e) {
    banner('stopfail', 'STOP did not reach the robot. Use its own switch.', 'bad', e.message);
  }
  stopping = false;
  document.body.classList.remove('stopping');
  refresh();
}

$('stop').addEventListener('submit', e => { e.preventDefault(); stop('button'); });
$('resume').addEventListener('submit', async e => {
  e.preventDefault();
  try { await post('resume'); banner('stopfail'); } catch (x) { banner('stopfail', x.message, 'bad'); }
  refresh();
});

// The space bar stops wherever the focus is, but in a field; also on a button,
// which Enter presses.
const typing = el => el.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName);
for (const name of ['keydown', 'keyup']) {
  document.addEventListener(name, e => {
    if (e.key !== ' ' || e.ctrlKey || e.altKey || e.metaKey || typing(e.target)) return;
    e.preventDefault();
    e.stopPropagation();
    if (name === 'keydown' && !e.repeat) stop('space bar');
  }, true);
}

// --- Say ---------------------------------------------------------------------

$('sayform').addEventListener('submit', async e => {
  e.preventDefault();
  const text = $('words').value.trim(), agent = $('whom').value;
  if (!text) return;
  $('words').value = '';
  const reply = h('p', { class: 'said' }, '…'), li = h('li', {}, h('p', { class: 'mine' }, text), reply);
  $('talk').append(li);
  while ($('talk').children.length > 6) $('talk').firstChild.remove();
  try {
    const out = await post('ask', { text, agent: agent || undefined }, 0);
    put(reply, out.reply || (out.status === 'done' ? 'done' : ''));
    if (out.status !== 'done') reply.append(h('span', { class: 'trouble' }, ` ${out.status}${out.reason ? ': ' + out.reason : ''}`));
    if (out.tools?.length) li.append(h('p', { class: 'dim' }, out.tools.map(t => `${t.error ? '✗' : '✓'} ${t.tool} ${short(t.args ?? {}, 80)}${t.error ? ' ' + t.error : ''}`).join(' · ')));
  } catch (x) {
    put(reply, x.message);
    reply.className = 'trouble';
  }
  refresh();
});

// --- What there is, and what changed -----------------------------------------

let asking = false, again = false, heardBoard = 0, askedModels = 0;

async function refresh() {
  if (document.hidden) return;
  if (asking) { again = true; return; }
  asking = true;
  const want = async (path, use) => { try { use(await get(path)); } catch (e) { if (path === 'status') throw e; } };
  try {
    const began = Date.now();
    await Promise.all([
      want('status', v => { world.status = v; if (v.time) world.skew = Date.parse(v.time) - (began + Date.now()) / 2; }),
      want('graph', v => { world.graph = v; }),
      want('questions', asks.show),
      want('runs', v => { world.runs = v; }),
      want('agents', v => { world.agents = v; }),
      Date.now() - askedModels > 30000 && want('models', v => { askedModels = Date.now(); world.models = v; }),
      Date.now() - heardBoard > 8000 && want('board', v => { heardBoard = Date.now(); what.setBoard(v); }),
    ]);
    await what.look();
    whom();
    draw();
  } catch { /* the stream says that there is no connection */ }
  asking = false;
  if (again) { again = false; soon(); }
}

function whom() {
  const names = world.agents.filter(a => a.models?.length).map(a => a.name), box = $('whom');
  if (names.join() === box.names) return;
  box.names = names.join();
  box.replaceChildren(h('option', { value: '' }, 'whoever listens'), ...names.map(n => h('option', { value: n }, n)));
  box.hidden = names.length < 2;
}

let timer;
const soon = () => { timer ??= setTimeout(() => { timer = undefined; refresh(); }, 150); };

let frame, last = 0;
// draw is called for every change; the page is drawn at most eight times a second.
function draw() {
  frame ??= requestAnimationFrame(t => {
    frame = undefined;
    if (t - last < 120) { setTimeout(draw, 120); return; }
    last = t;
    bar();
    now.show();
    who.show();
    what.show();
    timeline.show();
  });
}

const telling = /^edged\/(workflow|graph|society|agent|confirm|question|safety|script|mqtt|background|run)\//;

new Stream(list => {
  for (const e of list) { who.hear(e); what.hear(e); }
  timeline.hear(list);
  if (list.some(e => telling.test(e.topic))) soon();
  draw();
}, gap => {
  if (gap.why === 'restarted') timeline.forget();
  heardBoard = 0;
  soon();
  banner('gap', gap.lost && `${gap.lost} events came too fast, and are not in the timeline.`, 'warn');
  if (gap.lost) setTimeout(() => banner('gap'), 5000);
}, up => {
  attr(document.body, 'data-up', up);
  banner('down', !up && 'No connection to the robot: what you see is old, and STOP may not reach it.', 'bad');
  if (up) { heardBoard = 0; refresh(); }
});

get('trace', { last: '60s', n: 1500, all: 1 }).then(all => {
  const run = all.at(-1)?.run, list = all.filter(e => e.run === run).sort((a, b) => a.seq - b.seq); // numbers begin anew with each run
  for (const e of list) if (/^edged\/society\//.test(e.topic)) who.hear(e);
  timeline.hear(list);
  draw();
}, () => { /* it keeps no record */ });

banner('readonly', !may && 'You can look, and change nothing', 'info', "'edged page' prints the address that lets you act.");
document.addEventListener('visibilitychange', () => { if (!document.hidden) { heardBoard = 0; refresh(); } });
setInterval(refresh, 2000);
setInterval(() => { if (!document.hidden) { asks.tick(); timeline.beat(); draw(); } }, 1000);
refresh();
