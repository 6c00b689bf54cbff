package engine

// Decode gives the text of tokens, with call marks, without control tokens.
func (t *Tokenizer) Decode(ids []int) string {
	var b []byte
	for _, id := range ids {
		b = append(b, t.bytes[id]...)
	}
	return string(b)
}
