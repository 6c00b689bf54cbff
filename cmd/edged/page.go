package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/web"
	"edged/hw"
)

// The operator's page: one more client of the handlers of the socket, over
// HTTP. A robot whose page can't be opened runs without it, and says why.

// page is the page while the robot runs.
type page struct {
	server  *web.Server
	token   string
	trouble string // why there is none
	deeds   *deeds
	saving  sync.Mutex              // one test at a time
	reading chan struct{}           // one token: who reads the whole record
	asking  chan struct{}           // one token: who asks for health
	probing [len(probed)]sync.Mutex // each is held while a probe is under way
	cancel  context.CancelFunc
	done    chan struct{}
}

// pageState is how the page is.
type pageState struct {
	URL     string `json:"url,omitempty"` // without the token
	Clients int    `json:"clients,omitempty"`
	Trouble string `json:"trouble,omitempty"` // why there is none
}

func (s pageState) String() string {
	switch {
	case s.Trouble != "":
		return "none: " + s.Trouble
	case s.URL == "":
		return "off"
	case s.Clients > 0:
		return fmt.Sprintf("%s, %s; 'edged page' prints the address that may act", s.URL, count(s.Clients, "viewer"))
	}
	return s.URL + "; 'edged page' prints the address that may act"
}

// person reports whether words and values come from somebody at a terminal or
// at the page.
func person(source string) bool { return source == "cli" || source == web.Source }

func tokenFile(c *config.Config) string { return filepath.Join(dataDir(c), "page.token") }

func newPage() *page { return &page{reading: make(chan struct{}, 1), asking: make(chan struct{}, 1)} }

// openPage opens the page's port and answers there.
func (r *robot) openPage() {
	p := newPage()
	r.page = p
	c := r.cfg.Page
	if c.Listen == "off" {
		return
	}
	err := p.listen(r)
	if err != nil {
		if p.server != nil {
			_ = p.server.Close() // nobody is there yet
			p.server = nil
		}
		p.trouble = pageTrouble(c.Listen, err)
		r.log.Warn("there is no page: " + p.trouble)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		if err := p.server.Serve(ctx); err != nil {
			r.log.Error("page", "err", err)
		}
	}()
}

func (p *page) listen(r *robot) (err error) {
	c := r.cfg.Page
	if p.token, _, err = web.Token(tokenFile(r.cfg)); err != nil {
		return err
	}
	run := r.started.UTC().Format("20060102T150405.000")
	if r.recorder != nil {
		run = r.recorder.Run()
	}
	p.server, err = web.Listen(web.Options{
		Listen: c.Listen, Names: c.Names, Cert: r.cfg.Path(c.Cert), Key: r.cfg.Path(c.Key), Token: p.token,
		Name: r.cfg.Name, Run: run, Bus: r.bus, Log: r.log, Routes: r.pageRoutes(),
		Plain: r.plainPage, Health: r.health, Metrics: r.metrics,
	})
	if err == nil {
		p.deeds, err = watchDeeds(r.bus)
	}
	return err
}

// pageTrouble says what to do about a page that can't be opened.
func pageTrouble(listen string, err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("%s is in use by another program or robot; set page.listen to another port, or to off", listen)
	case errors.Is(err, syscall.EACCES), errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("not allowed: %v; set page.listen to a port above 1023", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Sprintf("this machine has no address %s; set page.listen to one that it has", listen)
	}
	return strings.TrimPrefix(err.Error(), "page: ")
}

func (r *robot) closePage() {
	r.page.deeds.close()
	if r.page.cancel != nil {
		r.page.cancel()
		<-r.page.done
	}
}

func (p *page) state() pageState {
	s := pageState{Trouble: p.trouble}
	if p.server != nil {
		s.URL, s.Clients = p.server.URL(), p.server.Clients()
	}
	return s
}

// address is the page's with the token, empty where there is no page.
func (p *page) address() string {
	if p.server == nil {
		return ""
	}
	return withToken(p.server.URL(), p.token)
}

func withToken(page, token string) string { return page + "/?token=" + url.QueryEscape(token) }

// health asks whether what must advance does.
func (r *robot) health(ctx context.Context) error {
	if !r.isReady() {
		return errors.New("the robot is starting")
	}
	return r.page.health(ctx, [...]hw.Probe{hw.BusProbe(r.bus), r.rig.Probe, r.treeProbe})
}

// probed are the names of what health asks.
var probed = [...]string{"bus", "actuators", "tree"}

// health asks one after the other. A probe that hangs is not asked a second time.
func (p *page) health(ctx context.Context, probes [len(probed)]hw.Probe) error {
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return errors.New("it does not answer")
	}
	for i, probe := range probes {
		if !p.probing[i].TryLock() {
			return fmt.Errorf("%s: it does not answer", probed[i])
		}
		said := make(chan error, 1)
		go func() {
			defer p.probing[i].Unlock()
			defer func() {
				if v := recover(); v != nil {
					said <- fmt.Errorf("internal fault: %v", v)
				}
			}()
			said <- probe(ctx)
		}()
		var err error
		select {
		case err = <-said:
		case <-ctx.Done():
			err = errors.New("it does not answer")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", probed[i], err)
		}
	}
	return nil
}

// pageAddress is what the verb page prints.
type pageAddress struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	Open  string `json:"open"` // the address with the token
}

// handlePage answers page in the robot: whoever has the socket is its owner.
func (r *robot) handlePage(_ context.Context, _ json.RawMessage, send func(any) error) error {
	switch s := r.page.state(); {
	case s.Trouble != "":
		return errors.New("page: there is none: " + s.Trouble)
	case s.URL == "":
		return errors.New("page: it is off; the setting page.listen says where it is")
	default:
		return send(pageAddress{s.URL, r.page.token, r.page.address()})
	}
}

func (c *cli) pageVerb() *cobra.Command {
	var dir string
	cmd := verb("page", "Print the address of the page that may act", 0, 0, func(cmd *cobra.Command, args []string) error {
		cl, cfg, err := c.meant("page", dir)
		if err != nil {
			return err
		}
		var a pageAddress
		if cl != nil {
			defer cl.Close()
			err = cl.Call(cmd.Context(), "page", nil, &a)
		} else {
			a, err = sleepingPage(cfg)
		}
		if err != nil {
			return err
		}
		if cl == nil {
			fmt.Fprintln(c.err, "the robot is not running; its page will be here:")
		}
		return c.print(a, func(w io.Writer) { fmt.Fprintln(w, a.Open) })
	})
	cmd.Long = "Prints the address of the operator's page with the token of this robot. Whoever opens it may stop, resume, answer and publish there;\nwithout the token the page can only be read. The token is in page.token in the data folder; a robot without that file makes a new one when it starts."
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the robot; the one here, or else the one running")
	return cmd
}

// sleepingPage is the address that a robot will have when it runs.
func sleepingPage(cfg *config.Config) (a pageAddress, err error) {
	if cfg.Page.Listen == "off" {
		return a, errors.New("page: it is off; the setting page.listen says where it is")
	}
	host, port, err := net.SplitHostPort(cfg.Page.Listen)
	if err != nil {
		return a, err
	}
	if a.Token, err = web.OldToken(tokenFile(cfg)); err != nil {
		return a, err
	}
	if a.Token == "" {
		return a, fmt.Errorf("page: %s has no token yet; it makes one when it runs", cfg.Name)
	}
	scheme := "http"
	if cfg.Page.Cert != "" {
		scheme = "https"
	}
	a.URL = scheme + "://" + net.JoinHostPort(host, port)
	a.Open = withToken(a.URL, a.Token)
	return a, nil
}
