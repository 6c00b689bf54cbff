package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"edged/cmd/edged/internal/control"
)

// Requests become those of the control socket, and answers JSON.

// A Query is a request as a route sees it.
type Query struct {
	r    *http.Request
	body []byte
	form url.Values
}

// Path gives a part of the path, {id} say.
func (q *Query) Path(name string) string { return q.r.PathValue(name) }

// Get gives a parameter of the address or of a form.
func (q *Query) Get(name string) string {
	if q.form.Has(name) {
		return q.form.Get(name)
	}
	return q.r.URL.Query().Get(name)
}

// Into decodes the body, which may be empty.
func (q *Query) Into(v any) error {
	if len(q.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(q.body, v); err != nil {
		return control.Usagef("page: the body is not the JSON that is wanted: %v", err)
	}
	return nil
}

// Source is who did it, for whatever is done over HTTP.
const Source = "page"

// Error is an answer with a status of its own.
type Error struct {
	Status int
	Msg    string
}

func (e *Error) Error() string { return e.Msg }

// handler is everything, behind the guard.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, route := range s.o.Routes {
		mux.Handle(pattern, s.route(route))
	}
	mux.HandleFunc("GET /api/v1/events", s.events)
	mux.HandleFunc("GET /{$}", s.index)
	for _, name := range assets() {
		mux.HandleFunc("GET /"+name, s.asset(name))
	}
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.nothing(mux, w, r) })
	return s.guard(mux)
}

// nothing says that there is nothing, or nothing for this method.
func (s *Server) nothing(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var methods []string
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := mux.Handler(other); pattern != "/" {
			methods = append(methods, m)
		}
	}
	if len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		s.refuse(w, r, http.StatusMethodNotAllowed, fmt.Sprintf("page: %s takes %s, not %s", r.URL.Path, strings.Join(methods, " and "), r.Method))
		return
	}
	s.refuse(w, r, http.StatusNotFound, "page: nothing is at "+r.URL.Path+"; doc/page.md lists what is")
}

// read takes the body within bounds of size and time.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (*Query, error) {
	q := &Query{r: r}
	if r.Method != http.MethodPost {
		return q, nil
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &Error{http.StatusRequestEntityTooLarge, fmt.Sprintf("page: the body is longer than %d bytes", maxBody)}
	case err != nil:
		return nil, &Error{http.StatusRequestTimeout, "page: the body did not come: " + err.Error()}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // what is done may take its time
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" && !json.Valid(b) {
		if q.form, err = url.ParseQuery(string(b)); err != nil {
			return nil, control.Usagef("page: the form is not one: %v", err)
		}
		return q, nil
	}
	q.body = b
	return q, nil
}

func (s *Server) route(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := s.read(w, r)
		var with any
		if err == nil && route.With != nil {
			with, err = route.With(q)
		} else if err == nil && len(q.body) > 0 {
			err = q.Into(&with)
		}
		var b []byte
		if err == nil {
			b, err = json.Marshal(with)
		}
		if err != nil {
			s.fail(w, r, route, err)
			return
		}
		ctx := control.From(r.Context(), Source)
		if route.Lines != nil && route.Lines(q) {
			s.lines(ctx, w, r, route, b)
			return
		}
		var last any
		err = safely(func() error {
			return route.Do(ctx, b, func(v any) error { last = v; return nil })
		})
		switch {
		case err != nil:
			s.fail(w, r, route, err)
		case route.Form != nil:
			s.formDone(w, r, route.Form(last))
		default:
			s.answer(w, http.StatusOK, last)
		}
	})
}

// lines sends pieces as they come.
func (s *Server) lines(ctx context.Context, w http.ResponseWriter, r *http.Request, route Route, with json.RawMessage) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	rc := http.NewResponseController(w)
	var mu sync.Mutex // guards w: handlers send from several goroutines
	send := func(v any) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		_ = rc.SetWriteDeadline(time.Now().Add(s.o.slow))
		if _, err := w.Write(append(b, '\n')); err != nil {
			return err
		}
		return rc.Flush()
	}
	if err := safely(func() error { return route.Do(ctx, with, send) }); err != nil {
		_ = send(map[string]string{"error": errorText(err)}) // the client may be gone
	}
}

// answer sends a value; nothing becomes an empty object.
func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	if v == nil {
		v = struct{}{}
	}
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":"page: the answer has no JSON form"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.slow))
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client sees what came
}

// fail sends what went wrong.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, route Route, err error) {
	status := route.Fail
	var asked *control.Error
	var own *Error
	var fault *fault
	switch {
	case errors.As(err, &own):
		status = own.Status
	case errors.As(err, &fault):
		status = http.StatusInternalServerError
	case errors.As(err, &asked) && asked.Usage:
		status = http.StatusBadRequest
	case status == 0 && r.Method == http.MethodPost:
		status = http.StatusConflict
	case status == 0:
		status = http.StatusNotFound
	}
	s.refuse(w, r, status, errorText(err))
}

// refuse says no: as JSON, or as a page where one was asked for.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, msg string) {
	if !pageAsked(r) {
		s.answer(w, status, map[string]string{"error": msg})
		return
	}
	s.note(w, status, msg)
}

// formDone leads back to the page, or says what came of it first.
func (s *Server) formDone(w http.ResponseWriter, r *http.Request, words string) {
	if words == "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	s.note(w, http.StatusOK, words)
}

// note is a page with nothing but words.
func (s *Server) note(w http.ResponseWriter, status int, words string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.slow))
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>%s</title><link rel=stylesheet href=\"/page.css\"><pre>%s</pre><p><a href=\"/\">back</a>\n",
		template.HTMLEscapeString(s.o.Name), template.HTMLEscapeString(words)) // the client sees what came
}

// pageAsked reports whether a person waits for the answer.
func pageAsked(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/api/") && slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool {
		return strings.Contains(v, "text/html")
	})
}

// errorText is the long form of an error, if it has one.
func errorText(err error) string {
	if t, ok := err.(interface{ Text() string }); ok {
		return t.Text()
	}
	return err.Error()
}

// fault is a panic of a handler.
type fault struct{ v any }

func (f *fault) Error() string { return fmt.Sprintf("page: internal fault: %v", f.v) }

func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &fault{v}
		}
	}()
	return f()
}
