package lib

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"edged/bus/origin"

	"go.starlark.net/starlark"

	"edged/blackboard"
	"edged/starlark/script"
	"edged/starlark/value"
)

var watchRows = []row{{value.Func{
	Name: "bb.watch", Doc: "Calls a handler for every committed change of the keys that match, in order, each once; None stands for no value. Requests posted to a matching key come too, as new.",
	Example: "bb.watch(\"guard/room/*\", lambda key, old, new: log.info(key, old = old, new = new), on = \"change\")",
	Params: []value.Param{
		{Name: "pattern", Type: value.String, Required: true, Positional: true, Doc: "A key, a prefix and a star, or \"*\"."},
		{Name: "handler", Type: value.Callable, Required: true, Positional: true, Doc: "Called with key, old and new."},
		{Name: "on", Type: value.OneOf("set", "change"), Default: "set", Doc: "Every set, or only those that changed the value."},
		{Name: "sync", Type: value.Bool, Default: false, Doc: "Run the handler before set returns, within 50 ms and 200,000 steps; the setter waits."},
		{Name: "max_queue", Type: value.Between(value.Int, 1, 100_000), Default: 64, Doc: "How many changes may wait; then those of one key become one."},
	},
	Returns: "a watch",
}, (*Behaviour).bbWatch}}

var boardFormRows = []row{{value.Func{
	Name: "Blackboard", Doc: "Returns bb: there is one blackboard.", Returns: "bb", Example: "bb = Blackboard()",
	Params: []value.Param{{Name: "async_watchers", Type: value.Bool, Default: true, Doc: "False: watchers that are made with what this returns run before set returns, unless they say sync = False."}},
}, (*Behaviour).boardForm}}

// boardForm gives the board, with watchers as they are asked for.
func (b *Behaviour) boardForm(c *value.Call) (starlark.Value, error) {
	board := b.predeclared["bb"]
	m, ok := board.(*value.Module)
	if c.Bool("async_watchers") || !ok {
		return board, nil
	}
	f := watchRows[0].Func
	f.Params = slices.Clone(f.Params)
	for i := range f.Params {
		if f.Params[i].Name == "sync" {
			f.Params[i].Default = true
		}
	}
	watch := b.bind([]row{{f, watchRows[0].do}})[0]
	members := starlark.StringDict{}
	for _, name := range m.AttrNames() {
		members[name], _ = m.Attr(name) // it is there
	}
	members["watch"] = watch.Builtin()
	return value.NewModule(m.Name(), m.Doc()).With(members), nil
}

// watcher is a declared watch.
type watcher struct {
	b       *Behaviour
	cb      *callback
	at      script.Position
	pattern string
	source  string
	opt     blackboard.WatchOptions
	life    context.Context
	made    origin.Label // whose words it was declared with

	runs, errors atomic.Uint64
	heir         atomic.Pointer[watcher] // of the next version

	mu     sync.Mutex // guards the rest
	watch  *blackboard.Watch
	since  uint64 // number of the last event before it
	closed bool
	handed bool // the queue is the heir's now
}

func (b *Behaviour) bbWatch(c *value.Call) (starlark.Value, error) {
	w := &watcher{b: b, at: where(c), made: declaredBy(c), pattern: c.String("pattern")}
	if err := b.may(c, "bb", w.pattern); err != nil {
		return nil, err
	}
	var err error
	if w.cb, err = newCallback(c, "handler", "key", "old", "new"); err != nil {
		return nil, err
	}
	w.source = b.scriptSource(w.cb.at.File)
	w.opt = blackboard.WatchOptions{Sync: c.Bool("sync"), Queue: c.Int("max_queue"), Name: w.source + ":" + w.cb.name}
	if c.String("on") == "change" {
		w.opt.On = blackboard.OnChange
	}
	if err := b.attach(c, w); err != nil {
		return nil, err
	}
	return watchKind.Wrap(w), nil
}

func (w *watcher) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.watch != nil {
		return nil
	}
	w.life = script.WithRole(w.b.life, "watcher of "+w.pattern)
	w.since = w.b.host.Bus.Seq()
	watch, err := w.b.host.Board.Watch(w.pattern, w.opt, w.hear)
	w.watch = watch
	return err
}

func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	watch := w.watch
	if w.handed { // what its worker has in hand is not to be discarded
		watch = nil
	}
	w.mu.Unlock()
	if watch != nil {
		watch.Close()
	}
	w.b.forget(w)
}

// idle reports whether all is handled that was let in.
func (w *watcher) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watch == nil || w.watch.Idle()
}

// stands implements standing.
func (w *watcher) stands() stance { return stance{"watch", w.pattern, w.cb.name} }

// hold implements standing.
func (w *watcher) hold() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watch == nil {
		return func() {}
	}
	return w.watch.Hold()
}

// handTo implements standing.
func (w *watcher) handTo(to standing) (moved int, lost []string) {
	next, _ := to.(*watcher)
	var heir *blackboard.Watch
	if next != nil {
		w.heir.Store(next)
		next.mu.Lock()
		heir = next.watch
		next.mu.Unlock()
	}
	w.mu.Lock()
	w.handed = true
	watch := w.watch
	w.mu.Unlock()
	if watch == nil {
		return 0, nil
	}
	return watch.Hand(heir)
}

func (w *watcher) hear(ctx context.Context, ch blackboard.Change) error {
	b := w.b
	if w.opt.Sync && !b.live.Load() { // while versions change, both watch
		return nil
	}
	if !b.runs.enter(0) {
		if h := w.heir.Load(); h != nil && !w.opt.Sync { // the worker was late
			return h.hear(ctx, ch)
		}
		return nil
	}
	defer b.runs.leave(0)
	old, err := value.FromGo(ch.Old)
	if err != nil {
		return err
	}
	var now starlark.Value
	if r, ok := ch.New.(*blackboard.Request); ok {
		now = requestKind.Wrap(&request{r, b})
	} else if now, err = value.FromGo(ch.New); err != nil {
		return err
	}
	r := &run{Context: ctx, life: w.life, b: b, source: w.source}
	call := b.do
	if w.opt.Sync {
		call = b.ask
	}
	w.runs.Add(1)
	b.into(ctx, w.made)
	_, err = call(r, w.cb, starlark.String(ch.Key), old, now)
	if err = unlessEnded(err); err != nil {
		w.errors.Add(1)
	}
	return err
}

var watchKind = &value.Kind[*watcher]{
	Name: "watch",
	Doc:  "A watcher of keys.",
	Attrs: []value.Attr[*watcher]{
		{Name: "pattern", Doc: "The keys it watches.", Type: value.String, Get: func(w *watcher) (any, error) { return w.pattern, nil }},
		{Name: "collapsed", Doc: "How many changes an overflow merged into later ones.", Type: value.Int, Get: func(w *watcher) (any, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.watch == nil {
				return int64(0), nil
			}
			return int64(w.watch.Collapsed()), nil
		}},
	},
	Methods: []value.Method[*watcher]{{
		Func: value.Func{Name: "close", Doc: "Ends it: nothing is delivered afterwards. It may be called more than once."},
		Do: func(w *watcher, c *value.Call) (starlark.Value, error) {
			w.close()
			return nil, nil
		},
	}},
}
