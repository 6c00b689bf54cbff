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

// form has a field for each property of a schema of an object, and a group for
// an object in it; anything else is answered in JSON.
function form(one, say) {
  if (one.form.type === 'object' && one.form.properties) {
    const group = fields(one.form);
    return submit(group.parts, () => JSON.stringify(group.read()), say);
  }
  const area = json(one.form, true);
  return submit([area.el], () => area.el.value, say);
}

// fields makes the fields of an object: the elements, and what reads them.
function fields(schema) {
  const list = Object.entries(schema.properties).map(([name, p]) => ({ name, ...field1(name, p, schema.required?.includes(name)) }));
  return { parts: list.map(f => f.el), read: () => Object.fromEntries(list.map(f => [f.name, f.read()]).filter(([, v]) => v !== undefined)) };
}

function field1(name, p, required) {
  const title = p.title ?? name;
  if (p.type === 'object' && p.properties) {
    const group = fields(p);
    return { el: h('fieldset', {}, h('legend', {}, title), group.parts), read: group.read };
  }
  const { el, read } = p.enum || ['string', 'number', 'integer', 'boolean'].includes(p.type) ? plain(p, required) : json(p, required);
  return { el: h('label', { class: 'field' }, h('span', {}, title), el, p.description && h('small', {}, p.description)), read };
}

function json(schema, required) {
  const el = h('textarea', { rows: 3, required, spellcheck: false, 'aria-label': 'JSON', placeholder: 'JSON of ' + short(schema, 400) });
  el.addEventListener('input', () => { let bad = ''; try { if (el.value) JSON.parse(el.value); } catch (e) { bad = e.message; } el.setCustomValidity(bad); });
  return { el, read: () => el.value ? JSON.parse(el.value) : undefined };
}

function plain(p, required) {
  if (p.enum) {
    const el = h('select', { required }, !required && h('option', { value: '' }), p.enum.map(v => h('option', { value: JSON.stringify(v) }, short(v))));
    return { el, read: () => el.value === '' ? undefined : JSON.parse(el.value) };
  }
  if (p.type === 'boolean') {
    const el = h('input', { type: 'checkbox', checked: p.default === true });
    return { el, read: () => el.checked };
  }
  if (p.type === 'string') {
    const el = h('input', { required, maxLength: p.maxLength ?? 4096, value: p.default ?? '', autocomplete: 'off' });
    return { el, read: () => el.value === '' && !required ? undefined : el.value };
  }
  const el = h('input', { type: 'number', required, step: p.type === 'integer' ? 1 : 'any', min: p.minimum ?? '', max: p.maximum ?? '', value: p.default ?? '' });
  return { el, read: () => el.value === '' ? undefined : Number(el.value) };
}
