package lib

import (
	"context"
	"time"

	"go.starlark.net/starlark"

	"edged/blackboard"
	"edged/bus/origin"
	"edged/starlark/value"
)

var keyParam = value.Param{Name: "key", Type: value.String, Required: true, Positional: true, Doc: "The key, 1 to 512 bytes."}

var durability = value.OneOf("memory", "group", "sync")

var boardModes = map[string]blackboard.Mode{
	"": blackboard.Default, "memory": blackboard.Memory, "group": blackboard.Group, "sync": blackboard.Sync,
}

var setParams = []value.Param{
	{Name: "ttl", Type: value.Duration, Doc: "The key disappears after that time."},
	{Name: "mode", Type: durability, Doc: "How durable: never on disk, on disk within a second, on disk before the call returns. The key's own rule if missing."},
}

var boardRows = []row{
	{value.Func{
		Name: "bb.get", Doc: "Returns the value of a key, or a default where there is none. The value is frozen. A value that the disk has damaged is an error until the key is set or deleted; so it is for all that reads.",
		Example: "battery = bb.get(\"guard/battery\", default = 1.0)",
		Params:  []value.Param{keyParam, {Name: "default", Positional: true, Doc: "What to return if there is no such key."}},
		Returns: "the value",
	}, (*Behaviour).bbGet},
	{value.Func{
		Name: "bb.set", Doc: "Stores a value. It does not wait for those who watch; the change is the event board/<key>.",
		Example: "bb.set(\"guard/door\", \"open\", ttl = \"10m\")",
		Params: append([]value.Param{keyParam,
			{Name: "value", Type: value.Data, Required: true, Positional: true, Doc: "A JSON value or bytes, at most 1 MiB."}}, setParams...),
		Returns: "the key's version, which grows by one for each change",
	}, (*Behaviour).bbSet},
	{value.Func{
		Name: "bb.delete", Doc: "Removes a key.", Example: "bb.delete(\"guard/door\")",
		Params: []value.Param{keyParam}, Returns: "whether there was one",
	}, (*Behaviour).bbDelete},
	{value.Func{
		Name: "bb.has", Doc: "Reports whether a key has a value; None is one.", Example: "if not bb.has(\"guard/home\"):\n    log.warn(\"no home yet\")",
		Params: []value.Param{keyParam}, Returns: "True or False",
	}, (*Behaviour).bbHas},
	{value.Func{
		Name: "bb.keys", Doc: "Returns the keys with a prefix, sorted.", Example: "rooms = bb.keys(\"guard/room/\")",
		Params: []value.Param{prefixParam}, Returns: "a list of keys",
	}, (*Behaviour).bbKeys},
	{value.Func{
		Name: "bb.snapshot", Doc: "Returns all keys with a prefix and their values, as of one moment.", Example: "state = bb.snapshot(\"guard/\")",
		Params: []value.Param{prefixParam}, Returns: "a dict",
	}, (*Behaviour).bbSnapshot},
	{value.Func{
		Name: "bb.update", Doc: "Stores several values as one step: all or none, and watchers see them together.",
		Example: "bb.update({\"guard/x\": 1.0, \"guard/y\": 2.0})",
		Params: append([]value.Param{{Name: "values", Type: value.Dict, Required: true, Positional: true, Doc: "Keys and values."}},
			setParams...),
	}, (*Behaviour).bbUpdate},
	{value.Func{
		Name: "bb.incr", Doc: "Adds to a number and returns the sum; an absent key counts as 0.", Example: "n = bb.incr(\"guard/visits\")",
		Params:  []value.Param{keyParam, {Name: "by", Type: value.Number, Default: 1, Positional: true, Doc: "How much."}},
		Returns: "the sum",
	}, (*Behaviour).bbIncr},
	{value.Func{
		Name: "bb.cas", Doc: "Stores a value if the key is still as expected: it has the value old (None also stands for no key), or the version.",
		Example: "if bb.cas(\"guard/lock\", old = None, new = \"scout\"):\n    log.info(\"mine\")",
		Params: []value.Param{keyParam,
			{Name: "new", Type: value.Data, Required: true, Doc: "The value to store."},
			{Name: "old", Type: value.Data, Doc: "The value that is expected."},
			{Name: "version", Type: value.Between(value.Int, 0, 1e18), Doc: "The version that is expected; 0 is no key."}},
		Returns: "whether it was as expected",
	}, (*Behaviour).bbCAS},
	{value.Func{
		Name: "bb.entry", Doc: "Returns a key with what is known about it: value, version, time, writer. None where there is none.",
		Example: "who = bb.entry(\"guard/door\")[\"writer\"]",
		Params:  []value.Param{keyParam}, Returns: "a dict, or None",
	}, (*Behaviour).bbEntry},
	{value.Func{
		Name: "bb.declare", Doc: "Sets the rule for a key, or for a prefix that ends in *.",
		Example: "bb.declare(\"guard/pose\", mode = \"memory\", history = 10)",
		Params: []value.Param{{Name: "pattern", Type: value.String, Required: true, Positional: true, Doc: "A key, a prefix and a star, or \"*\"."},
			{Name: "mode", Type: durability, Doc: "How durable its values are."},
			{Name: "history", Type: value.Between(value.Int, 0, 10_000), Default: 0, Doc: "How many past values bb.history can give."},
			{Name: "ttl", Type: value.Duration, Doc: "For sets that name none."}},
	}, (*Behaviour).bbDeclare},
	{value.Func{
		Name: "bb.history", Doc: "Returns the last values of a key, newest first, if it was declared with history.",
		Example: "last = [h[\"value\"] for h in bb.history(\"guard/pose\", n = 3)]",
		Params:  []value.Param{keyParam, {Name: "n", Type: value.Between(value.Int, 1, 10_000), Default: 10, Positional: true, Doc: "How many at most."}},
		Returns: "a list of dicts like those of bb.entry",
	}, (*Behaviour).bbHistory},
	{value.Func{
		Name: "bb.transact", Doc: "Changes several keys as one step, depending on what they are. The function gets a view with get, set and delete; it runs again if somebody else was faster, so it must have no other effects.",
		Example: "def take(view):\n    n = view.get(\"guard/stock\", 0)\n    if n > 0:\n        view.set(\"guard/stock\", n - 1)\n    return n\n\nleft = bb.transact(take)",
		Params:  []value.Param{{Name: "fn", Type: value.Callable, Required: true, Positional: true, Doc: "Called with the view."}},
		Returns: "what the function returns",
	}, (*Behaviour).bbTransact},
	{value.Func{
		Name: "bb.close", Doc: "Does nothing: the board is the robot's and outlives its scripts.",
	}, func(*Behaviour, *value.Call) (starlark.Value, error) { return nil, nil }},
}

var prefixParam = value.Param{Name: "prefix", Type: value.String, Default: "", Positional: true, Doc: "What the keys begin with."}

// mayKeys is may for several keys.
func (b *Behaviour) mayKeys(c *value.Call, keys map[string]any) error {
	for k := range keys {
		if err := b.mayChange(c, "bb", k); err != nil {
			return err
		}
	}
	return nil
}

func (b *Behaviour) bbGet(c *value.Call) (starlark.Value, error) {
	key := c.String("key")
	if err := b.may(c, "bb", key); err != nil {
		return nil, err
	}
	reads(c, "board/"+key)
	if v, has, drafted := b.draft.get(key); has {
		return c.Return(v)
	} else if drafted {
		return c.Value("default"), nil
	}
	v, whose, ok := b.host.Board.Read(key)
	if !ok {
		return c.Value("default"), b.host.Board.Damaged(key)
	}
	hears(c, whose, v)
	return c.Return(v)
}

func setOptions(c *value.Call) blackboard.SetOptions {
	return blackboard.SetOptions{TTL: c.Duration("ttl"), Mode: boardModes[c.String("mode")]}
}

func (b *Behaviour) bbSet(c *value.Call) (starlark.Value, error) {
	key := c.String("key")
	if err := b.mayChange(c, "bb", key); err != nil {
		return nil, err
	}
	v, err := c.Tree("value")
	if err != nil {
		return nil, err
	}
	if err := b.fits(map[string]any{key: v}); err != nil {
		return nil, err
	}
	source, o := b.source(c), setOptions(c)
	if b.later(c, func(ctx context.Context) error { _, err := b.host.Board.Set(ctx, source, key, v, o); return err }) {
		b.draft.drafted(key, v, false)
		return nil, nil
	}
	version, err := b.host.Board.Set(c.Context(), source, key, v, o)
	if err != nil {
		return nil, err
	}
	return starlark.MakeUint64(version), nil
}

func (b *Behaviour) bbDelete(c *value.Call) (starlark.Value, error) {
	key := c.String("key")
	if err := b.mayChange(c, "bb", key); err != nil {
		return nil, err
	}
	source := b.source(c)
	if b.later(c, func(ctx context.Context) error { _, err := b.host.Board.Delete(ctx, source, key); return err }) {
		b.draft.drafted(key, nil, true)
		return nil, nil
	}
	ok, err := b.host.Board.Delete(c.Context(), source, key)
	if err == nil {
		err = b.fits(map[string]any{key: nil})
	}
	return starlark.Bool(ok), err
}

func (b *Behaviour) bbHas(c *value.Call) (starlark.Value, error) {
	key := c.String("key")
	if err := b.may(c, "bb", key); err != nil {
		return nil, err
	}
	reads(c, "board/"+key)
	if _, has, drafted := b.draft.get(key); drafted {
		return starlark.Bool(has), nil
	}
	has := b.host.Board.Has(key)
	if !has {
		if err := b.host.Board.Damaged(key); err != nil {
			return nil, err
		}
	}
	return starlark.Bool(has), nil
}

func (b *Behaviour) bbKeys(c *value.Call) (starlark.Value, error) {
	if err := b.may(c, "bb", c.String("prefix")+"*"); err != nil {
		return nil, err
	}
	readsKeys(c, c.String("prefix"))
	if whose := b.host.Board.Origin(c.String("prefix"), false); whose != "" {
		origin.Raise(c.Context(), whose)
	}
	return c.Return(b.draft.keysOver(c.String("prefix"), b.host.Board.Keys(c.String("prefix"))))
}

func (b *Behaviour) bbSnapshot(c *value.Call) (starlark.Value, error) {
	if err := b.may(c, "bb", c.String("prefix")+"*"); err != nil {
		return nil, err
	}
	readsKeys(c, c.String("prefix"))
	if whose := b.host.Board.Origin(c.String("prefix"), true); whose != "" {
		origin.Raise(c.Context(), whose)
	}
	all := b.host.Board.Snapshot(c.String("prefix"))
	for _, key := range b.host.Board.Keys(c.String("prefix")) {
		if _, ok := all[key]; !ok {
			if err := b.host.Board.Damaged(key); err != nil {
				return nil, err
			}
		}
	}
	return c.Return(b.draft.over(c.String("prefix"), all))
}

func (b *Behaviour) bbUpdate(c *value.Call) (starlark.Value, error) {
	values, err := c.Dict("values")
	if err != nil {
		return nil, err
	}
	if err := b.mayKeys(c, values); err != nil {
		return nil, err
	}
	if err := b.fits(values); err != nil {
		return nil, err
	}
	source, o := b.source(c), setOptions(c)
	if b.later(c, func(ctx context.Context) error { return b.host.Board.Update(ctx, source, values, o) }) {
		for k, v := range values {
			b.draft.drafted(k, v, false)
		}
		return nil, nil
	}
	return nil, b.host.Board.Update(c.Context(), source, values, o)
}

func (b *Behaviour) bbIncr(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	key := c.String("key")
	if err := b.mayChange(c, "bb", key); err != nil {
		return nil, err
	}
	by, err := c.Tree("by")
	if err != nil {
		return nil, err
	}
	sum, err := b.host.Board.Incr(c.Context(), b.source(c), key, by)
	if err != nil {
		return nil, err
	}
	return c.Return(sum)
}

func (b *Behaviour) bbCAS(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	key := c.String("key")
	if err := b.mayChange(c, "bb", key); err != nil {
		return nil, err
	}
	if c.Has("old") == c.Has("version") {
		return nil, &value.Error{Msg: "say what is expected: old or version, one of them", Hint: "old = None expects that there is no value"}
	}
	v, err := c.Tree("new")
	if err != nil {
		return nil, err
	}
	var want blackboard.Compare
	if c.Has("version") {
		n := uint64(c.Int64("version"))
		want.Version = &n
	} else if want.Old, err = c.Tree("old"); err != nil {
		return nil, err
	} else if want.Old == nil && !b.host.Board.Has(key) {
		none := uint64(0)
		want.Version = &none
	}
	ok, err := b.host.Board.CAS(c.Context(), b.source(c), key, want, v)
	return starlark.Bool(ok), err
}

// entryTree is an entry as scripts see it.
func entryTree(e blackboard.Entry) map[string]any {
	return map[string]any{"key": e.Key, "value": e.Value, "version": int64(e.Version), "time": e.Time.UTC().Format(time.RFC3339Nano), "writer": e.Writer, "origin": string(e.Origin)}
}

func (b *Behaviour) bbEntry(c *value.Call) (starlark.Value, error) {
	key := c.String("key")
	if err := b.may(c, "bb", key); err != nil {
		return nil, err
	}
	reads(c, "board/"+key)
	e, ok := b.host.Board.Entry(key)
	if !ok {
		return nil, b.host.Board.Damaged(key)
	}
	hears(c, e.Origin, e.Value)
	return c.Return(entryTree(e))
}

func (b *Behaviour) bbDeclare(c *value.Call) (starlark.Value, error) {
	if err := b.mayChange(c, "bb", c.String("pattern")); err != nil {
		return nil, err
	}
	pattern := c.String("pattern")
	rule := blackboard.Rule{Mode: boardModes[c.String("mode")], History: c.Int("history"), TTL: c.Duration("ttl")}
	if b.later(c, func(context.Context) error { return b.host.Board.Declare(pattern, rule) }) {
		return nil, nil
	}
	return nil, b.host.Board.Declare(pattern, rule)
}

func (b *Behaviour) bbHistory(c *value.Call) (starlark.Value, error) {
	key := c.String("key")
	if err := b.may(c, "bb", key); err != nil {
		return nil, err
	}
	if err := b.host.Board.Damaged(key); err != nil {
		return nil, err
	}
	var list []any
	for _, e := range b.host.Board.History(key, c.Int("n")) {
		hears(c, e.Origin, e.Value)
		list = append(list, entryTree(e))
	}
	return c.Return(list)
}

func (b *Behaviour) bbTransact(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	fn := c.Callable("fn")
	if r := runOf(c.Context()); r != nil {
		defer func(was pure) { r.pure = was }(r.pure)
		r.pure = inTransact
	}
	var out starlark.Value
	err := b.host.Board.Transact(c.Context(), b.source(c), func(tx *blackboard.Tx) error {
		v, err := c.Run(fn, viewKind.Wrap(&boardView{tx, b}))
		out = v
		return err
	})
	return out, err
}

// boardView is what the function given to bb.transact sees.
type boardView struct {
	*blackboard.Tx
	b *Behaviour
}

func (v *boardView) may(c *value.Call) error { return v.b.may(c, "bb", c.String("key")) }

var viewKind = &value.Kind[*boardView]{
	Name: "view",
	Doc:  "The board inside bb.transact: as of the first look at each key, with the function's own writes on top.",
	Methods: []value.Method[*boardView]{
		{
			Func: value.Func{Name: "get", Doc: "Returns the value of a key, or a default.", Returns: "the value",
				Params: []value.Param{keyParam, {Name: "default", Positional: true, Doc: "What to return if there is no such key."}}},
			Do: func(v *boardView, c *value.Call) (starlark.Value, error) {
				if err := v.may(c); err != nil {
					return nil, err
				}
				if x, ok := v.Get(c.String("key")); ok {
					hears(c, v.Origin(), x)
					return c.Return(x)
				}
				return c.Value("default"), v.Err()
			},
		},
		{
			Func: value.Func{Name: "set", Doc: "Stores a value when the transaction commits.",
				Params: append([]value.Param{keyParam, {Name: "value", Type: value.Data, Required: true, Positional: true, Doc: "The value."}}, setParams...)},
			Do: func(v *boardView, c *value.Call) (starlark.Value, error) {
				if err := v.may(c); err != nil {
					return nil, err
				}
				x, err := c.Tree("value")
				if err != nil {
					return nil, err
				}
				if err := v.b.fits(map[string]any{c.String("key"): x}); err != nil {
					return nil, err
				}
				return nil, v.Set(c.String("key"), x, setOptions(c))
			},
		},
		{
			Func: value.Func{Name: "delete", Doc: "Removes a key when the transaction commits.", Params: []value.Param{keyParam}},
			Do: func(v *boardView, c *value.Call) (starlark.Value, error) {
				if err := v.may(c); err != nil {
					return nil, err
				}
				v.Delete(c.String("key"))
				return nil, nil
			},
		},
	},
}
