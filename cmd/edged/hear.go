package main

import (
	"fmt"

	"edged/cmd/edged/internal/config"
	"edged/hw/stopword"
)

// stopWords are the words of the settings.
func stopWords(c *config.Config) (*stopword.Words, error) {
	w, err := stopword.New(c.Stop.Languages...)
	if err == nil && len(c.Stop.Words) > 0 {
		w, err = w.With(c.Stop.Words...)
	}
	if err == nil && len(c.Stop.Except) > 0 {
		w, err = w.Except(c.Stop.Except...)
	}
	if err != nil {
		return nil, fmt.Errorf("setting stop: %w", err)
	}
	return w, nil
}
