// Package fold gives a letter one spelling, so that a word typed, heard and
// written by an author compares equal: lower case, without accents, whether
// composed or not.
//
// Its one rule: it never allocates, and what it does not know it leaves alone.
//
//	fold.Rune('É') // 'e'
//	fold.Rune(0x301) // 0: a combining accent, to be left out
package fold

import "unicode"

// Rune returns the folded form of r, or 0 if r adds nothing: a combining
// accent of a Latin, Greek or Cyrillic letter, an Arabic vowel mark, a
// zero-width character.
func Rune(r rune) rune {
	if r < 0x80 {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}
	switch {
	case 0x300 <= r && r <= 0x36F, 0x64B <= r && r <= 0x652, r == 0x670, r == 0x640, 0x200B <= r && r <= 0x200F, r == 0xFEFF, r == 0xAD:
		return 0
	case 0xFF01 <= r && r <= 0xFF5E: // full-width forms of ASCII
		return Rune(r - 0xFEE0)
	case r == 'İ':
		return 'i'
	}
	return plain(unicode.ToLower(r))
}

// plain takes the accent off a lower-case letter.
func plain(r rune) rune {
	switch r {
	case 'à', 'á', 'â', 'ã', 'ä', 'å', 'ā', 'ă', 'ą', 'ǎ':
		return 'a'
	case 'ç', 'ć', 'ĉ', 'ċ', 'č':
		return 'c'
	case 'ď', 'đ':
		return 'd'
	case 'è', 'é', 'ê', 'ë', 'ē', 'ĕ', 'ė', 'ę', 'ě':
		return 'e'
	case 'ĝ', 'ğ', 'ġ', 'ģ':
		return 'g'
	case 'ì', 'í', 'î', 'ï', 'ĩ', 'ī', 'ĭ', 'į', 'ı':
		return 'i'
	case 'ķ':
		return 'k'
	case 'ĺ', 'ļ', 'ľ', 'ł':
		return 'l'
	case 'ñ', 'ń', 'ņ', 'ň':
		return 'n'
	case 'ò', 'ó', 'ô', 'õ', 'ö', 'ø', 'ō', 'ŏ', 'ő':
		return 'o'
	case 'ŕ', 'ŗ', 'ř':
		return 'r'
	case 'ś', 'ŝ', 'ş', 'š', 'ș':
		return 's'
	case 'ţ', 'ť', 'ț':
		return 't'
	case 'ù', 'ú', 'û', 'ü', 'ũ', 'ū', 'ŭ', 'ů', 'ű', 'ų':
		return 'u'
	case 'ý', 'ÿ':
		return 'y'
	case 'ź', 'ż', 'ž':
		return 'z'
	case 'ё':
		return 'е'
	case 'й': // composed й, as й after its accent is dropped
		return 'и'
	case 'ї':
		return 'і'
	case 'أ', 'إ', 'آ', 'ٱ':
		return 'ا'
	case 'ى':
		return 'ي'
	case 'ς':
		return 'σ'
	case '’', '‘', 'ʼ', '`', '´':
		return '\''
	case '−', '–', '—':
		return '-'
	}
	return r
}

// Own reports whether r is a word by itself: a letter of a script that writes
// no spaces.
func Own(r rune) bool {
	if r < 0xE00 {
		return false
	}
	switch {
	case 0xE00 <= r && r <= 0xEFF, // Thai, Lao
		0x3041 <= r && r <= 0x30FF, // kana
		0x3400 <= r && r <= 0x9FFF, // Han
		0xF900 <= r && r <= 0xFAFF, 0x20000 <= r && r <= 0x3FFFF:
		return true
	}
	return false
}

// Letter reports whether r is part of a word.
func Letter(r rune) bool {
	if r < 0x80 {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	return unicode.IsLetter(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r) || r == 0x200D
}
