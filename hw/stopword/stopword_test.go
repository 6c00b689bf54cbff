package stopword

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func words(t testing.TB, languages ...string) *Words {
	t.Helper()
	w, err := New(languages...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func check(t *testing.T, w *Words, yes, no string) {
	t.Helper()
	for _, s := range strings.Split(yes, "|") {
		if !w.Stops(s) {
			t.Errorf("%q does not stop", s)
		}
	}
	for _, s := range strings.Split(no, "|") {
		if w.Stops(s) {
			t.Errorf("%q stops", s)
		}
	}
}

func TestEnglish(t *testing.T) {
	check(t, words(t),
		"stop|STOP!|Stop.|please stop|stop it now|halt|emergency stop|E-stop|robot, stop|stop right there|stop stop stop|stooooop|STOPPP!!!|no stop|no, stop!|no no stop|wait stop|"+
			"oh my god stop|can you stop|could you please stop moving right now|I said stop|stop moving|stop the robot|freeze|abort|stand still|whoa|full stop|"+
			"don't, stop|don't! Stop!|don't move, stop|don't touch that stop|do not go there, stop|you stop|stop you stupid machine that is my foot|"+
			"drive to the kitchen and stop|what are you doing stop|what did you do stop|hey robot would you just stop|please stop now thank you|stop by the kitchen|"+
			"will you stop|a stop|I want you to stop|you need to stop|you must stop now|who are you stop|do you hear me stop|please stop please|Stop, don't go there|stop do not move|stop never do that again|ｓｔｏｐ|st\u200bop|stop\n|\tstop|«stop»|\"stop\"",
		"|don't stop|dont stop|Don’t stop!|do not stop|never stop|don't you ever stop|please don't stop|don't ever stop moving|never ever stop|you must not stop|I don't want you to stop|"+
			"don't let it stop|can't stop|we cannot stop|without stop|stop sign|the stop sign|bus stop|go to the bus stop|the bus stop is near|the kettle stopped|can you stop by the kitchen|"+
			"could you stop at the kitchen and fetch a cup|why did you stop|did you stop|when does the bus stop|when does the rain stop|how do I stop|how to stop|when will it stop|does it stop|"+
			"stopping|stops|unstoppable|nonstop|non-stop|go to the stop|make a stop in the hall on the way|he told us that he had to stop for petrol there|do not move|don't move|"+
			"go to the kitchen|turn left ninety degrees|hello|what is the capital of France|  |...|!|we watched a film about a pit stop|where is the next stop|\xff\xfe|stop-motion|"+
			"the concert did not stop until the police came")
}

// TestLanguages has for each language what stops, and what does not.
func TestLanguages(t *testing.T) {
	tried := map[string][2]string{
		"de":    {"Stopp!|stop|Halt!|halt an|bitte anhalten|bleib stehen|Not-Aus|sofort stehen bleiben|Roboter, stopp|hör auf|nein, stopp|Stopp, nicht weiter|stopp nicht weiterfahren da ist die Katze", "nicht stoppen|nicht anhalten|halt nicht an|stopp nicht|bitte nicht anhalten|niemals stehen bleiben|das ist halt so wie es ist|Stoppschild|fahr in die Küche|du darfst nicht stoppen"},
		"fr":    {"stop|Arrête !|arrêtez|arrête-toi|arrete toi maintenant|halte|s'il te plaît arrête|arrêt d'urgence|robot stop|Arrêt|non, arrête", "n'arrête pas|ne t'arrête pas|n arrête pas|ne t arrête jamais|arrête pas|l'arrêt de bus est loin d'ici|va à la cuisine|sans arrêt|ne stoppe pas"},
		"es":    {"¡Para!|para|alto|¡Alto!|detente|pare por favor|stop|no, para|no no para|para ya|parada de emergencia|robot para|quieto", "no pares|no te detengas|nunca te detengas|ve para la cocina|la mesa es alta|para la cocina|sin parar|no parar|no detente|esto es para ti"},
		"it":    {"fermati|Ferma!|alt|stop|fermo|per favore fermati|arresto di emergenza|basta|robot fermati subito", "non fermarti|non ti fermare|non fermare|non stop|mai fermarti|vai in cucina|basta un minuto|non si fermi|senza fermarti"},
		"pt":    {"pare|Para!|stop|parem|por favor pare|pare agora|parada de emergência|robô, pare|não, pare", "não pare|não para|nunca pare|vai para a cozinha|sem parar|isso é para você|para a cozinha"},
		"nl":    {"stop|Stop!|halt|sta stil|stop nu alsjeblieft|hou op|noodstop|robot stop|nee, stop", "niet stoppen|stop niet|nooit stoppen|stop nooit|ga naar de keuken|je mag niet stoppen|bushalte"},
		"pl":    {"stop|Stój!|zatrzymaj się|stoj|proszę stop|robot stop|nie, stój", "nie zatrzymuj się|nie stój|nigdy nie stój|nie zatrzymaj się|idź do kuchni|nie stać"},
		"sv":    {"stopp|Stanna!|stå still|stoppa|nödstopp|snälla stanna|nej, stopp", "stanna inte|stoppa inte|sluta inte|stanna aldrig|gå till köket|du får inte stanna"},
		"da":    {"stop|stands|stå stille|nødstop|stop nu|nej, stop", "stop ikke|stands ikke|du må ikke stoppe|aldrig stop|kør til køkkenet"},
		"no":    {"stopp|stans|stå stille|nødstopp|stopp nå|nei, stopp", "ikke stopp|stopp ikke|aldri stopp|du må ikke stoppe|gå til kjøkkenet"},
		"nb-NO": {"stopp", "ikke stopp"},
		"fi":    {"seis|Pysähdy!|stop|pysäytä|hätäseis|lopeta|seis nyt heti", "älä pysähdy|älä pysäytä|älkää pysähtykö|ei stop|mene keittiöön|älä koskaan pysähdy"},
		"cs":    {"stop|Stůj!|zastav|zastavte|prosím zastav|ne, zastav", "nezastavuj|nestůj|ne zastav|nikdy stop|jeď do kuchyně"},
		"ru":    {"стоп|Стой!|стойте|остановись|пожалуйста остановись|робот стоп|стоять|нет, стой", "не останавливайся|не стой|не останови|никогда не стой|иди на кухню|не надо остановить|стоять на кухне весь день нельзя"},
		"uk":    {"стоп|Стій!|зупинись|зупиніться|зупини|робот, стоп|ні, стій", "не зупиняйся|не стій|ніколи не стій|їдь на кухню"},
		"tr":    {"dur|Dur!|DURDUR|stop|lütfen dur|durun|hayır, dur", "durma|sakın durma|asla durma|dur durak bilmez|mutfağa git"},
		"zh":    {"停|停下|停下来！|停止|站住|请停下来|马上停|机器人停下|紧急停止|快停|能不能停下来|不，停", "不要停|别停|不停|不要停下来|停不下来|停车场|去停车场|千万别停下|去厨房|不能停|没有停"},
		"ja":    {"止まれ|止まって|ストップ！|停止|止めて|止まってください|今すぐ停止|とまれ|やめて", "止まらないで|停止しないで|ストップしないで|止まるな|止めないで|止まっている|バスストップ|キッチンに行って|停止ボタンを押さないで"},
		"ko":    {"멈춰|정지|스톱|멈추세요|지금 멈춰|로봇 정지|그만|긴급 정지|아니, 멈춰", "멈추지 마|멈추지마|정지하지 마|정지 하지 마|안 멈춰|절대 멈추지 마|부엌으로 가"},
		"hi":    {"रुको|रुकिए|रुक जाओ|स्टॉप|कृपया रुको|रोबोट रुको|बस", "मत रुको|रुको मत|कभी मत रुको|रुकना मत|रसोई में जाओ|बस स्टॉप|बिना रुके"},
		"ar":    {"قف|توقف|توقف!|توقفي|من فضلك توقف|أوقف|قِفْ|لا، توقف", "لا تتوقف|لا توقف|لا تقف|بدون توقف|اذهب إلى المطبخ|محطة توقف"},
	}
	for code, c := range tried {
		t.Run(code, func(t *testing.T) { check(t, words(t, code), c[0], c[1]) })
	}
	for _, code := range Languages() {
		if _, ok := tried[code]; !ok && code != "en" {
			t.Errorf("%s: no sentence is tried", code)
		}
	}
}

// Together, languages stop for each other's words and heed each other's
// negations.
func TestTogether(t *testing.T) {
	w := words(t, "en", "de", "es", "fr")
	check(t, w, "stop|stopp|para|detente|arrête|halt|no stop|no, stop|please anhalten", "don't stop|nicht stop|no para|ne stop pas|don't anhalten|go to the kitchen|para la cocina")
	all := words(t, Languages()...)
	check(t, all, "stop|Stopp!|停下|стоп|please stop", "don't stop|不要停|не останови|go to the kitchen|turn left ninety degrees")
}

func TestPartial(t *testing.T) {
	w := words(t)
	for _, c := range []struct {
		text string
		at   string // the first prefix, by words, that stops; "" never
	}{
		{"please stop the robot now", "please stop"},
		{"stop", "stop"},
		{"don't stop the robot", ""},
		{"go to the kitchen and then stop", "go to the kitchen and then stop"},
		{"never ever stop", ""},
	} {
		var heard []string
		got := ""
		for _, word := range strings.Fields(c.text) {
			heard = append(heard, word)
			if w.Stops(strings.Join(heard, " ")) {
				got = strings.Join(heard, " ")
				break
			}
		}
		if got != c.at {
			t.Errorf("%q stops at %q, want %q", c.text, got, c.at)
		}
	}
}

func TestLong(t *testing.T) {
	w := words(t)
	talk := strings.Repeat("we talk about the weather and a stop in Rome ", 100)
	check(t, w, "stop "+talk+"|"+talk+"stop|"+talk+"please stop now!|"+strings.Repeat("stop ", 1000), talk+"|"+talk+"don't stop|"+strings.Repeat("word ", 5000)+"|"+strings.Repeat("x", 100_000))
	if !words(t, "zh").Stops(strings.Repeat("天气很好", 300) + "，停下来") {
		t.Error("a long Chinese text that ends with it does not stop")
	}
}

func TestOwnWords(t *testing.T) {
	w := words(t)
	more, err := w.With("red alert", "Notbremse")
	if err != nil {
		t.Fatal(err)
	}
	check(t, more, "red alert|RED ALERT!|notbremse|please red alert now|stop", "don't red alert|a red box|alert red")
	check(t, w, "stop", "red alert")
	fewer, err := w.Except("stop the music", "stop talking")
	if err != nil {
		t.Fatal(err)
	}
	check(t, fewer, "stop|stop the robot|stop the music stop", "stop the music|please stop the music|stop talking|stop talking now")
	check(t, w, "stop the music", "don't stop the music")
	for _, bad := range []string{"", "!", strings.Repeat("a ", 200)} {
		if _, err := w.With(bad); err == nil {
			t.Errorf("%.10q is taken", bad)
		}
	}
	if _, err := New("tlh"); err == nil || !strings.Contains(err.Error(), `"tlh"`) || !strings.Contains(err.Error(), "en") {
		t.Errorf("an unknown language: %v", err)
	}
	if (*Words)(nil).Stops("stop") {
		t.Error("no words stop")
	}
}

func TestEveryWord(t *testing.T) {
	for code, l := range languages() {
		w := words(t, code)
		for _, s := range append(strings.Split(l.stop, "|"), strings.Split(l.alone, "|")...) {
			for _, form := range []string{s, strings.ToUpper(s), s + "!", " " + s + " "} {
				if s != "" && !w.Stops(form) {
					t.Errorf("%s: %q does not stop", code, form)
				}
			}
		}
		for _, s := range strings.Split(l.never, "|") {
			if w.Stops(s) {
				t.Errorf("%s: %q stops", code, s)
			}
		}
		for _, not := range strings.Fields(l.not) {
			for _, s := range strings.Split(l.stop, "|") {
				if say := not + " " + s; w.Stops(say) {
					t.Errorf("%s: %q stops", code, say)
				}
			}
		}
	}
}

func TestAllocates(t *testing.T) {
	w := words(t, Languages()...)
	for _, s := range []string{"STOP!", "please don't stop", "what is the capital of France", "请停下来", strings.Repeat("a long talk about nothing ", 100)} {
		if n := testing.AllocsPerRun(100, func() { w.Stops(s) }); n != 0 {
			t.Errorf("%.30q: %v allocations", s, n)
		}
	}
}

func FuzzStops(f *testing.F) {
	for _, s := range []string{"stop", "don't stop", "停下", "halt nicht an", "stooop\u0301", "\xff stop", "can you stop by"} {
		f.Add(s)
	}
	en, all := words(f), words(f, Languages()...)
	f.Fuzz(func(t *testing.T, s string) {
		en.Stops(s)
		all.Stops(s)
		if utf8.ValidString(s) && len(s) < 200 && !en.Stops("stop! "+s) && !strings.ContainsAny(s, "\u00ad\u200b") && begins(en, s) {
			t.Errorf("%q does not stop", "stop! "+s)
		}
	})
}

// begins reports whether s does not make another word of a "stop!" before it.
func begins(w *Words, s string) bool {
	_, _, broken := next(nil, "! "+s)
	return broken
}

func BenchmarkStops(b *testing.B) {
	en, all := words(b), words(b, Languages()...)
	for _, c := range []struct {
		name string
		w    *Words
		text string
	}{
		{"stop", en, "stop"}, {"negated", en, "please don't stop"}, {"talk", en, "what is the capital of France and how many people live there"},
		{"all_languages", all, "what is the capital of France and how many people live there"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.w.Stops(c.text)
			}
		})
	}
}
