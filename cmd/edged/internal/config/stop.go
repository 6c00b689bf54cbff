package config

import "edged/hw/stopword"

// Heard are the words that stop the robot. Settings that were loaded have them.
func (s Stop) Heard() (*stopword.Words, error) {
	w, err := stopword.New(s.Languages...)
	if err == nil && len(s.Words) > 0 {
		w, err = w.With(s.Words...)
	}
	if err == nil && len(s.Except) > 0 {
		w, err = w.Except(s.Except...)
	}
	return w, err
}
