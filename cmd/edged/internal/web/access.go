package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Who may do what. A token in a file that only its owner reads; a browser gets
// it once in an address, and keeps it in a cookie.

// Token reads the token in a file, or makes it. A file that others could read
// is replaced: then fresh is true though there was one.
func Token(file string) (token string, fresh bool, err error) {
	if token, err = OldToken(file); token != "" || err != nil {
		return token, false, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", false, fmt.Errorf("page: token: %w", err)
	}
	token = strings.ToLower(rand.Text())
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // 0600
	if err != nil {
		return "", false, fmt.Errorf("page: token: %w", err)
	}
	_, err = f.WriteString(token + "\n")
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // as far as it got
		return "", false, fmt.Errorf("page: token: %w", err)
	}
	return token, true, nil
}

// OldToken reads the token in a file; it is empty if there is none that is good.
func OldToken(file string) (string, error) {
	st, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("page: token: %w", err)
	case st.Mode().Perm()&0o077 != 0:
		return "", nil // others may know it
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("page: token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < 20 {
		return "", nil
	}
	return token, nil
}

// cookieOf names a robot's cookie: a browser keeps one for all ports of a host.
func cookieOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "edged_" + hex.EncodeToString(sum[:4])
}

// may reports whether a request has the token.
func (s *Server) may(r *http.Request) bool {
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return s.same(strings.TrimSpace(t))
	}
	c, err := r.Cookie(s.cookie)
	return err == nil && s.same(c.Value)
}

func (s *Server) same(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.o.Token)) == 1
}

// enter takes a token that is in the address: from then on it is in a cookie,
// and the address is clean.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	if !s.same(r.URL.Query().Get("token")) {
		s.refuse(w, r, http.StatusForbidden, "page: that is not the token of this robot; 'edged page' prints the address with it")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.cookie, Value: s.o.Token, Path: "/", MaxAge: 30 * 24 * 3600,
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteStrictMode,
	})
	if foreign(r) { // led here by another page: the browser sends the cookie only where this one leads
		w.Header().Set("Refresh", "0; url=/")
		w.Header().Set("Referrer-Policy", "no-referrer") // this address has the token in it
		s.note(w, http.StatusOK, "page: one moment")
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// guard refuses what a browser sends under a strange name or for a strange
// page, and what the sender may not do.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers(w.Header())
		if r.ContentLength != 0 { // also a body that nobody wants is read to its end
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.slow))
		}
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case !s.known(r.Host):
			s.refuse(w, r, http.StatusForbidden, fmt.Sprintf("page: %q is not a name of this robot; the setting page.names lists more", cutHost(r.Host)))
		case foreign(r) && (!reads || r.URL.Path != "/"):
			s.refuse(w, r, http.StatusForbidden, "page: the request comes from another page")
		case !reads && r.Method != http.MethodPost:
			w.Header().Set("Allow", "GET, HEAD, POST")
			s.refuse(w, r, http.StatusMethodNotAllowed, "page: "+r.Method+" is not answered")
		case r.URL.Path == "/healthz":
			next.ServeHTTP(w, r)
		case reads && r.URL.Path == "/" && r.URL.Query().Has("token"):
			s.enter(w, r)
		case (!reads || !s.local) && !s.may(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			s.refuse(w, r, http.StatusForbidden, "page: without the token nothing is changed; 'edged page' prints the address with it, or send it as Authorization: Bearer")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// headers keep what is shown here to itself.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with none at all a form's Origin is null
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// known reports whether a Host header names this robot. Names that somebody
// else's DNS could give to this address are not among them; an address in
// digits can't be given away.
func (s *Server) known(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if name == "" {
		return false
	}
	if Loopback(name) || slices.ContainsFunc(s.names, func(n string) bool { return strings.EqualFold(n, name) }) {
		return true
	}
	return !s.local && net.ParseIP(name) != nil
}

// foreign reports whether a browser says that another page is behind a request.
// What is no browser says nothing, and has the token.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}

func cutHost(host string) string {
	if len(host) > 80 {
		return host[:80] + "…"
	}
	return host
}
