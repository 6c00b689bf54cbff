package intent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"edged/agent/llm/intent/fold"
)

// This file knows what a language's little words are good for. All of them are
// kept folded.

type language struct {
	block   map[string]bool // negations, questions, conditions, people: never guessed or left out
	not     map[string]bool // the negations among them
	filler  map[string]bool // may stand anywhere without meaning anything
	lost    map[string]bool // may be missing where a sentence has them
	polite  [][]string      // may stand before a command
	like    map[string][]string
	numbers map[string]number
	and     map[string]bool // between parts of a number
	point   map[string]bool
	minus   map[string]bool
	article map[string]bool // before hundred, half
	later   bool            // units come before tens, in one word, as in German
}

func (l *language) negation(w string) bool { return l.not[w] }

type number struct {
	value float64
	class numberClass
}

type numberClass uint8

const (
	units    numberClass = iota // 0–19
	tens                        // 20–90
	hundred                     // multiplies what stands before it
	thousand                    // closes a group
	fraction                    // half, quarter
	whole                       // 21–99 in one word
)

// source is a language as it is written down here.
type source struct {
	not, block, filler, lost, polite, like string
	units, tens, hundred, thousand         string
	half, quarter                          string
	and, point, minus, article             string
	joined                                 string // between unit and ten in one word
}

// languageOf returns the words of a language; "" is English, and "en-GB" is
// "en".
func languageOf(tag string) (*language, error) {
	base, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(tag, "_", "-")), "-")
	if base == "" {
		base = "en"
	}
	all := sources()
	src, ok := all[base]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(all)), ", ")
		return nil, &Error{Msg: fmt.Sprintf("language %q: its numbers and little words are not known, only those of %s", tag, known)}
	}
	l := &language{
		not: set(src.not), block: set(src.block), filler: set(src.filler), lost: set(src.lost),
		and: set(src.and), point: set(src.point), minus: set(src.minus), article: set(src.article),
		like: map[string][]string{}, numbers: map[string]number{},
	}
	maps.Copy(l.block, l.not)
	for _, p := range strings.Split(src.polite, ",") {
		if w := words(p); len(w) > 0 {
			l.polite = append(l.polite, w)
		}
	}
	for _, group := range strings.Split(src.like, ",") {
		ws := words(group)
		for _, a := range ws {
			for _, b := range ws {
				if a != b {
					l.like[a] = append(l.like[a], b)
				}
			}
		}
	}
	l.count(src)
	return l, nil
}

func (l *language) count(src source) {
	put := func(list string, from, step float64, class numberClass) {
		for i, alt := range strings.Fields(list) {
			for _, w := range strings.Split(alt, "/") {
				l.numbers[folded(w)] = number{from + float64(i)*step, class}
			}
		}
	}
	put(src.units, 0, 1, units)
	put(src.tens, 20, 10, tens)
	put(src.hundred, 100, 0, hundred)
	put(src.thousand, 1000, 999000, thousand)
	put(src.half, 0.5, 0, fraction)
	put(src.quarter, 0.25, 0, fraction)
	if src.joined == "" {
		return
	}
	for i, u := range strings.Fields(src.units) {
		for j, t := range strings.Fields(src.tens) {
			if i > 0 && i < 10 {
				for _, w := range strings.Split(u, "/") {
					l.numbers[folded(w+src.joined+t)] = number{float64(20 + 10*j + i), whole}
				}
			}
		}
	}
}

func set(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[folded(w)] = true
	}
	return m
}

func words(phrase string) []string {
	var out []string
	for _, w := range strings.Fields(phrase) {
		out = append(out, folded(w))
	}
	return out
}

func folded(w string) string {
	var b strings.Builder
	for _, r := range w {
		if f := fold.Rune(r); f != 0 && f != '\'' {
			b.WriteRune(f)
		}
	}
	return b.String()
}

func sources() map[string]source {
	return map[string]source{
		"en": {
			not: "not don't doesn't didn't never no nor neither without can't cannot won't wouldn't shouldn't couldn't mustn't shan't isn't aren't wasn't except nothing none",
			block: `what whats what's who who's whos whose why when where where's how how's which is are am was were did does has have had if unless until while because should may might
				i he she it they we you me him her his their someone somebody anybody everyone tell said says told think thought yesterday tomorrow later before after instead or but stop avoid refuse pretend imagine`,
			filler:  "um uh er erm hmm please pls hey hi hello ok okay so well now just then the a an robot thanks thank",
			lost:    "the a an to of in at for my please and",
			polite:  "can you, could you, would you, will you, i want you to, i would like you to, id like you to, i need you to, lets, let us, would you mind",
			like:    "to too two, for four, right write wright rite, by buy bye, there their theyre, hall haul, one won, eight ate, red read, meter metre, meters metres, gray grey, color colour, light lite, lights lites, dock doc, base bass, turn tern, stairs stares, aisle isle",
			units:   "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
			tens:    "twenty thirty forty/fourty fifty sixty seventy eighty ninety",
			hundred: "hundred", thousand: "thousand million", half: "half/halves", quarter: "quarter/quarters", and: "and", point: "point", minus: "minus negative", article: "a an",
		},
		"de": {
			not:     "nicht nichts nie niemals kein keine keinen keinem keiner nimmer ohne weder bloß",
			block:   "was wer wie wo wann warum wieso weshalb welche welcher welches ist sind war waren hat haben hatte wenn falls ob bis bevor nachdem weil ich er sie es wir ihr du gestern morgen später statt oder aber sagte",
			filler:  "äh ähm hm bitte hey hallo ok okay also mal jetzt nun doch einfach der die das den dem ein eine einen roboter danke",
			lost:    "der die das den dem des ein eine einen zu zum zur in im am auf an bitte und um",
			polite:  "kannst du, könntest du, würdest du, ich möchte dass du",
			like:    "zwei zwo",
			units:   "null ein/eins/eine/einen zwei/zwo drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
			tens:    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
			hundred: "hundert", thousand: "tausend million", half: "halb halbe halber halben halbes", quarter: "viertel", and: "und", point: "komma", minus: "minus", article: "ein eine", joined: "und",
		},
		"fr": {
			not:     "ne n pas jamais rien sans non aucun aucune ni",
			block:   "que quoi qui quand où comment pourquoi quel quelle est sont était si je il elle nous vous ils elles tu hier demain avant après mais ou",
			filler:  "euh hum svp stp hé salut bonjour ok alors maintenant donc le la les un une robot merci",
			lost:    "le la les l un une de du des à au aux en dans et",
			polite:  "peux tu, pourrais tu, pouvez vous, pourriez vous, est ce que tu peux, je veux que tu",
			units:   "zéro un/une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
			tens:    "vingt trente quarante cinquante soixante septante huitante/octante nonante",
			hundred: "cent cents", thousand: "mille million", half: "demi demie", quarter: "quart", and: "et", point: "virgule", minus: "moins", article: "un",
		},
		"es": {
			not:     "no nunca jamás nada sin ni tampoco ningún ninguna",
			block:   "qué quién cuándo dónde cómo por qué cuál es está son era si yo él ella ellos usted tú ayer mañana antes después pero o",
			filler:  "eh em por favor oye hola ok vale ahora pues el la los las un una robot gracias",
			lost:    "el la los las un una de del a al en y",
			polite:  "puedes, podrías, puede, podría, quiero que",
			units:   "cero un/uno/una dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve",
			tens:    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
			hundred: "cien ciento", thousand: "mil millón", half: "medio media", quarter: "cuarto", and: "y", point: "coma punto", minus: "menos", article: "un",
		},
		"it": {
			not:     "non mai niente nulla senza né nessuno nessuna no",
			block:   "cosa chi quando dove come perché quale è sono era se io lui lei noi voi tu ieri domani prima dopo ma o",
			filler:  "ehm per favore ehi ciao ok allora ora adesso il lo la i gli le un una robot grazie",
			lost:    "il lo la i gli le l un una di del della a al alla in nel nella e",
			polite:  "puoi, potresti, può, potrebbe, voglio che",
			units:   "zero un/uno/una due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici diciassette diciotto diciannove",
			tens:    "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
			hundred: "cento", thousand: "mille milione", half: "mezzo mezza", quarter: "quarto", and: "e", point: "virgola", minus: "meno", article: "un",
		},
		"nl": {
			not:     "niet nooit niets geen zonder nergens noch",
			block:   "wat wie waar wanneer waarom hoe welke is zijn was waren heeft als of totdat ik hij zij het wij jullie jij gisteren morgen voor na maar",
			filler:  "eh uh hm alsjeblieft graag hé hallo ok oké nu even maar dan de het een robot dank bedankt",
			lost:    "de het een naar in op van te en",
			polite:  "kun je, kan je, zou je, wil je, ik wil dat je",
			units:   "nul een/één twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien zeventien achttien negentien",
			tens:    "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
			hundred: "honderd", thousand: "duizend miljoen", half: "half halve", quarter: "kwart", and: "en", point: "komma", minus: "min", article: "een", joined: "en",
		},
	}
}
