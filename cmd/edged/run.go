package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/bus/trace"
	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/hw"
	"edged/hw/stopword"
)

// runOptions are what the verbs run and demo differ by.
type runOptions struct {
	cfg      *config.Config
	settings map[string]string // given as flags
	sim, dry bool
	record   string // file that gets every event, or empty
	keys     *os.File
	out      io.Writer
	lines    func(r *robot) []string // what is said once it runs
}

// robot is everything that runs, from the lowest floor up.
type robot struct {
	runOptions
	started time.Time
	memory  memory
	machine machine // what is under it
	log     *slog.Logger

	bus      *bus.Bus
	recorder *trace.Recorder
	board    *blackboard.Board
	rig      *hw.Rig
	devices  devices
	link     *mqttLink
	tree     *background.Supervisor
	scripts  *scripts
	control  *socket
	page     *page

	dataTrouble string // why it works in a spare folder, if it does

	words     *stopword.Words // that stop it
	persons   *persons        // who can be asked
	servers   *servers        // of models
	traffic   *traffic        // of models
	audit     *auditLog
	peers     peers      // MCP servers
	modelFile *os.File   // what models are asked and say, or nil
	models    *modelRing // the same of the last minutes, or nil

	aside     []string // what of earlier runs was not taken up, and where it is
	begunAnew bool     // the board is one of it

	gaveUp chan error    // one token
	ready  chan struct{} // closed when the scripts listen
}

// Run is a robot from its start to its end. It returns nil when ctx ended it,
// else what did.
func Run(ctx context.Context, o runOptions) error {
	note := beginStart(o.cfg)
	err := run(ctx, o, note)
	note.end() // a panic leaves the note
	return err
}

// run is the wiring, top to bottom in the order of the floors.
func run(ctx context.Context, o runOptions, note *starting) (err error) {
	r := &robot{runOptions: o, started: time.Now(), gaveUp: make(chan error, 1), ready: make(chan struct{})}
	r.log = logger(o.cfg.Log)
	r.memory = tuneMemory(o.cfg.Memory)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// Floor 1 and 2: the bus, the board on it, and what was kept. The broker's
	// port and the board's file open side by side.
	r.bus = bus.New(bus.Options{Retained: int(o.cfg.Bus.Retained), RetainedBytes: int64(o.cfg.Bus.RetainedBytes)})
	recording, err := r.startRecording()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, recording.close()) }()
	defer r.closeBus()
	port := r.openPort(ctx)
	if err := r.openBoard(note); err != nil {
		port.giveUp()
		return err
	}
	defer func() { err = errors.Join(err, r.closeBoard()) }()
	if err := r.restoreRetained(); err != nil {
		port.giveUp()
		return err
	}
	recording.begin(r.snapshot)

	// Floor 2: devices behind one gate. From here on the end of this function,
	// however it comes, leaves them at rest.
	if err := r.openRig(ctx); err != nil {
		port.giveUp()
		return err
	}
	defer r.closeRig()
	if err := r.openMind(); err != nil {
		port.giveUp()
		return err
	}
	r.ringModels()
	defer func() { err = errors.Join(err, r.closeMind(), r.models.close()) }()
	if r.link, err = r.openLink(port); err != nil {
		return err
	}

	// Floor 3: the tree that everything with a life of its own hangs in.
	r.tree = background.NewSupervisor("robot", background.Options{Bus: r.bus, OnGiveUp: func(e *background.GaveUpError) { r.onGiveUp(e) }}, r.children()...)

	// Floor 4: what the robot is to do.
	if err := r.loadScripts(ctx); err != nil {
		return err
	}

	// Floor 5: who may talk to it.
	if err := r.openSocket(); err != nil {
		return err
	}
	defer r.closeSocket()

	if err := r.tree.Start(ctx); err != nil {
		return err
	}
	defer r.stopTree()
	r.tellStart(ctx)
	if err := r.begin(ctx); err != nil {
		return err
	}
	restore := r.listen(ctx)
	defer restore()
	for _, l := range o.lines(r) {
		fmt.Fprintln(o.out, l)
	}
	defer r.settle()()
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.gaveUp:
		return err
	}
}

// begin lets the scripts listen, and then those outside in.
func (r *robot) begin(ctx context.Context) error {
	if err := r.scripts.start(ctx); err != nil {
		return err
	}
	if err := r.scripts.supervise(ctx); err != nil {
		return err
	}
	close(r.ready)
	for _, c := range r.outside() {
		if err := r.tree.Add(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// settle gives back what only the start needed: soon, so that the peak is low,
// and again when the devices and connections have started too.
func (r *robot) settle() (stop func()) {
	drop := func() {
		if err := dropCode(); err != nil { // memory that is not given back harms nobody
			r.log.Debug("the code of the start stays in memory", "err", err)
		}
	}
	soon, later := time.AfterFunc(200*time.Millisecond, drop), time.AfterFunc(2*time.Second, drop)
	return func() {
		soon.Stop()
		later.Stop()
	}
}

// children is the tree in start order; it stops in reverse. The guard outlives
// the actuators.
func (r *robot) children() []background.Child {
	var list []background.Child
	add := func(name string, s background.Service) { list = append(list, lasting(name, s)) }
	if actions := r.rig.SafeActions(); len(actions) > 0 {
		add("guard", hw.Guard{Argv: guardCommand(), Actions: actions})
	}
	for _, s := range r.devices.services {
		add(s.name, s.service)
	}
	for _, s := range r.rig.Services() {
		add(s.Name, s)
	}
	return list
}

// outside is what the tree has on top once the scripts listen: who is outside
// is let in when there is somebody to hear. The heartbeat says ready last and
// stopping first.
func (r *robot) outside() []background.Child {
	var list []background.Child
	if r.link != nil {
		list = append(list, lasting("mqtt", r.link))
	}
	if r.cfg.Models.Warm {
		list = append(list, background.Child{Name: "warm", Service: background.Func(r.warm), Restart: background.Temporary})
	}
	return append(list, lasting("heartbeat", hw.HeartbeatFrom(os.Getenv, map[string]hw.Probe{
		"bus": hw.BusProbe(r.bus), "actuators": r.rig.Probe, "tree": r.treeProbe,
	})))
}

// lasting is a child that is always there.
func lasting(name string, s background.Service) background.Child {
	return background.Child{Name: name, Service: s, Restart: background.Permanent,
		Backoff: 200 * time.Millisecond, MaxBackoff: 30 * time.Second}
}

// awaitReady waits until the scripts listen. Whoever publishes or asks before
// would speak to nobody; a stop waits for nothing.
func (r *robot) awaitReady(ctx context.Context) error {
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the robot is starting: %w", context.Cause(ctx))
	}
}

// afterReady lets a handler wait for that.
func (r *robot) afterReady(do control.Handler) control.Handler {
	return func(ctx context.Context, with json.RawMessage, send func(any) error) error {
		if err := r.awaitReady(ctx); err != nil {
			return err
		}
		return do(ctx, with, send)
	}
}

func (r *robot) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// treeProbe returns once the supervision tree has answered.
func (r *robot) treeProbe(context.Context) error {
	r.tree.Status()
	return nil
}

// onGiveUp is called when the root of a tree can't go on: the robot is made
// safe first, then the process ends, so that the service manager starts it
// anew; or it goes on without what was in the tree, stopped.
func (r *robot) onGiveUp(e *background.GaveUpError) (goesOn bool) {
	if r.cfg.OnGiveUp == "degrade" {
		return r.degrade(e)
	}
	_ = r.rig.Safe(context.Background(), "supervisor gave up") // the reason that counts is e
	select {
	case r.gaveUp <- fmt.Errorf("the robot gave up: %w", e):
	default:
	}
	return false
}

// degrade leaves the robot stopped and lets the rest of it go on.
func (r *robot) degrade(e *background.GaveUpError) (goesOn bool) {
	err := r.rig.Stop(context.Background(), "supervisor", e.Name+" gave up")
	r.log.Error("the robot goes on without what gave up", "tree", e.Name, "why", e, "err", err)
	return true
}

func logger(level string) *slog.Logger {
	if level == "off" {
		return slog.New(slog.DiscardHandler)
	}
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // the settings allow only its names
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l}))
}

func (r *robot) openBoard(note *starting) error {
	r.relieve(note)
	home, err := r.openData()
	if err != nil {
		return err
	}
	file := filepath.Join(home, "board.db")
	r.board, err = blackboard.Open(r.bus, blackboard.Options{
		Path: file, Log: r.log, Hold: true,
		Window: time.Duration(r.cfg.Board.Window), MaxValue: int(r.cfg.Board.MaxValue),
		MaxSize: int64(r.cfg.Board.MaxSize), MaxRequests: int(r.cfg.Board.MaxRequests),
	})
	if err != nil {
		return inUse("run", file, err)
	}
	if !r.cfg.Trace.Off {
		r.recorder, err = trace.Record(r.bus, trace.Options{
			Dir: traceDir(r.cfg), Size: int64(r.cfg.Trace.Size),
			Keep: time.Duration(r.cfg.Trace.Keep), Payload: int(r.cfg.Trace.Payload),
		})
	}
	return err
}

func (r *robot) closeBoard() error {
	var err error
	if r.recorder != nil {
		err = r.recorder.Close()
	}
	return errors.Join(r.board.Close(), err)
}

// closeBus lets handlers finish for a moment.
func (r *robot) closeBus() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := r.bus.Close(ctx); err != nil {
		r.log.Warn("bus closed with handlers running", "err", err)
	}
}

func (r *robot) openRig(ctx context.Context) (err error) {
	r.rig, err = hw.NewRig(r.bus, hw.Options{
		Hold: time.Duration(r.cfg.Stop.Hold), Dry: r.dry, Log: r.log, Latch: latch{r.board.Records("stop")},
	})
	if err != nil {
		return err
	}
	if r.devices, err = openDevices(r.rig, r.cfg, r.sim); err != nil {
		r.rig.Close()
		return err
	}
	r.stopIfUnknown(ctx)
	return nil
}

// closeRig makes the robot safe; it is deferred, so it does so in a panic too.
func (r *robot) closeRig() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := r.rig.Safe(ctx, "the robot ends"); err != nil {
		r.log.Error("not all actuators are at rest", "err", err)
	}
	r.rig.Close()
}

// stopTree ends what runs, the robot safe first.
func (r *robot) stopTree() {
	r.stageEnd()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.rig.Safe(ctx, "the robot ends"); err != nil {
		r.log.Error("not all actuators are at rest", "err", err)
	}
	r.bus.Deliver() // not before: who hears of it must not hold up the Rest
	r.link.freeze()
	if err := errors.Join(r.scripts.stop(ctx), r.tree.Stop(ctx), r.link.close()); err != nil {
		r.log.Warn("stopped with trouble", "err", err)
	}
}

func (c *cli) runVerb() *cobra.Command {
	var o runOptions
	settings := map[string]string{}
	cmd := verb("run [DIR]", "Run the robot in a folder", 0, 1, func(cmd *cobra.Command, args []string) error {
		dir := "."
		if len(args) == 1 {
			dir = args[0]
		}
		if err := robotFolder(dir); err != nil {
			return err
		}
		cfg, err := config.Load(dir, environ(), settings)
		if err != nil {
			return err
		}
		o.cfg, o.settings, o.out, o.lines = cfg, settings, &lockedWriter{w: c.out}, runLines
		if f, ok := c.in.(*os.File); ok {
			o.keys = f
		}
		return Run(cmd.Context(), o)
	})
	cmd.Long = "Runs the robot in a folder: main.star says what, edged.toml says where.\nEvery setting can be given as a flag (--mqtt.listen) or in the environment (EDGED_MQTT_LISTEN); 'edged config' lists them."
	cmd.Flags().BoolVar(&o.sim, "sim", false, "simulate all devices")
	cmd.Flags().BoolVar(&o.dry, "dry", false, "tell what actuators would do, and move nothing")
	cmd.Flags().StringVar(&o.record, "record", "", "write every event to this file, one JSON line each, and what models are asked and say to FILE.models")
	settingFlags(cmd, settings)
	return cmd
}
