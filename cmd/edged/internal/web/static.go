package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"text/template"
	"time"
)

//go:embed static
var files embed.FS

// Marks in static/index.html that the server fills in.
const (
	markName  = "{{name}}"  // the robot's name, in text
	markMay   = "{{may}}"   // yes or no: whether the reader may change things
	markPlain = "{{plain}}" // what is shown without JavaScript, HTML
)

// kinds are types of files; those of the machine may be anything.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon",
	".webmanifest": "application/manifest+json",
}

// assets lists the files beside index.html.
func assets() (names []string) {
	list, _ := fs.ReadDir(files, "static") // it is in the binary
	for _, f := range list {
		if f.Name() != "index.html" {
			names = append(names, f.Name())
		}
	}
	return names
}

// index is the page.
func (s *Server) index(w http.ResponseWriter, r *http.Request) {
	b, err := files.ReadFile("static/index.html")
	if err != nil {
		s.refuse(w, r, http.StatusNotFound, err.Error())
		return
	}
	may, yes, plain := s.may(r), "no", ""
	if may {
		yes = "yes"
	}
	if s.o.Plain != nil {
		plain = s.plain(may)
	}
	page := strings.NewReplacer(markName, template.HTMLEscapeString(s.o.Name), markMay, yes, markPlain, plain).Replace(string(b))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.slow))
	_, _ = w.Write([]byte(page)) // the client sees what came
}

// busy stands for what the robot takes too long to tell.
const busy = "<p>The robot is busy. <a href=\"/\">Look again</a></p>"

// plain doesn't wait long for what it shows: STOP is on the page without it. One
// request at a time asks.
func (s *Server) plain(may bool) string {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case s.plains <- struct{}{}:
	case <-late.C:
		return busy
	}
	said := make(chan string, 1)
	go func() {
		defer func() { <-s.plains }()
		words := busy
		if err := safely(func() error { words = s.o.Plain(may); return nil }); err != nil {
			s.o.Log.Error(err.Error())
		}
		said <- words
	}()
	select {
	case p := <-said:
		return p
	case <-late.C:
		return busy
	}
}

// asset sends a file that a browser may keep as long as it stays the same.
func (s *Server) asset(name string) http.HandlerFunc {
	b, _ := files.ReadFile(path.Join("static", name)) // it was just listed
	sum := sha256.Sum256(b)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	kind := kinds[path.Ext(name)]
	small := sync.OnceValue(func() []byte { return packed(b) })
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		if strings.Contains(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Vary", "Accept-Encoding")
		text := b
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			text = small()
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.slow))
		_, _ = w.Write(text) // the client sees what came
	}
}

func packed(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b) // to memory
	_ = z.Close()
	return out.Bytes()
}

// healthz says whether the robot is well.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if s.o.Health != nil {
		if err := s.o.Health(ctx); err != nil {
			s.answer(w, http.StatusServiceUnavailable, map[string]any{"ok": false, "error": err.Error()})
			return
		}
	}
	s.answer(w, http.StatusOK, map[string]bool{"ok": true})
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if s.o.Metrics == nil {
		s.refuse(w, r, http.StatusNotFound, "page: nothing is counted")
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.slow))
	_, _ = w.Write(s.o.Metrics()) // the client sees what came
}
