package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"strings"
	"time"
)

// writeJUnit writes the results in the form that build servers read: a suite
// for each folder, a case for each test.
func writeJUnit(file string, results []folderResult) error {
	var b bytes.Buffer
	var tests, failures int
	var seconds float64
	for _, f := range results {
		tests, failures, seconds = tests+len(f.Tests), failures+f.failed(), seconds+f.Seconds
	}
	b.WriteString(xml.Header)
	fmt.Fprintf(&b, "<testsuites tests=\"%d\" failures=\"%d\" time=\"%.3f\">\n", tests, failures, seconds)
	for _, f := range results {
		f.writeSuite(&b)
	}
	b.WriteString("</testsuites>\n")
	return os.WriteFile(file, b.Bytes(), 0o644)
}

func (f folderResult) writeSuite(b *bytes.Buffer) {
	broken := 0
	if f.err != nil {
		broken = 1
	}
	fmt.Fprintf(b, "  <testsuite name=%s tests=\"%d\" failures=\"%d\" errors=\"%d\" time=\"%.3f\" timestamp=\"%s\">\n",
		quoted(f.Folder), len(f.Tests), f.failed(), broken, f.Seconds, f.begun.UTC().Format(time.RFC3339))
	if f.err != nil {
		fmt.Fprintf(b, "    <system-err>%s</system-err>\n", escaped(strings.Join(texts(f.err), "\n")))
	}
	for _, t := range f.Tests {
		class := f.Folder + "/" + strings.TrimSuffix(t.File, ".star")
		fmt.Fprintf(b, "    <testcase classname=%s name=%s time=\"%.3f\">\n", quoted(class), quoted(t.Name), t.Seconds)
		if !t.OK {
			first, _, _ := strings.Cut(t.Error, "\n")
			fmt.Fprintf(b, "      <failure message=%s>%s</failure>\n", quoted(first), escaped(t.Error))
		}
		if t.Output != "" {
			fmt.Fprintf(b, "      <system-out>%s</system-out>\n", escaped(t.Output))
		}
		b.WriteString("    </testcase>\n")
	}
	b.WriteString("  </testsuite>\n")
}

// quoted is text as the value of an attribute, escaped is text between tags.
func quoted(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes all
	return `"` + b.String() + `"`
}

func escaped(s string) string {
	return strings.ReplaceAll(strings.Trim(quoted(s), `"`), "&#xA;", "\n")
}
