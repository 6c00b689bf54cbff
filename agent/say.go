package agent

import "context"

type sayKey struct{}

// WithSay returns a context in which agents tell what they are about to answer,
// piece by piece, before their result is there. say is called from one
// goroutine at a time and must be quick.
func WithSay(ctx context.Context, say func(text string)) context.Context {
	return context.WithValue(ctx, sayKey{}, say)
}

// Say tells a piece of the answer to whoever listens, and reports whether
// anybody does.
func Say(ctx context.Context, text string) bool {
	say, ok := ctx.Value(sayKey{}).(func(string))
	if !ok || say == nil {
		return false
	}
	if ctx.Err() == nil {
		say(text)
	}
	return true
}

// Listening reports whether anybody hears what is said.
func Listening(ctx context.Context) bool {
	say, _ := ctx.Value(sayKey{}).(func(string))
	return say != nil
}
