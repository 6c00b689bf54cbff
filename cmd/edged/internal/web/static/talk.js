// The robot's side of the wire: requests, and the events that it sends.

const base = '/api/v1/';

async function answer(r) {
  const text = await r.text();
  let v = text;
  try { v = JSON.parse(text); } catch { /* plain text */ }
  if (!r.ok) throw Object.assign(new Error(v?.error || text || r.statusText), { status: r.status });
  return v;
}

export async function get(path, query) {
  const url = base + path + (query ? '?' + new URLSearchParams(query) : '');
  return answer(await fetch(url, { signal: AbortSignal.timeout(8000) }));
}

export async function post(path, body, wait = 8000) {
  return answer(await fetch(base + path, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body ?? {}),
    signal: wait ? AbortSignal.timeout(wait) : undefined,
  }));
}

// Stream hears events. It reconnects by itself, and catches up by the id of the
// last one; a tab that nobody sees hears nothing, and catches up later.
export class Stream {
  #source; #last = ''; #wait = 500; #timer;

  // heard is given lists of events; lost what can't be caught up with; state
  // whether there is a connection.
  constructor(heard, lost, state) {
    Object.assign(this, { heard, lost, state });
    document.addEventListener('visibilitychange', () => document.hidden ? this.close() : this.open());
    if (!document.hidden) this.open();
  }

  open() {
    this.close();
    const at = this.#last ? '&after=' + encodeURIComponent(this.#last) : '';
    const source = this.#source = new EventSource(base + 'events?filter=' + encodeURIComponent('*') + at);
    source.onopen = () => { this.#wait = 500; this.state(true); };
    source.onerror = () => {
      this.state(false);
      if (source.readyState !== EventSource.CLOSED || source !== this.#source) return; // the browser tries again
      this.#timer = setTimeout(() => this.open(), this.#wait);
      this.#wait = Math.min(this.#wait * 2, 5000);
    };
    const hear = m => { this.#last = m.lastEventId; this.heard(JSON.parse(m.data)); };
    source.addEventListener('hello', m => { this.#last ||= m.lastEventId; });
    source.addEventListener('events', hear);
    source.addEventListener('gap', m => { this.#last = m.lastEventId; this.lost(JSON.parse(m.data)); });
  }

  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
  }
}
