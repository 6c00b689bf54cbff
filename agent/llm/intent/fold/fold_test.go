package fold

import "testing"

func TestRune(t *testing.T) {
	fold := func(s string) string {
		var out []rune
		for _, r := range s {
			if f := Rune(r); f != 0 {
				out = append(out, f)
			}
		}
		return string(out)
	}
	for in, want := range map[string]string{
		"Hello":             "hello",
		"KÜCHE":             "kuche",
		"Ku\u0308che":       "kuche", // decomposed
		"İSTANBUL ısı":      "istanbul isi",
		"стой":              "стои",
		"сто\u0438\u0306":   "стои",
		"Ёлка":              "елка",
		"قِفْ":              "قف",
		"أوقف":              "اوقف",
		"ｓｔｏｐ":              "stop",
		"st\u200bop":        "stop",
		"d’accord":          "d'accord",
		"रुको":              "रुको",
		"ストップ":              "ストップ",
		"Żółw ČŘ ñ ø þ":     "zolw cr n o þ",
		"−5":                "-5",
		"Ὀδυσσεύς\u0301":    "ὀδυσσεύσ",
		"\u00adsoft\u00ad-": "soft-",
	} {
		if got := fold(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Rune('É') }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Folding twice is folding once.
func FuzzRune(f *testing.F) {
	f.Add('É')
	f.Fuzz(func(t *testing.T, r rune) {
		if once := Rune(r); Rune(once) != once {
			t.Errorf("%q: %q, then %q", r, once, Rune(once))
		}
	})
}
