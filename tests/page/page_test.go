// Package page looks at the operator's page as an operator does: in a real
// browser, at a real robot. Debian's chromium is driven by chromedp.
//
// Its one rule: what is clicked is asserted at the robot, by its verbs, and not
// by what the page says of itself. Wherever a test goes, no request leaves the
// machine, and nothing goes wrong in the browser's console.
package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"edged/tests/peer"
)

// chrome is one browser for all tests, with a profile that is empty.
var chrome struct {
	sync.Once
	ctx  context.Context
	dir  string
	stop []context.CancelFunc
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range chrome.stop {
		stop()
	}
	os.RemoveAll(chrome.dir)
	peer.Clean()
	os.Exit(code)
}

func browser(t *testing.T) context.Context {
	t.Helper()
	program := peer.Need(t, "chromium", "chromium")
	chrome.Do(func() {
		chrome.dir, _ = os.MkdirTemp("", "edged-chromium") // chromedp says if there is none
		opts := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(program), chromedp.UserDataDir(chrome.dir), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
			chromedp.Flag("disable-background-networking", true), chromedp.NoFirstRun)
		ctx, stop := chromedp.NewExecAllocator(context.Background(), opts...)
		chrome.stop = append(chrome.stop, stop)
		ctx, stop = chromedp.NewContext(ctx)
		chrome.ctx, chrome.stop = ctx, append([]context.CancelFunc{stop}, chrome.stop...)
		if err := chromedp.Run(ctx); err != nil {
			t.Fatal(err)
		}
	})
	return chrome.ctx
}

// --- The robot ---------------------------------------------------------------

type robot struct {
	t    *testing.T
	bin  string
	dir  string
	env  []string
	port string
	cmd  *exec.Cmd
	out  *peer.Output
}

// start runs the robot of testdata, in a folder of its own.
func start(t *testing.T) *robot {
	t.Helper()
	browser(t)
	r := &robot{t: t, bin: peer.Edged(t), dir: filepath.Join(t.TempDir(), "scout"), port: peer.FreePort(t), out: &peer.Output{}}
	if err := os.CopyFS(r.dir, os.DirFS("testdata/robot")); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "EDGED_RUNTIME_DIR="+t.TempDir(), "EDGED_MQTT_LISTEN=127.0.0.1:"+peer.FreePort(t), "EDGED_PAGE_LISTEN=127.0.0.1:"+r.port)
	t.Cleanup(func() {
		r.end()
		if t.Failed() {
			t.Logf("the robot said:\n%s", r.out)
		}
	})
	r.run()
	return r
}

func (r *robot) run() {
	r.t.Helper()
	r.cmd = exec.Command(r.bin, "run", r.dir, "--sim")
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, r.out, r.out
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	peer.Eventually(r.t, 2*time.Second, "the robot answers", func() bool { _, err := r.verb("status"); return err == nil })
}

func (r *robot) end() {
	if r.cmd.ProcessState == nil {
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
		_ = r.cmd.Wait()
	}
}

func (r *robot) verb(args ...string) (string, error) {
	cmd := exec.Command(r.bin, append([]string{"--socket", filepath.Join(r.dir, ".edged", "edged.sock")}, args...)...)
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (r *robot) must(args ...string) string {
	r.t.Helper()
	out, err := r.verb(args...)
	if err != nil {
		r.t.Fatalf("edged %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// until waits for what a verb says.
func (r *robot) until(want string, args ...string) {
	r.t.Helper()
	var out string
	defer func() {
		if r.t.Failed() {
			r.t.Logf("edged %s says %.2000s", strings.Join(args, " "), out)
		}
	}()
	peer.Eventually(r.t, 2*time.Second, fmt.Sprintf("edged %s says %q", strings.Join(args, " "), want), func() bool {
		out, _ = r.verb(args...)
		return strings.Contains(out, want)
	})
}

// status decodes a part of the status.
func (r *robot) status(into any) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.must("status", "--json")), into); err != nil {
		r.t.Fatal(err)
	}
}

// stopped is who stopped the robot and why, "" if nobody did.
func (r *robot) stopped() string {
	var s struct {
		Stop *struct{ Source, Reason string }
	}
	r.status(&s)
	if s.Stop == nil {
		return ""
	}
	return s.Stop.Source + ": " + s.Stop.Reason
}

func (r *robot) address() string {
	return r.must("page")
}

// --- The page ----------------------------------------------------------------

type tab struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex // guards the rest
	trouble []string
}

const (
	desk  = 1280
	phone = 390
)

// open shows the robot's page in a tab of its own, with the token.
func open(t *testing.T, r *robot, width int64, before ...chromedp.Action) *tab {
	t.Helper()
	return openAt(t, r, r.address(), width, before...)
}

func openAt(t *testing.T, r *robot, address string, width int64, before ...chromedp.Action) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser(t))
	x := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(ev any) { x.hear(ev, "127.0.0.1:"+r.port) })
	height := int64(900)
	if width == phone {
		height = 844
	}
	t.Cleanup(func() {
		x.mu.Lock()
		for _, line := range x.trouble {
			t.Error(line)
		}
		x.mu.Unlock()
		if t.Failed() {
			x.keep()
		}
		stop()
	})
	if err := chromedp.Run(ctx); err != nil { // the tab lives as long as the context of this
		t.Fatal(err)
	}
	x.do(append([]chromedp.Action{network.Enable(), chromedp.EmulateViewport(width, height)}, append(before, chromedp.Navigate(address))...)...)
	return x
}

// ready is a page that hears events.
func (x *tab) ready() *tab {
	x.t.Helper()
	x.until(`document.body.dataset.up == 'true' && document.getElementById('mode').textContent != ''`)
	return x
}

// hear notes what must not be: requests to strangers, errors of scripts.
func (x *tab) hear(ev any, host string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Host != host && u.Scheme != "data" && u.Scheme != "about" {
			x.trouble = append(x.trouble, "a request leaves the robot: "+e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		x.trouble = append(x.trouble, fmt.Sprintf("the page fails: %s %s:%d %v", d.Text, d.URL, d.LineNumber+1, d.Exception))
	}
}

// keep leaves a picture of a test that failed.
func (x *tab) keep() {
	if dir := os.Getenv("PAGE_SHOTS"); dir != "" {
		x.shot(filepath.Join(dir, strings.ReplaceAll(x.t.Name(), "/", "_")+"-failed.png"))
	}
}

func (x *tab) shot(file string) {
	var b []byte
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	if chromedp.Run(ctx, chromedp.CaptureScreenshot(&b)) == nil {
		_ = os.WriteFile(file, b, 0o644) // for whoever looks
	}
}

func (x *tab) do(actions ...chromedp.Action) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, 15*time.Second)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		x.t.Fatal(err)
	}
}

// is evaluates an expression.
func (x *tab) is(js string, into any) {
	x.t.Helper()
	x.do(chromedp.Evaluate(js, into))
}

func (x *tab) text(js string) (s string) {
	x.t.Helper()
	x.is("String("+js+")", &s)
	return s
}

// until waits until an expression is true.
func (x *tab) until(js string) {
	x.t.Helper()
	peer.Eventually(x.t, 3*time.Second, js, func() bool {
		ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
		defer cancel()
		ok := false
		return chromedp.Run(ctx, chromedp.Evaluate("!!("+js+")", &ok)) == nil && ok
	})
}

// shows waits until an element has a text.
func (x *tab) shows(selector, text string) {
	x.t.Helper()
	x.until(fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.textContent.includes(%s))", selector, quoted(text)))
}

// press clicks, with the mouse, the control of an area that has a text.
func (x *tab) press(area, text string) {
	x.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find(e => e.textContent.trim() == %s && e.checkVisibility())", area, quoted(text))
	x.until(find)
	var at []float64
	x.is(fmt.Sprintf("(() => { const e = %s; e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2] })()", find), &at)
	x.do(chromedp.MouseClickXY(at[0], at[1]))
}

// click clicks where an element is, without a script of the page's or of ours.
func (x *tab) click(selector string) {
	x.t.Helper()
	peer.Eventually(x.t, 2*time.Second, selector+" can be clicked", func() bool {
		ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
		defer cancel()
		return chromedp.Run(ctx, chromedp.ActionFunc(func(ctx context.Context) error {
			root, err := dom.GetDocument().Do(ctx)
			if err != nil {
				return err
			}
			id, err := dom.QuerySelector(root.NodeID, selector).Do(ctx)
			if err != nil {
				return err
			}
			if err := dom.ScrollIntoViewIfNeeded().WithNodeID(id).Do(ctx); err != nil {
				return err
			}
			box, err := dom.GetBoxModel().WithNodeID(id).Do(ctx)
			if err != nil {
				return err
			}
			b := box.Border // x and y of four corners
			return chromedp.MouseClickXY((b[0]+b[4])/2, (b[1]+b[5])/2).Do(ctx)
		})) == nil
	})
}

func (x *tab) keys(keys string) {
	x.t.Helper()
	x.do(chromedp.KeyEvent(keys))
}

func (x *tab) focus(selector string) {
	x.t.Helper()
	x.is(fmt.Sprintf("void document.querySelector(%q).focus()", selector), nil)
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // text always has a JSON form
	return string(b)
}

var withoutScripts = emulation.SetScriptExecutionDisabled(true)

func dark(on bool) chromedp.Action {
	scheme := map[bool]string{true: "dark", false: "light"}[on]
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
}
