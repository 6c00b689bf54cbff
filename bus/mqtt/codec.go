package mqtt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"edged/bus"
)

// A Codec says what a payload on the wire is.
type Codec string

// The codecs. JSON is the default: what isn't JSON is text, unless it begins
// like an object or a list, isn't UTF-8, or is a number like NaN that JSON
// doesn't have.
const (
	JSON  Codec = "json"
	Text  Codec = "text"
	Bytes Codec = "bytes"
	CBOR  Codec = "cbor"
)

// ErrPayload is wrapped by the errors for payloads that can't be taken or sent.
var ErrPayload = errors.New("malformed payload")

const maxDepth = 64

// codecs turns payloads into events' values and back. It may be used
// concurrently.
type codecs struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

func newCodecs() (codecs, error) {
	enc, err := cbor.CanonicalEncOptions().EncMode()
	if err != nil {
		return codecs{}, fmt.Errorf("mqtt: cbor: %w", err)
	}
	dec, err := cbor.DecOptions{
		IntDec: cbor.IntDecConvertSigned, MaxNestedLevels: maxDepth, DupMapKey: cbor.DupMapKeyEnforcedAPF,
		TimeTagToAny: cbor.TimeTagToRFC3339, IndefLength: cbor.IndefLengthAllowed, UTF8: cbor.UTF8RejectInvalid,
	}.DecMode()
	if err != nil {
		return codecs{}, fmt.Errorf("mqtt: cbor: %w", err)
	}
	return codecs{enc, dec}, nil
}

func (c Codec) check() error {
	switch c {
	case "", JSON, Text, Bytes, CBOR:
		return nil
	}
	return fmt.Errorf("unknown codec %q: use json, text, bytes or cbor", string(c))
}

// decode makes an event's value of a payload, which must not change afterwards.
// An empty payload is nil.
func (cs codecs) decode(c Codec, p []byte) (any, error) {
	if len(p) == 0 {
		return nil, nil
	}
	switch c {
	case "", JSON:
		return decodeJSON(p)
	case Text:
		if !utf8.Valid(p) {
			return nil, fmt.Errorf("%w: not UTF-8: use the codec \"bytes\"", ErrPayload)
		}
		return string(p), nil
	case Bytes:
		return p, nil
	case CBOR:
		var v any
		if err := cs.dec.Unmarshal(p, &v); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPayload, err)
		}
		return tree(v, 0)
	}
	return nil, fmt.Errorf("%w: %w", ErrPayload, c.check())
}

func decodeJSON(p []byte) (any, error) {
	if !utf8.Valid(p) {
		return nil, fmt.Errorf("%w: not UTF-8: use the codec \"bytes\"", ErrPayload)
	}
	if json.Valid(p) {
		return bus.RawJSON(p), nil
	}
	switch t := bytes.TrimSpace(p); {
	case len(t) > 0 && (t[0] == '{' || t[0] == '['):
		var v any
		return nil, fmt.Errorf("%w: broken JSON: %w", ErrPayload, json.Unmarshal(p, &v))
	case notNumber(t):
		return nil, fmt.Errorf("%w: %s is not a number", ErrPayload, t)
	}
	return string(p), nil
}

// notNumber finds the numbers that sensors print and JSON doesn't have.
func notNumber(t []byte) bool {
	if len(t) > 9 {
		return false
	}
	switch strings.TrimLeft(strings.ToLower(string(t)), "+-") {
	case "nan", "inf", "infinity":
		return true
	}
	return false
}

// tree makes the JSON tree that events carry of what CBOR gives.
func tree(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: more than %d levels deep", ErrPayload, maxDepth)
	}
	switch x := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(x))
		for k, e := range x {
			name, ok := k.(string)
			if !ok {
				name = fmt.Sprint(k)
			}
			t, err := tree(e, depth+1)
			if err != nil {
				return nil, err
			}
			m[name] = t
		}
		return m, nil
	case []any:
		for i := range x {
			t, err := tree(x[i], depth+1)
			if err != nil {
				return nil, err
			}
			x[i] = t
		}
		return x, nil
	case cbor.Tag:
		return tree(x.Content, depth+1)
	case cbor.SimpleValue:
		return int64(x), nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%w: %v is not a number", ErrPayload, x)
		}
	}
	return v, nil
}

// encode makes the payload of an event. It must not be changed.
func (cs codecs) encode(c Codec, e bus.Event) ([]byte, error) {
	v := e.Value()
	if c == CBOR {
		p, err := cs.enc.Marshal(e.Payload())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPayload, err)
		}
		return p, nil
	}
	switch x := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(x), nil
	case []byte:
		return x, nil
	}
	p, err := e.JSON()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	return p, nil
}
