package lib

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"edged/agent/llm"
	"edged/agent/llm/memory"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/bus/origin"
	"edged/hw"
	"edged/hw/sim"
	"edged/hw/stopword"
	"edged/starlark/script"
	"edged/starlark/value"
)

// A TestFile is a *_test.star file of a folder.
type TestFile struct {
	Path  string
	Funcs []string // test_… in the order they are written
}

// Tests finds the tests of a folder and below, without running anything. A file
// that can't be parsed has no functions; running it tells why.
func Tests(folder fs.FS) ([]TestFile, error) {
	var list []TestFile
	err := fs.WalkDir(folder, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && strings.HasPrefix(path.Base(p), ".") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, "_test.star") {
			return nil
		}
		text, err := fs.ReadFile(folder, p)
		if err != nil {
			return err
		}
		f := TestFile{Path: p}
		o := syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}
		if tree, err := o.Parse(p, text, 0); err == nil {
			for _, s := range tree.Stmts {
				if def, ok := s.(*syntax.DefStmt); ok && strings.HasPrefix(def.Name.Name, "test_") {
					f.Funcs = append(f.Funcs, def.Name.Name)
				}
			}
		}
		list = append(list, f)
		return nil
	})
	return list, err
}

// TestOptions set up the run of one test function, with a robot of its own.
type TestOptions struct {
	Folder fs.FS
	Name   string // of the folder
	File   string // "main_test.star"
	Func   string // "test_goto"; empty only loads

	// Isolated runs the scripts as those that are isolated are: apart from the
	// robot, by messages. The process is the same, so that time is virtual.
	Isolated bool

	Grants  Grants
	Env     func(name string) (string, bool)
	Secret  func(name string) (string, error) // nil knows none
	Data    *os.Root                          // the robot's own data folder; nil is none
	Library fs.FS
	Limits  script.Limits
	Cover   *script.Cover
	Out     io.Writer // what scripts print and log; nil drops it

	Words *stopword.Words // that stop the robot when they are said; nil is English
	// Devices puts simulated devices behind the rig; the default is the
	// apartment of package sim, without noise.
	Devices func(rig *hw.Rig) (*sim.World, []background.Child, error)

	Life time.Duration // of the robot's own time; 0 is [TestLife]
	Late func() bool   // says that people have waited for long enough; nil waits on. It must be quick

	// Settle returns when nothing can go on without time passing:
	// synctest.Wait, inside a bubble.
	Settle func()
	// Golden gives the text of a golden file beside the test and whether there
	// is one; Update, if not nil, writes it instead.
	Golden func(name string) (string, bool)
	Update func(name, text string) error
}

// Test runs one test function: main.star of the folder, if there is one, runs
// as a robot in memory with simulated devices, and the test is loaded into the
// same program. Inside a testing/synctest bubble time is virtual. When Test
// returns, nothing of the robot is left. The error is that of the script.
func Test(ctx context.Context, o TestOptions) error {
	t, err := newTestRobot(o)
	if err != nil {
		return err
	}
	ctx, release := t.limited(ctx)
	defer release()
	err = tooLong(ctx, t.run(ctx))
	return errors.Join(err, t.close())
}

// CheckTest loads a test file as [Test] does, runs none of its functions, and
// gives what [Behaviour.Check] has to say: of the file and of what it loads,
// main.star too.
func CheckTest(ctx context.Context, o TestOptions) ([]Problem, error) {
	o.Func = ""
	t, err := newTestRobot(o)
	if err != nil {
		return nil, err
	}
	var list []Problem
	if err = t.run(ctx); err == nil {
		list = t.b.Check()
	}
	return list, errors.Join(err, t.close())
}

// testRobot is a robot for the time of one test.
type testRobot struct {
	o      TestOptions
	bus    *bus.Bus
	board  *blackboard.Board
	rig    *hw.Rig
	tree   *background.Supervisor
	host   *Host
	log    *eventLog
	models *testModels
	person *testPerson
	b      *Behaviour
	begun  time.Time
}

func newTestRobot(o TestOptions) (t *testRobot, err error) {
	if o.Settle == nil {
		o.Settle = func() {}
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Devices == nil {
		o.Devices = apartment
	}
	t = &testRobot{o: o, bus: bus.New(bus.Options{}), begun: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.board, err = blackboard.Open(t.bus, blackboard.Options{}); err != nil {
		return t, err
	}
	if t.rig, err = hw.NewRig(t.bus, hw.Options{}); err != nil {
		return t, err
	}
	words := o.Words
	if words == nil {
		if words, err = stopword.New(); err != nil {
			return t, err
		}
	}
	if err := t.rig.Hear(words.Stops); err != nil {
		return t, err
	}
	world, children, err := o.Devices(t.rig)
	if err != nil {
		return t, err
	}
	for _, s := range t.rig.Services() {
		children = append(children, background.Child{Name: s.Name, Service: s})
	}
	t.tree = background.NewSupervisor("robot", background.Options{Bus: t.bus}, children...)
	log := slog.New(slog.NewTextHandler(o.Out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	t.host = &Host{
		Name: o.Name, Bus: t.bus, Board: t.board, Rig: t.rig, World: world, Log: log, Print: o.Out,
		Env: o.Env, Secret: o.Secret, Data: o.Data, Library: o.Library, Limits: o.Limits,
		Audit: llm.NewAudit(io.Discard, nil),
	}
	known, err := memory.Open(context.Background(), t.board.Records("memory"), memory.Options{})
	if err != nil {
		return t, err
	}
	t.models, t.person = newTestModels(), newTestPerson()
	t.host.Models, t.host.Memory, t.host.Confirm, t.host.MCP = t.models.get, known, t.person.confirm, t.models.tools
	t.host.Ask = t.person.ask
	t.log, err = newEventLog(t.bus)
	return t, err
}

// apartment is the world tests have if nobody says otherwise.
func apartment(rig *hw.Rig) (*sim.World, []background.Child, error) {
	w := sim.New(sim.Options{Noise: -1, Seed: 1})
	if err := w.AddTo(rig); err != nil {
		return nil, nil, err
	}
	return w, []background.Child{{Name: "world", Service: w}}, nil
}

func (t *testRobot) run(ctx context.Context) error {
	entry := []string{t.o.File}
	if _, err := fs.Stat(t.o.Folder, "main.star"); err == nil {
		entry = []string{"main.star", t.o.File}
	}
	opt := Options{
		Folder: t.o.Name, Grants: t.o.Grants, Entry: entry, Cover: t.o.Cover,
		Extra: t.names(), testing: true, stimulus: t.log.stimulus, settle: t.settle,
	}
	if t.o.Isolated {
		opt.Isolated = &Isolation{here: true}
	}
	b, err := Load(ctx, t.host, t.o.Folder, opt)
	if err != nil {
		return err
	}
	t.b = b
	t.rig.OnStop(b.CancelTurns)
	if t.o.Func == "" {
		return nil
	}
	fn := b.lookup(t.o.File, t.o.Func)
	if fn == nil {
		return fmt.Errorf("%s: no function %s", t.o.File, t.o.Func)
	}
	if err := t.tree.Start(ctx); err != nil {
		return err
	}
	t.o.Settle()
	if err := b.Start(ctx); err != nil {
		return err
	}
	t.o.Settle()
	r := &run{Context: origin.Fixed(ctx, "test"), b: b, source: "test", main: true}
	_, err = b.engine.Call(r, fn, nil, nil, script.Limits{Steps: 10 * script.DefaultSteps})
	return err
}

func (t *testRobot) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	if t.b != nil {
		quick, stop := context.WithTimeout(ctx, time.Millisecond) // what still runs is of no interest
		errs = append(errs, t.b.Stop(quick))
		stop()
	}
	if t.rig != nil {
		errs = append(errs, t.rig.Safe(ctx, "the test ends"))
	}
	if t.tree != nil {
		errs = append(errs, t.tree.Stop(ctx))
	}
	if t.rig != nil {
		t.rig.Close()
	}
	if t.board != nil {
		errs = append(errs, t.board.Close())
	}
	errs = append(errs, t.bus.Close(ctx))
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the end of the test: %w", err)
	}
	return nil
}

// names are what tests have besides the robot's.
func (t *testRobot) names() starlark.StringDict {
	d := starlark.StringDict{}
	modules := map[string][]value.Func{}
	for _, r := range slices.Concat(testRows, actionRows, modelTestRows) {
		f := r.Func
		f.Do = func(c *value.Call) (starlark.Value, error) { return r.do(t, c) }
		if m, _, dotted := strings.Cut(f.Name, "."); dotted {
			modules[m] = append(modules[m], f)
		} else {
			d[f.Name] = f.Builtin()
		}
	}
	d["assert"] = value.NewModule("assert", "What must be, in tests.", modules["assert"]...)
	d["model"] = value.NewModule("model", "Models without agents around them.", modules["model"]...)
	d["person"] = value.NewModule("person", "Who is asked, in tests.", modules["person"]...)
	d["clock"] = value.NewModule("clock", "The virtual clock of tests.", modules["clock"]...)
	return d
}

// testEntries describe what tests have besides.
func testEntries() []value.Entry {
	all := value.Catalogue((&testRobot{}).names())
	return slices.DeleteFunc(all, func(e value.Entry) bool { return e.Name == "model" }) // scripts have it too
}

// eventLog keeps what happened in a test.
type eventLog struct {
	b   *bus.Bus
	tap *bus.Subscription
	*shelf
}

func newEventLog(b *bus.Bus) (*eventLog, error) {
	l := &eventLog{b: b, shelf: newShelf()}
	var err error
	l.tap, err = b.Tap("*", func(e bus.Event) { l.put(e.Stamped()) })
	return l, err
}

// next finds the first event since the last stimulus that matches and was not
// found before, and waits for it at most so long.
func (l *eventLog) next(ctx context.Context, within time.Duration, match func(bus.Event) (bool, error)) (e bus.Event, ok bool, err error) {
	limit := time.NewTimer(within)
	defer limit.Stop()
	at := l.since()
	for {
		list, grew := l.from(at)
		for _, e := range list {
			at = e.n + 1
			hit, err := match(e.Event)
			if err != nil {
				return e.Event, false, err
			}
			if hit && l.take(e.n) {
				return e.Event, true, nil
			}
		}
		select {
		case <-grew:
		case <-limit.C:
			return e, false, nil
		case <-ctx.Done():
			return e, false, context.Cause(ctx)
		}
	}
}

// canonical writes events in a form that does not depend on the scheduler: by
// time, source and topic, with causes as topics.
func canonical(events []bus.Event, filter string, begun time.Time) string {
	topics := make(map[uint64]string)
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	for _, e := range events {
		topics[e.Seq] = e.Topic
		if !bus.Match(filter, e.Topic) {
			continue
		}
		s := fmt.Sprintf("%s %s", e.Source, e.Topic)
		if text := literal(e); text != "" {
			s += " " + text
		}
		if e.Cause != 0 {
			s += " ← " + topics[e.Cause]
		}
		lines = append(lines, line{e.Time().Sub(begun).Round(time.Millisecond), s})
	}
	sort.SliceStable(lines, func(i, j int) bool {
		return cmp.Or(cmp.Compare(lines[i].at, lines[j].at), cmp.Compare(lines[i].text, lines[j].text)) < 0
	})
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "%9.3fs %s\n", l.at.Seconds(), l.text)
	}
	return out.String()
}

// literal is a payload as a script would write it, nearly: text is quoted, so
// that it is not mistaken for a number, bytes are b"…", and None is nothing.
func literal(e bus.Event) string {
	switch p := e.Payload().(type) {
	case nil:
		return ""
	case []byte:
		return "b" + strconv.Quote(string(p))
	}
	b, err := e.JSON()
	if err != nil {
		return err.Error()
	}
	return string(b)
}
