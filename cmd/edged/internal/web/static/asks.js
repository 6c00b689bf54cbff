// Questions to people: those in words, and what a tool asks before it acts.

import { $, h, put, attr, sync, age, short } from './dom.js';
import { post } from './talk.js';

const root = $('asks');

// show draws what is open.
export function show(q) {
  const list = [
    ...(q.confirm ?? []).map(c => ({ ...c, kind: 'confirm' })),
    ...(q.answer ?? []).map(c => ({ ...c, kind: 'question' })),
  ];
  sync(root, list, one => one.kind + one.id, make, tick);
  document.body.classList.toggle('asked', list.length > 0);
}

// tick counts down, also between two answers of the robot.
export function tick(el, one) {
  if (one) el.one = one;
  if (!el) { for (const c of root.children) tick(c); return; }
  const { until, asked } = el.one, left = (Date.parse(until) - Date.now()) / 1000;
  if (!until || Date.parse(until) < 0) return put(el.left, 'it waits');
  put(el.left, left > 0 ? age(left) + ' left' + (el.one.default ? `, then ${el.one.default}` : '') : 'time is over');
  const whole = el.one.kind === 'confirm' ? 30 : (Date.parse(until) - Date.parse(asked)) / 1000;
  el.bar.value = Math.max(0, Math.min(1, left / whole));
  attr(el, 'data-late', left < 10);
}

function make(one) {
  const left = h('span', { class: 'left' }), bar = h('progress', { max: 1, value: 1, 'aria-label': 'time left', hidden: !one.until });
  const said = h('p', { class: 'trouble', role: 'alert' });
  const send = async (path, body, button) => {
    put(said, '');
    el.inert = true;
    try {
      await post(path, body);
      el.remove();
      $('words').focus({ preventScroll: true });
    } catch (e) {
      put(said, e.message);
      el.inert = false;
      button?.focus();
    }
  };
  const who = one.kind === 'confirm' ? one.agent : (one.by ?? '').split(':').slice(1).join(':') || one.by;
  const el = h('article', { class: 'ask ' + one.kind, 'aria-label': `${who || 'somebody'} asks` },
    h('header', {}, h('b', {}, who || 'somebody'), one.kind === 'confirm' ? ' wants to use ' : ' asks', one.kind === 'confirm' ? h('code', {}, one.tool) : '', left),
    ...(one.kind === 'confirm' ? confirm(one, send) : question(one, send)), said, bar);
  return Object.assign(el, { left, bar });
}

function confirm(one, send) {
  const button = (text, yes) => h('button', { type: 'button', class: yes ? 'yes' : '', on: { click: e => send('confirm', { id: one.id, yes }, e.target) } }, text);
  const args = Object.entries(one.args ?? {});
  return [
    one.text && h('p', {}, one.text),
    args.length > 0 && h('dl', { class: 'args' }, args.map(([k, v]) => [h('dt', {}, k), h('dd', {}, short(v, 500))])),
    one.origin && h('p', { class: 'dim' }, 'because of words of ' + one.origin),
    h('div', { class: 'options' }, button('Allow', true), button('Refuse', false)),
  ];
}

function question(one, send) {
  const say = (text, button) => send('answer', { id: one.id, answer: text }, button);
  return [h('p', { class: 'prompt' }, one.prompt), one.form ? form(one, say) : one.options?.length ? options(one, say) : field(one, say)];
}

const options = (one, say) => h('div', { class: 'options' },
  one.options.map(o => h('button', { type: 'button', on: { click: e => say(o, e.target) } }, o)));

function field(one, say) {
  const input = h('input', { 'aria-label': 'Answer', autocomplete: 'off', required: true });
  return submit([input], () => input.value, say);
}

function submit(parts, text, say) {
  const button = h('button', {}, 'Answer');
  return h('form', { class: 'options', on: { submit: e => { e.preventDefault(); say(text(), button); } } }, ...parts, button);
}

// form has a field for each property of a schema of an object; any other schema
// is answered in JSON.
function form(one, say) {
  const props = one.form.properties;
  if (one.form.type !== 'object' || !props || !Object.values(props).every(plain)) {
    const area = h('textarea', { 'aria-label': 'Answer in JSON', rows: 3, required: true, spellcheck: false });
    return h('div', {}, h('details', {}, h('summary', {}, 'as JSON of this schema'), h('pre', {}, JSON.stringify(one.form, null, 2))), submit([area], () => area.value, say));
  }
  const fields = Object.entries(props).map(([name, p]) => [name, p, input(p, one.form.required?.includes(name))]);
  const value = () => JSON.stringify(Object.fromEntries(fields.map(([name, p, el]) => [name, read(p, el)]).filter(([, v]) => v !== undefined)));
  return submit(fields.map(([name, p, el]) => h('label', { class: 'field' }, h('span', {}, p.title ?? name), el, p.description && h('small', {}, p.description))), value, say);
}

const plain = p => p.enum || ['string', 'number', 'integer', 'boolean'].includes(p.type);

function input(p, required) {
  if (p.enum) return h('select', { required }, !required && h('option', { value: '' }), p.enum.map(v => h('option', { value: JSON.stringify(v) }, short(v))));
  if (p.type === 'boolean') return h('input', { type: 'checkbox', checked: p.default === true });
  if (p.type === 'string') return h('input', { required, maxLength: p.maxLength ?? 4096, value: p.default ?? '', autocomplete: 'off' });
  return h('input', { type: 'number', required, step: p.type === 'integer' ? 1 : 'any', min: p.minimum ?? '', max: p.maximum ?? '', value: p.default ?? '' });
}

function read(p, el) {
  if (p.type === 'boolean' && !p.enum) return el.checked;
  if (el.value === '' && !el.required) return undefined;
  if (p.enum) return JSON.parse(el.value);
  return p.type === 'string' ? el.value : Number(el.value);
}
