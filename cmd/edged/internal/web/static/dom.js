// The little that the page needs of the document. Everything that comes from a
// robot is put in as text: nothing here or elsewhere parses it as HTML.

export const $ = id => document.getElementById(id);

// h makes an element. Properties of it are set; `class`, `aria-…`, `data-…` and
// the like are attributes; `on` holds its listeners.
export function h(tag, props = {}, ...kids) {
  return fill(document.createElement(tag), props, kids);
}

// s makes an element of SVG.
export function s(tag, props = {}, ...kids) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), props, kids);
}

function fill(el, props, kids) {
  for (const [k, v] of Object.entries(props)) {
    if (k === 'on') for (const [name, f] of Object.entries(v)) el.addEventListener(name, f);
    else if (v === undefined || v === null || v === false) continue;
    else if (k in el && !(el instanceof SVGElement) && k !== 'list' && k !== 'form') el[k] = v;
    else el.setAttribute(k, v === true ? '' : v);
  }
  el.append(...kids.flat(Infinity).filter(k => k !== undefined && k !== null && k !== false));
  return el;
}

// put sets text, and leaves the document alone if it is there already.
export function put(el, text) {
  text = String(text ?? '');
  if (el.textContent !== text) el.textContent = text;
  return el;
}

export function attr(el, name, value) {
  if (value === null || value === undefined || value === false) el.removeAttribute(name);
  else if (el.getAttribute(name) !== String(value)) el.setAttribute(name, value);
}

// sync makes the children of an element be those of a list, by key: what stays
// is filled again, so focus and what is open stay, too.
export function sync(parent, items, key, make, update) {
  const old = new Map();
  for (const el of parent.children) if (el.key !== undefined) old.set(el.key, el);
  let at = parent.firstElementChild;
  const seen = new Set();
  for (const item of items) {
    let k = key(item);
    while (seen.has(k)) k += '~';
    seen.add(k);
    let el = old.get(k);
    if (el) old.delete(k);
    else { el = make(item); el.key = k; }
    update?.(el, item);
    if (el === at) at = at.nextElementSibling;
    else parent.insertBefore(el, at);
  }
  for (const el of old.values()) el.remove();
}

// --- Words -------------------------------------------------------------------

// short is a value in one line.
export function short(v, n = 120) {
  let t = typeof v === 'string' ? v : JSON.stringify(v, (_, x) => typeof x === 'number' && !Number.isInteger(x) ? Number(x.toPrecision(4)) : x);
  if (t === undefined) t = '';
  return t.length > n ? t.slice(0, n - 1) + '…' : t;
}

// pairs is a value without the brackets of its outermost object.
export function pairs(v, n = 60) {
  if (typeof v !== 'object' || !v || Array.isArray(v)) return short(v, 2 * n);
  return Object.entries(v).map(([k, x]) => `${k} ${typeof x === 'number' ? Number(x.toPrecision(4)) : Array.isArray(x) && x.length > 4 ? `[${x.length}]` : short(x, n)}`).join('   ');
}

export const ns = d => ms(d / 1e6); // of a Go duration

export function ms(v) {
  if (!v) return '';
  if (v < 1) return v.toFixed(2) + ' ms';
  if (v < 1000) return (v < 10 ? v.toFixed(1) : v.toFixed(0)) + ' ms';
  return age(v / 1000);
}

// age is a time in the unit that fits, of seconds.
export function age(t) {
  if (!isFinite(t)) return '';
  t = Math.max(0, t);
  if (t < 10) return t.toFixed(1) + ' s';
  if (t < 100) return t.toFixed(0) + ' s';
  if (t < 6000) return (t / 60).toFixed(0) + ' min';
  if (t < 172800) return (t / 3600).toFixed(0) + ' h';
  return (t / 86400).toFixed(0) + ' d';
}

export const clock = t => { const d = new Date(t); return d.toTimeString().slice(0, 8) + '.' + String(d.getMilliseconds()).padStart(3, '0'); };

export const size = n => n >= 1 << 30 ? (n / (1 << 30)).toFixed(1) + ' GiB' : (n / (1 << 20)).toFixed(0) + ' MiB';

export const count = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;

// --- Glyphs: what a state looks like without its colour ----------------------

const glyphs = {
  running: '▶', done: '✓', ok: '✓', failed: '✗', error: '✗', invalid: '✗', blocked: '⊘', refused: '⊘', stopped: '■', cancelled: '■',
  waiting: '…', in_doubt: '?', interrupted: '?', timeout: '⏱', late: '⏱', declined: '–', skipped: '–', busy: '▶', idle: '○', restarting: '↻', backoff: '↻',
};
const kinds = {
  running: 'run', busy: 'run', done: 'ok', ok: 'ok', failed: 'bad', error: 'bad', invalid: 'bad', timeout: 'bad', late: 'warn',
  blocked: 'warn', refused: 'warn', waiting: 'warn', in_doubt: 'warn', interrupted: 'warn', restarting: 'warn', backoff: 'warn',
};
export const glyph = state => glyphs[state] ?? '·';
export const tone = state => kinds[state] ?? 'off';

// mark is a glyph that is read aloud as its word.
export const mark = state => h('span', { class: 'mark ' + tone(state), role: 'img', 'aria-label': state || 'did not run' }, glyph(state));

// match is whether a topic fits a filter of MQTT.
export function match(filter, topic) {
  const f = filter.split('/'), t = topic.split('/');
  for (let i = 0; i < f.length; i++) {
    if (f[i] === '#') return true;
    if (i >= t.length || f[i] !== '+' && f[i] !== t[i]) return false;
  }
  return f.length === t.length;
}
