package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The command http of the scripts in testdata: a browser of few words, since
// curl may not be there. It prints the status and the answer.
//
//	http [-dir FOLDER] [-H 'Name: value'] [-form] [-lines N] METHOD URL [BODY]
//
// With -dir it has the token of the robot in that folder. With -lines it ends
// after so many lines of data in a stream of events.

type headerFlags []string

func (h *headerFlags) String() string     { return strings.Join(*h, ", ") }
func (h *headerFlags) Set(v string) error { *h = append(*h, v); return nil }

func httpMain() int {
	var headers headerFlags
	dir := flag.String("dir", "", "")
	form := flag.Bool("form", false, "")
	lines := flag.Int("lines", 0, "")
	flag.Var(&headers, "H", "")
	flag.Parse()
	if *dir != "" {
		b, err := os.ReadFile(filepath.Join(*dir, ".edged", "page.token"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		headers = append(headers, "Authorization: Bearer "+strings.TrimSpace(string(b)))
	}
	if *form {
		headers = append(headers, "Content-Type: application/x-www-form-urlencoded", "Accept: text/html")
	}
	if err := fetch(flag.Arg(0), flag.Arg(1), flag.Arg(2), headers, *lines); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func fetch(method, url, body string, headers []string, lines int) error {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	anybody := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // certificates are not what is tested
	c := http.Client{Transport: anybody, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := c.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	fmt.Println(a.StatusCode, a.Header.Get("Location"))
	if lines == 0 {
		_, err = io.Copy(os.Stdout, a.Body)
		return err
	}
	for in := bufio.NewScanner(a.Body); lines > 0 && in.Scan(); {
		fmt.Println(in.Text())
		if strings.HasPrefix(in.Text(), "data: ") {
			lines--
		}
	}
	if lines > 0 {
		return errors.New("the stream ended")
	}
	return nil
}
