package stopword

import "maps"

// This file is the words themselves. Phrases are parted by |, single words by
// spaces; case and accents do not matter.

// A language is what is known of it.
type language struct {
	stop    string // phrases that mean stop
	alone   string // that mean it only if nothing else is said: they have other meanings
	never   string // phrases with a stop word that do not mean it
	not     string // words that take a stop word behind them back
	weak    string // the same, but said twice or before "stop" they are a cry
	after   string // words that take a stop word before them back
	ending  string // what may follow those
	link    string // what may stand between not and the stop word, besides fillers
	filler  string // what may stand around a stop word
	request string // phrases that ask for something
	article string // what makes a name of the word
	asks    string // first words of questions
	helps   string // did
	before  string // to, will: asked, not told
	subject string
	doing   string
	travel  string
}

func languages() map[string]language {
	all := germanic()
	maps.Copy(all, romance())
	maps.Copy(all, northern())
	maps.Copy(all, eastern())
	return all
}

func germanic() map[string]language {
	return map[string]language{
		"en": {
			stop: "stop|stopp|halt|freeze|abort|emergency stop|full stop|all stop|stand still|hold still|whoa|stop moving|e stop|cease",
			never: "stop sign|stop signs|stop light|stop lights|stop watch|stop words|stop word|stop button|stop buttons|stop bit|bus stop|bus stops|tram stop|truck stop|pit stop|door stop|rest stop|non stop|" +
				"freeze dried|freeze frame|brain freeze|hard stop at|stop motion|a full stop|short stop|whistle stop|halt and catch fire",
			not:     "not don't dont doesn't didn't never can't cannot won't wouldn't shouldn't couldn't mustn't needn't isn't aren't without unable",
			link:    "ever even want wanted wants to need needs have has let make made it him her them this that the a robot dare me try think about you i we they he she going gonna must should be all",
			filler:  "please pls robot hey ok okay oh ah now no yes it right here there immediately instantly already just everything all this that so well then thanks thank you the machine god damn hell wait and but i said uh um heavens sake",
			request: "can you|could you|would you|will you|can we|could we|i want you to|i need you to|i would like you to|i'd like you to|you must|you should|you need to|you have to|tell it to|make it|i said|let's",
			article: "the a an our its next last first every each another bus tram",
			asks:    "what why when where how who which did does do is are was were whether if has have",
			helps:   "did does do", before: "to will would can could should", subject: "you i he she it we they robot", doing: "do doing done is are",
			travel: "by at in off over near on",
		},
		"de": {
			stop:  "stop|stopp|stoppen|anhalten|halt an|halte an|haltet an|halt|stehenbleiben|stehen bleiben|bleib stehen|bleibt stehen|not aus|notaus|nothalt|not halt|notstopp|aufhören|hör auf|sofort anhalten|stopp sofort",
			never: "stopp schild|stop schild|halt die klappe|halt mal|halt so|halt eben|zum halt|ist halt|bin halt|sind halt|halt dich fest|halt dich",
			not:   "nicht nie niemals nimmer kein keinen keine keinesfalls ohne", after: "nicht nie niemals", ending: "an auf jetzt bitte stehen mehr",
			link:   "du darfst sollst sollt musst jetzt hier doch mal zu einfach wieder den die das roboter ihn es er sie",
			filler: "bitte roboter hey ok okay oh jetzt nein ja sofort hier da doch mal alles das es ihn auf der stelle danke an nun los mensch verdammt scheiße und", request: "kannst du|könntest du|würdest du|du musst|du sollst|sie müssen", article: "der den dem ein einen ohne nächster nächsten letzten bus",
		},
		"nl": {
			stop:  "stop|stoppen|halt|sta stil|stilstaan|stil staan|blijf staan|hou op|houd op|ophouden|noodstop|stop ermee",
			never: "stop bord|bus halte|stop contact|stop licht|non stop", not: "niet nooit geen zonder", after: "niet nooit", ending: "nu alsjeblieft",
			link:   "je mag moet ooit te de het robot hem nu wil dat kan",
			filler: "alsjeblieft alstublieft robot hé hey ok oké nu nee ja hier daar onmiddellijk meteen alles dit dat het maar eens even ermee dank", request: "kun je|kan je|zou je|wil je|je moet", article: "de een het deze volgende",
		},
		"sv": {
			stop:  "stopp|stop|stanna|stoppa|halt|stå still|nödstopp|sluta|håll|avbryt",
			never: "stopp skylt|non stop|stanna kvar|stanna upp", not: "inte aldrig ej utan icke", after: "inte aldrig ej", ending: "nu snälla",
			link:   "du får ska måste att den det nu vill",
			filler: "snälla robot hej hallå ok okej nu nej ja genast omedelbart här där allt det den tack är du", request: "kan du|skulle du kunna|kan du vara snäll och|du måste|vill du", article: "en ett nästa",
		},
		"da": {
			stop:  "stop|stands|stop nu|halt|stå stille|nødstop|hold op|standse|stoppe|afbryd",
			never: "stop skilt|bus stop|non stop", not: "ikke aldrig uden ej", after: "ikke aldrig", ending: "nu",
			link: "du må skal at den det nu vil", filler: "venligst robot hej hallo ok okay nu nej ja straks omgående her der alt det den tak lige så", request: "kan du|vil du|kunne du|du skal", article: "et en næste",
		},
		"no": {
			stop:  "stopp|stop|stans|stoppe|halt|stå stille|nødstopp|hold opp|slutt|avbryt",
			never: "stopp skilt|buss stopp|non stop|til slutt", not: "ikke aldri uten ei", after: "ikke aldri", ending: "nå",
			link: "du må skal å den det nå vil", filler: "vennligst robot hei hallo ok okei nå nei ja straks umiddelbart her der alt det den takk er du snill", request: "kan du|vil du|kunne du|du må", article: "et en neste",
		},
	}
}

func romance() map[string]language {
	return map[string]language{
		"fr": {
			stop:  "stop|stoppe|stoppez|arrête|arrêtez|arrête toi|arrêtez vous|halte|arrêt d'urgence|immobile",
			alone: "arrêt", never: "panneau stop|auto stop|bande d'arrêt|sans arrêt|halte garderie",
			not: "ne n jamais sans pas", after: "pas jamais", ending: "toi vous maintenant plus",
			link:   "t te vous me le la l s se nous il elle tu surtout",
			filler: "s'il te plaît vous plait s'il svp stp robot hé hey ok oh maintenant non oui tout ça tout de suite immédiatement ici là le la l merci bon toi", request: "peux tu|pourrais tu|pouvez vous|pourriez vous|tu dois|il faut que tu t'|je veux que tu", article: "le un au du ce prochain",
		},
		"es": {
			stop:  "stop|detente|deténgase|detener|detengan|parar|parad|alto ahí|parada de emergencia|quieto|quieta|párate|pare|frena|paren|para ya|para ahora|para inmediatamente|para por favor|para robot|robot para|por favor para|basta ya",
			alone: "para|alto|basta|pausa ya", never: "señal de stop|sin parar|auto stop",
			not: "nunca jamás sin tampoco", weak: "no", link: "te se lo la le debes puedes quiero que vayas a de",
			filler: "por favor robot oye ok vale ahora ya inmediatamente no sí aquí ahí todo eso esto gracias mismo ah oh", request: "puedes|podrías|quiero que|tienes que|debes", article: "el un al del este",
		},
		"it": {
			stop:  "stop|fermati|fermatevi|ferma|fermo|ferma tutto|fermare|alt|arresto di emergenza|arresta|arrestati|stai fermo|si fermi|basta così|ferma subito",
			alone: "basta|fermi", never: "senza fermarti|senza fermare|auto stop",
			not: "non mai senza né", link: "ti si lo la devi puoi voglio che tu mi",
			filler: "per favore robot ehi ok adesso ora subito no sì qui lì tutto questo quello grazie immediatamente oh ah prego", request: "puoi|potresti|vuoi|devi|voglio che tu ti", article: "lo il uno un allo dello non",
		},
		"pt": {
			stop:  "stop|pare|parem|parar|para já|para agora|para imediatamente|para por favor|por favor para|para robô|robô para|parada de emergência|alto lá|fique parado|fica parado|quieto|detenha se",
			alone: "para|alto|chega", never: "sem parar|ponto de parada",
			not: "não nunca jamais sem nem", link: "te se o a você deve pode quero que me",
			filler: "por favor robô robot ei ok agora já imediatamente sim aqui aí tudo isso isto obrigado obrigada oh ah", request: "pode|poderia|podes|quero que você|tens de", article: "o um ao do",
		},
	}
}

func northern() map[string]language {
	return map[string]language{
		"pl": {
			stop:  "stop|stój|stać|zatrzymaj się|zatrzymaj|zatrzymać|zatrzymaj to|stójcie|awaryjne zatrzymanie|wstrzymaj|przestań",
			never: "znak stop|auto stop|nie stać mnie|stać mnie", not: "nie nigdy bez", link: "się wolno możesz musisz teraz ci go",
			filler: "proszę robot robocie hej ok teraz już natychmiast tak tu tutaj to wszystko dziękuję się o ach", request: "czy możesz|możesz|mógłbyś|musisz", article: "",
		},
		"fi": {
			stop:  "seis|stop|pysähdy|pysähtykää|pysäytä|hätäseis|seisahdu|lopeta|pysy paikallasi|stoppi|hätäpysäytys|keskeytä",
			never: "stop merkki", not: "älä älkää ei en et emme ette eivät koskaan ilman", link: "vain nyt sinä saa saisi",
			filler: "ole hyvä kiltti robotti hei ok nyt heti välittömästi joo kyllä tässä siihen tuo se kaikki kiitos nyt", request: "voitko|voisitko|sinun pitää", article: "",
		},
		"cs": {
			stop:  "stop|stůj|stůjte|zastav|zastavte|zastavit|zastav se|přestaň|nouzové zastavení",
			never: "značka stop|auto stop|non stop", not: "ne nikdy bez nesmíš nemusíš", link: "se teď to ho",
			filler: "prosím robote robot hej ok teď hned okamžitě ano tady tam to všechno se díky", request: "můžeš|mohl bys|musíš", article: "",
		},
		"ru": {
			stop:  "стоп|стой|стойте|остановись|остановитесь|остановить|останови|остановите|тормози|замри|аварийная остановка|аварийный стоп|прекрати|стоп машина",
			alone: "стоять|хватит|остановка", never: "стоп сигнал|знак стоп", not: "не никогда без нельзя", link: "надо нужно его тебе вам сейчас больше",
			filler: "пожалуйста робот эй ок сейчас теперь немедленно быстро да нет здесь тут там всё это его спасибо ну же сразу", request: "можешь|ты можешь|не мог бы ты|ты должен", article: "",
		},
		"uk": {
			stop:  "стоп|стій|стійте|зупинись|зупиніться|зупини|зупиніть|зупинити|зупинися|гальмуй|замри|аварійна зупинка|припини",
			alone: "стояти|досить|годі|зупинка", never: "стоп сигнал|знак стоп", not: "не ніколи без", link: "треба його тобі вам зараз більше можна",
			filler: "будь ласка робот роботе гей ок зараз тепер негайно швидко так ні тут там усе все це його дякую ну", request: "можеш|ти можеш|чи можеш|ти повинен", article: "",
		},
		"tr": {
			stop:  "dur|durun|durunuz|stop|durdur|durdurun|acil durdurma|acil stop|dur artık|hemen dur|kes şunu",
			never: "dur bakalım ne|dur durak", not: "asla sakın hiç", after: "değil durma", ending: "",
			link: "bir daha", filler: "lütfen robot hey tamam şimdi hemen hayır evet burada orada artık onu bunu her şeyi teşekkürler derhal be", request: "misin", article: "",
		},
	}
}

func eastern() map[string]language {
	return map[string]language{
		"zh": {
			stop: "停|停下|停下来|停止|停住|站住|停一下|快停|马上停|立刻停|紧急停止|急停|停机|刹车|打住|暂停|住手|能不能停|可不可以停|能不能停下",
			never: "停车|停车场|停电|停留|停顿|停产|停工|停业|停靠|停泊|不停|停不下|停不住|停不了|公交站|停战|" +
				"停車|停車場|停電",
			not: "不 别 別 没 沒 勿 莫 甭 未", link: "要 用 能 可 以 必 许 准 得 让 你 它 再 会 停 该 应 有 突 然", filler: "请 請 快 马 上 立 刻 即 了 下 来 吧 啊 呀 哦 喂 机 器 人 你 给 我 现 在 先 一 赶 紧 都 全 部 谢 嘿", request: "你能|能不能|可以", article: "",
		},
		"ja": {
			stop: "止まれ|止まって|止まりなさい|とまれ|とまって|ストップ|停止|停止しろ|停止して|止めて|止めろ|とめて|やめて|やめろ|非常停止|緊急停止|止まりましょう|止まってください|中止",
			never: "停止しない|停止しなく|停止するな|停止せず|停止中|停止線|停止ボタン|停止した|停止して いる|停止している|停止していた|ストップしない|ストップするな|ストップせず|ストップウォッチ|ノンストップ|止まれない|止まれなかった|止まって いる|止まっている|止まってる|止まっていた|止まってた|" +
				"止まってはいけない|止まっちゃ|止まってはだめ|止まっては|止めてはいけない|止めては|止めている|とまってはいけない|とまっては|とまっている|やめては|やめている|バスストップ",
			not: "", filler: "く だ さ い 今 す ぐ に ね よ お 願 い し ま す ロ ボ ッ ト は や 早 く 全 部 あ え ー っ さあ ちょ と 待 その", request: "", article: "",
		},
		"ko": {
			stop:  "멈춰|멈춰라|멈춰요|멈추세요|멈춰주세요|멈춰 주세요|멈추십시오|정지|정지해|정지해라|정지하세요|긴급정지|긴급 정지|비상정지|비상 정지|스톱|스탑|중지|그만해|멈추어라|서라",
			alone: "그만|서", never: "버스 정지|일시 정지 표지|정지 신호", not: "안 절대 못", after: "하지 하지마 마 말고 하지는", ending: "마 마세요 말아 말아요 말고 마라",
			link: "절대로 다시", filler: "제발 로봇 로봇아 야 이봐 지금 당장 바로 빨리 좀 아니 네 여기 거기 모두 전부 줘 주세요 해 해줘 감사합니다", request: "", article: "",
		},
		"hi": {
			stop:  "रुको|रुकिए|रुकिये|रुक जाओ|रुक जाइए|रुक|रुक जा|ठहरो|ठहर जाओ|ठहरिए|स्टॉप|रोको|रोकिए|रोक दो|बंद करो|थम जाओ|आपातकालीन रोक",
			alone: "बस", never: "बस स्टॉप|बस अड्डा|बिना रुके", not: "मत नहीं ना न कभी बिना", after: "मत नहीं ना", ending: "अभी जाना करो",
			link: "भी इसे उसे तुम आप कहीं", filler: "कृपया प्लीज़ प्लीज रोबोट अरे ओ ठीक है अभी तुरंत जल्दी यहाँ यहीं वहीं सब इसे उसे यह धन्यवाद हाँ", request: "क्या तुम|क्या आप", article: "",
		},
		"ar": {
			stop:  "قف|قفي|قفوا|توقف|توقفي|توقفوا|ستوب|أوقف|اوقف|أوقفه|توقف فورا|إيقاف طارئ|وقف|إيقاف|كفى الآن",
			alone: "كفى|خلاص|بس", never: "موقف الباص|محطة توقف|دون توقف|بلا توقف|بدون توقف|اشارة قف|إشارة قف",
			not: "لا لم لن ما ليس دون بدون بلا غير", link: "أن ان عن الآن أبدا يجب", filler: "من فضلك رجاء لو سمحت يا روبوت أيها الروبوت الآن حالا فورا هنا هناك نعم كل شيء هذا ذلك شكرا عن الحركة", request: "هل يمكنك أن|هل يمكنك",
		},
	}
}
