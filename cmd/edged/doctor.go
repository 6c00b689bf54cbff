package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"edged/agent/llm"
	"edged/agent/llm/builtin/train"
	"edged/blackboard"
	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/hw"
	"edged/starlark/lib"
)

// The verb doctor: is everything there that this robot needs? It looks, asks
// each model one real question, and changes nothing.

// symptom is one thing that was looked at.
type symptom struct {
	What   string `json:"what"` // "device pose", "model ollama:qwen2.5:1.5b"
	Health health `json:"health"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// health is how it is: "ok", "note" for what may matter, "bad".
type health string

const (
	healthy   health = "ok"
	noted     health = "note"
	unwell    health = "bad"
	asksFor          = 60 * time.Second // a model may have to be read from a slow card
	leastDisk        = 64 << 20         // bytes free on the disk of the data folder
)

// checkup collects findings.
type checkup struct {
	cfg  *config.Config
	now  *status // of the robot, if it runs
	list []symptom
	end  auditEnd // as the board of a robot that doesn't run has it
}

func (d *checkup) add(what string, h health, text, remedy string) {
	d.list = append(d.list, symptom{what, h, text, remedy})
}

// check adds a symptom that is well unless there is an error.
func (d *checkup) check(what string, err error, text, remedy string) {
	if err == nil {
		d.add(what, healthy, text, "")
		return
	}
	var t *llm.Trouble
	if errors.As(err, &t) {
		err, remedy = t.Err, t.Remedy
	}
	d.add(what, unwell, err.Error(), remedy)
}

func (c *cli) doctorVerb() *cobra.Command {
	var dir string
	var offline bool
	cmd := verb("doctor", "Look whether a robot has all it needs", 0, 0, func(cmd *cobra.Command, args []string) error {
		d, err := c.patient(cmd.Context(), dir)
		if err != nil {
			return err
		}
		d.examine(cmd.Context(), !offline)
		bad := 0
		for _, f := range d.list {
			if f.Health == unwell {
				bad++
			}
		}
		err = c.print(d.list, func(w io.Writer) {
			for _, f := range d.list {
				fmt.Fprintf(w, "%-4s  %s: %s\n", f.Health, f.What, f.Text)
				if f.Remedy != "" {
					fmt.Fprintf(w, "      %s\n", f.Remedy)
				}
			}
			if bad == 0 {
				fmt.Fprintln(w, "nothing is wrong")
			}
		})
		if err == nil && bad > 0 {
			return errShown
		}
		return err
	})
	cmd.Long = "Looks at scripts, devices, broker, page, models (one real question to each), permissions, disk, blackboard, clock and audit of a robot,\nrunning or not, and says what to do about what is wrong. It changes nothing."
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the robot; the one here, or else the one running")
	cmd.Flags().BoolVar(&offline, "no-models", false, "ask no model")
	return cmd
}

// patient is the robot that is looked at: its settings, and how it is if it
// runs.
func (c *cli) patient(ctx context.Context, dir string) (*checkup, error) {
	cl, cfg, err := c.meant("doctor", dir)
	if err != nil {
		return nil, err
	}
	d := &checkup{cfg: cfg}
	if cl == nil {
		return d, nil
	}
	defer cl.Close()
	var s status
	if err := cl.Call(ctx, control.Status, nil, &s); err != nil {
		return nil, err
	}
	d.now = &s
	if d.cfg == nil {
		d.cfg, err = config.Load(s.Dir, environ(), nil)
	}
	return d, err
}

func (d *checkup) examine(ctx context.Context, models bool) {
	names := d.scripts(ctx)
	d.devices()
	d.broker(ctx)
	d.page(ctx)
	if models {
		d.models(ctx, names)
	}
	d.permissions()
	d.disk()
	d.board()
	d.clock()
	d.audit()
}

// scripts loads the folder in memory and gives the models that it names.
func (d *checkup) scripts(ctx context.Context) []string {
	m, err := openModel(d.cfg)
	if err != nil {
		d.check("scripts", err, "", "")
		return nil
	}
	defer m.close()
	folder, done, err := openFolder(d.cfg.Dir())
	if err != nil {
		d.check("scripts", err, "", "")
		return nil
	}
	defer done()
	b, err := lib.Load(ctx, m.host, folder, loadOptions(d.cfg))
	if err != nil {
		d.add("scripts", unwell, strings.TrimPrefix(text(err), "edged: "), "")
		return nil
	}
	defer func() { _ = b.Stop(ctx) }() // nothing of it was started
	d.check("scripts", nil, fmt.Sprintf("%.12s loads", b.Hash()), "")
	if d.now != nil && d.now.Reload != "" {
		d.add("reload", unwell, "the running robot refused the last edit", d.now.Reload)
	}
	return modelsOf(b)
}

func (d *checkup) devices() {
	if d.now != nil {
		for _, s := range d.now.Devices {
			switch {
			case s.Error != "":
				d.add("device "+s.Name, unwell, s.Error, "")
			case s.Kind == "sensor" && s.Time.IsZero():
				d.add("device "+s.Name, noted, "it has read nothing yet", "")
			default:
				d.add("device "+s.Name, healthy, orElse(map[bool]string{true: "simulated"}[s.Simulated], "works"), "")
			}
		}
		return
	}
	if len(d.cfg.Devices) == 0 {
		d.add("devices", noted, "none", "[devices.NAME] in edged.toml declares one; --sim simulates an apartment")
		return
	}
	b := bus.New(bus.Options{})
	defer func() { _ = b.Close(context.Background()) }()
	rig, err := hw.NewRig(b, hw.Options{})
	if err != nil {
		d.check("devices", err, "", "")
		return
	}
	defer rig.Close()
	_, err = openDevices(rig, d.cfg, false)
	d.check("devices", err, fmt.Sprintf("%d open", len(d.cfg.Devices)), "--sim runs without them")
}

func (d *checkup) broker(ctx context.Context) {
	m := d.cfg.MQTT
	switch {
	case d.now != nil && d.now.MQTT != nil && !d.now.MQTT.Connected:
		d.add("broker", unwell, d.now.Link+": "+d.now.MQTT.Reason, "events wait in the outbox")
	case d.now != nil:
		d.add("broker", healthy, d.now.Link, "")
	case m.URL != "":
		d.check("broker", knock(ctx, m.URL), m.URL+" answers", "see whether it runs, and the setting mqtt.url")
	case m.Listen == "off":
		d.add("broker", noted, "off", "")
	default:
		l, err := net.Listen("tcp", m.Listen)
		if err == nil {
			l.Close()
		}
		d.check("broker", err, m.Listen+" is free", "another program has the port; set mqtt.listen")
	}
}

// page looks whether the operator can see the robot.
func (d *checkup) page(ctx context.Context) {
	listen := d.cfg.Page.Listen
	switch {
	case d.now != nil && d.now.Page.Trouble != "":
		d.add("page", unwell, d.now.Page.Trouble, "")
	case d.now != nil && d.now.Page.URL != "":
		d.add("page", healthy, d.now.Page.URL, "")
	case d.now != nil || listen == "off":
		d.add("page", noted, "off", "")
	default:
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
		if err == nil {
			l.Close()
			_, err = d.pageCert()
		}
		d.check("page", err, listen+" is free", "set page.listen to a free port, page.cert and page.key to files that fit")
	}
}

// pageCert reads the page's certificate, if it has one.
func (d *checkup) pageCert() (tls.Certificate, error) {
	p := d.cfg.Page
	if p.Cert == "" {
		return tls.Certificate{}, nil
	}
	return tls.LoadX509KeyPair(d.cfg.Path(p.Cert), d.cfg.Path(p.Key))
}

// knock opens and closes a connection.
func knock(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	host := u.Host
	if u.Port() == "" {
		port := map[string]string{"tcp": "1883", "mqtt": "1883", "ssl": "8883", "mqtts": "8883", "ws": "80", "wss": "443"}[u.Scheme]
		host = net.JoinHostPort(u.Hostname(), orElse(port, "1883"))
	}
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return c.Close()
}

// models asks each model something, as an agent would.
func (d *checkup) models(ctx context.Context, names []string) {
	s := newServers(d.cfg, nil)
	defer s.close()
	if len(names) == 0 {
		d.add("models", noted, "no agent thinks with one", "")
	}
	for _, name := range names {
		if name == kindIntent || strings.HasPrefix(name, kindReplay+":") {
			continue // they were read with the scripts
		}
		took, info, err := roundTrip(ctx, s, name)
		words := fmt.Sprintf("answers in %.0f ms", ms(took))
		if err == nil && !info.Tools {
			words += "; it has no tools, and is held to forms"
		}
		d.check("model "+name, err, words, "")
	}
}

// roundTrip is one real question and its answer. That a model declines it, or
// would say more, is an answer.
func roundTrip(ctx context.Context, s *servers, name string) (time.Duration, llm.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, asksFor)
	defer cancel()
	m, err := s.model(name, "")
	if err != nil {
		return 0, llm.Info{}, err
	}
	info, err := llm.Describe(ctx, m)
	if err != nil {
		return 0, info, s.meant(ctx, name, err)
	}
	q := llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "Say OK."}}, Sampling: llm.Sampling{MaxTokens: 8}}
	if strings.HasPrefix(name, kindBuiltin) { // it does nothing but call tools
		q = llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "turn left"}}, Tools: train.Offer(train.Demo())}
	}
	began := time.Now()
	_, err = m.Chat(ctx, q, nil)
	if errors.Is(err, llm.ErrNoMatch) || errors.Is(err, llm.ErrCutOff) || errors.Is(err, llm.ErrEmpty) {
		err = nil
	}
	return time.Since(began), info, err
}

// permissions are those of what only the owner may see.
func (d *checkup) permissions() {
	data := homeData(d.cfg)
	st, err := os.Stat(data)
	switch {
	case d.now != nil && d.now.Data != "":
		d.add("data folder", unwell, d.now.Data, "")
	case syscall.Access(existing(data), 2) != nil:
		d.add("data folder", unwell, data+" can't be written by this user", "make it writable: a robot comes up without, and forgets at power off what it learnt since")
	case errors.Is(err, fs.ErrNotExist):
		d.add("data folder", noted, data+" is made at the first run", "")
	case err != nil:
		d.check("data folder", err, "", "name another with the setting data")
	case st.Mode().Perm()&0o077 != 0:
		d.add("data folder", unwell, data+" can be read by others", "chmod 700 "+data)
	default:
		d.add("data folder", healthy, data, "")
	}
	for _, name := range []string{"board.db", auditFile} {
		path := filepath.Join(data, name)
		if st, err := os.Stat(path); err == nil && st.Mode().Perm()&0o077 != 0 {
			d.add("file", unwell, path+" can be read by others", "chmod 600 "+path)
		}
	}
	for _, name := range config.Names(d.cfg.Secrets) {
		_, err := secrets(d.cfg)(name)
		d.check("secret", err, name, "")
	}
	for _, host := range config.Names(d.cfg.Models.Keys) {
		_, err := readSecret(d.cfg.SecretPath(d.cfg.Models.Keys[host]))
		d.check("key of "+host, err, "readable by its owner only", "")
	}
}

// existing is the folder, or the one above it that there is.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func (d *checkup) disk() {
	dir := existing(homeData(d.cfg))
	free, err := freeSpace(dir)
	switch {
	case err != nil:
		d.check("disk", err, "", "")
	case free < leastDisk:
		d.add("disk", unwell, mebibytes(free)+" free at "+dir, "make room: a full disk makes the blackboard read-only")
	default:
		d.add("disk", healthy, mebibytes(free)+" free", "")
	}
}

// board looks whether all that was stored is what had been written.
func (d *checkup) board() {
	file := boardFile(d.cfg)
	var damages []blackboard.Damage
	switch {
	case d.now == nil:
		in, err := blackboard.Inspect(file)
		if err != nil {
			d.check("blackboard", err, "", "")
			return
		}
		damages = in.Damages
		if b, ok := in.Record("audit", "end"); ok {
			_ = json.Unmarshal(b, &d.end) // one that can't be read is no end
		}
	case d.now.Board.Trouble != "":
		d.add("blackboard", unwell, strings.TrimPrefix(d.now.Board.Trouble, "blackboard: "), "")
		damages = d.now.Board.Damages
	default:
		damages = d.now.Board.Damages
	}
	for _, m := range damages {
		remedy := "what it held is gone; see what needs it"
		switch {
		case m.Key != "":
			remedy = "edged bb set " + m.Key + " VALUE, or edged bb delete " + m.Key
		case m.What == "the file":
			remedy = "see whether what the robot remembers is right, and have an eye on the disk: it may be dying"
		}
		d.add("blackboard", unwell, m.String(), remedy)
	}
	aside, _ := filepath.Glob(file + ".corrupt-*") // the pattern is good
	for _, name := range aside {
		if !slices.ContainsFunc(damages, func(m blackboard.Damage) bool { return absolute(m.Copy) == name }) {
			d.add("blackboard", noted, "a damaged file was put aside: "+name, "remove it when it is no longer needed")
		}
	}
	if _, err := os.Stat(file); err == nil && len(damages) == 0 && (d.now == nil || d.now.Board.Trouble == "") {
		d.add("blackboard", healthy, "all that it holds is what was written", "")
	}
}

// clock looks whether the time can be right. Boards without a battery start in
// the past.
func (d *checkup) clock() {
	now := time.Now()
	switch synced, known := clockSynced(); {
	case now.Year() < 2025:
		d.add("clock", unwell, "it says "+now.Format(time.DateOnly), "set the time: cron, history and certificates go by it")
	case known && !synced:
		d.add("clock", noted, "nobody keeps it right", "systemd-timesyncd, chrony or ntpd does")
	default:
		d.add("clock", healthy, now.Format(time.RFC3339), "")
	}
}

// audit verifies the chain of what models asked for. The running robot writes
// it, so its last line may be half of one.
func (d *checkup) audit() {
	path := filepath.Join(dataDir(d.cfg), auditFile)
	end := d.end
	if d.now != nil {
		if end = d.now.Audit.End; d.now.Audit.Trouble != "" {
			d.add("audit", unwell, strings.TrimPrefix(d.now.Audit.Trouble, "audit: "), "")
		}
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && end.Seq == 0 {
		return
	}
	found := &chain{}
	if err == nil {
		defer f.Close()
		found, err = readChain(f, end)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = found.reaches(end)
	}
	d.check("audit", err, fmt.Sprintf("%s, none changed, none missing", count(int(found.Seq), "line")), "somebody changed "+path+"; it is put aside at the next start")
}
