package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// The page fits into 80 kB as it is sent, and asks nobody else for anything.
func TestPageIsSmallAndAlone(t *testing.T) {
	s := open(t, nil)
	elsewhere := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]`)
	inline := regexp.MustCompile(`(?i)\son[a-z]+=|\sstyle=|javascript:|<style`)
	sum := 0
	for _, name := range append(assets(), "") {
		a, body := s.do("GET", "/"+name, "", "Accept-Encoding: gzip")
		if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") == "" {
			t.Errorf("/%s: %d, %q", name, a.StatusCode, a.Header.Get("Content-Type"))
		}
		text := []byte(body)
		if a.Header.Get("Content-Encoding") == "gzip" {
			sum += len(body)
			z, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		} else {
			sum += len(packed(text))
		}
		for _, url := range elsewhere.FindAll(text, -1) {
			if !bytes.HasPrefix(url, []byte("http://www.w")) { // names of formats
				t.Errorf("/%s names another host: %s", name, url)
			}
		}
		if found := inline.Find(text); found != nil && (name == "" || strings.HasSuffix(name, ".html")) {
			t.Errorf("/%s has inline code, which the page's policy forbids: %s", name, found)
		}
	}
	if sum > 80_000 {
		t.Errorf("the page is %d bytes, want less than 80,000", sum)
	}
	t.Logf("%d bytes", sum)
}

// What a browser has it need not load again.
func TestAssetIsKept(t *testing.T) {
	s := open(t, nil)
	a, _ := s.do("GET", "/page.css", "")
	tag := a.Header.Get("ETag")
	if a, body := s.do("GET", "/page.css", "", "If-None-Match: "+tag); tag == "" || a.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("tag %q: %d, %d bytes", tag, a.StatusCode, len(body))
	}
}
