package lib

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"edged/agent/llm"
	"edged/bus/origin"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

// maxFile is the largest file store reads or writes at once.
const maxFile = value.MaxBytes

var fileParam = value.Param{Name: "path", Type: value.String, Required: true, Positional: true, Doc: "A path inside the data folder, such as \"maps/home.json\"."}

var storeRows = []row{
	{value.Func{
		Name: "store.read", Doc: "Returns a file as text, or as bytes if it is not UTF-8.", Example: "rooms = json.decode(store.read(\"rooms.json\", default = \"{}\"))",
		Params:  []value.Param{fileParam, {Name: "default", Positional: true, Doc: "What to return if there is no such file."}},
		Returns: "text or bytes, or the default", Blocks: true,
	}, (*Behaviour).storeRead},
	{value.Func{
		Name: "store.write", Doc: "Writes a file, as a whole or not at all; folders are made.", Example: "store.write(\"rooms.json\", json.encode(rooms))",
		Params: []value.Param{fileParam, {Name: "data", Type: value.Bytes, Required: true, Positional: true, Doc: "Text or bytes, at most 8 MiB."}},
		Blocks: true,
	}, (*Behaviour).storeWrite},
	{value.Func{
		Name: "store.append", Doc: "Writes at the end of a file, which is made if missing.", Example: "store.append(\"log.csv\", \"%f\\n\" % t)",
		Params: []value.Param{fileParam, {Name: "data", Type: value.Bytes, Required: true, Positional: true, Doc: "Text or bytes."}},
		Blocks: true,
	}, (*Behaviour).storeAppend},
	{value.Func{
		Name: "store.delete", Doc: "Removes a file.", Example: "store.delete(\"log.csv\")", Params: []value.Param{fileParam},
		Returns: "whether there was one", Blocks: true,
	}, (*Behaviour).storeDelete},
	{value.Func{
		Name: "store.list", Doc: "Lists the files in a folder and below, sorted.", Example: "for name in store.list(\"maps\"):\n    log.info(name)",
		Params:  []value.Param{{Name: "folder", Type: value.String, Default: ".", Positional: true, Doc: "A folder inside the data folder."}},
		Returns: "a list of paths", Blocks: true,
	}, (*Behaviour).storeList},
}

// data gives the folder and a checked path in it. os.Root sees to it that no
// link leads out.
func (b *Behaviour) data(c *value.Call, arg string) (*os.Root, string, error) {
	if err := effect(c); err != nil {
		return nil, "", err
	}
	if b.host.Data == nil {
		return nil, "", errors.New("the robot has no data folder here")
	}
	p := c.String(arg)
	if !fs.ValidPath(p) || strings.Contains(p, "\\") {
		return nil, "", c.Errorf(arg, "argument %q: %q is not a plain path inside the data folder", arg, p)
	}
	return b.host.Data, p, nil
}

// plainError is a file error without what the robot's disk looks like.
func plainError(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func (b *Behaviour) storeRead(c *value.Call) (starlark.Value, error) {
	root, p, err := b.data(c, "path")
	if err != nil {
		return nil, err
	}
	f, err := root.Open(p)
	if errors.Is(err, fs.ErrNotExist) && c.Has("default") {
		return c.Value("default"), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, plainError(err))
	}
	defer f.Close()
	b.storeHears(c.Context(), p)
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, plainError(err))
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d MiB", p, maxFile>>20)
	}
	if utf8.Valid(text) {
		return starlark.String(text), nil
	}
	return starlark.Bytes(text), nil
}

func (b *Behaviour) storeWrite(c *value.Call) (starlark.Value, error) {
	root, p, err := b.data(c, "path")
	if err != nil {
		return nil, err
	}
	data := c.Bytes("data")
	if len(data) > maxFile {
		return nil, c.Errorf("data", "argument \"data\": larger than %d MiB", maxFile>>20)
	}
	write := func(ctx context.Context) error {
		part := p + ".part"
		err := b.storeKeeps(ctx, p, false)
		if err == nil {
			err = writeFile(root, part, os.O_TRUNC, data)
		}
		if err == nil {
			err = root.Rename(part, p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, plainError(err))
		}
		return nil
	}
	if b.later(c, write) {
		return nil, nil
	}
	return nil, write(c.Context())
}

func (b *Behaviour) storeAppend(c *value.Call) (starlark.Value, error) {
	root, p, err := b.data(c, "path")
	if err != nil {
		return nil, err
	}
	data := c.Bytes("data")
	write := func(ctx context.Context) error {
		if err := b.storeKeeps(ctx, p, true); err != nil {
			return err
		}
		if err := writeFile(root, p, os.O_APPEND, data); err != nil {
			return fmt.Errorf("%s: %w", p, plainError(err))
		}
		return nil
	}
	if b.later(c, write) {
		return nil, nil
	}
	return nil, write(c.Context())
}

// storeKeeps notes whose words a file will have, before it has them: a file
// without a note is the scripts' own, or the operator's.
func (b *Behaviour) storeKeeps(ctx context.Context, p string, more bool) error {
	notes := b.host.Board.Records("store")
	whose := origin.From(ctx)
	old, noted := notes.Get(p)
	if more && noted {
		whose = origin.Merge(whose, origin.Parse(string(old)))
	}
	switch {
	case whose == "" || whose.Trusted(llm.Trusted):
		if noted {
			return notes.Delete(ctx, p)
		}
		return nil
	case noted && string(old) == string(whose):
		return nil
	}
	return notes.Put(ctx, p, []byte(whose), true)
}

// storeHears gives a file's words to the run that reads it.
func (b *Behaviour) storeHears(ctx context.Context, p string) {
	if whose, ok := b.host.Board.Records("store").Get(p); ok {
		origin.Raise(ctx, origin.Parse(string(whose)))
	}
}

func writeFile(root *os.Root, p string, flag int, data []byte) error {
	if dir := path.Dir(p); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(p, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (b *Behaviour) storeDelete(c *value.Call) (starlark.Value, error) {
	if err := acts(c); err != nil {
		return nil, err
	}
	root, p, err := b.data(c, "path")
	if err != nil {
		return nil, err
	}
	err = root.Remove(p)
	if errors.Is(err, fs.ErrNotExist) {
		return starlark.False, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, plainError(err))
	}
	return starlark.True, nil
}

func (b *Behaviour) storeList(c *value.Call) (starlark.Value, error) {
	root, p, err := b.data(c, "folder")
	if err != nil {
		return nil, err
	}
	var list []string
	err = fs.WalkDir(root.FS(), p, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			b.storeHears(c.Context(), name)
			list = append(list, name)
		}
		if len(list) > 10_000 {
			return fs.SkipAll
		}
		return c.Context().Err()
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", p, plainError(err))
	}
	slices.Sort(list)
	return c.Return(list)
}
