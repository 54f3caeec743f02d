package misfit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// FieldAt is the path of the value at an offset of a text, such as that of a
// [json.UnmarshalTypeError], whose own path leaves out the items of lists: the first
// value that ends there or later, or that begins with a bracket there.
func FieldAt(text []byte, offset int64) string {
	dec := json.NewDecoder(bytes.NewReader(text))
	var around []step // the mappings and lists around the token, the outermost first
	for {
		token, err := dec.Token()
		if err != nil {
			return fieldPath(around)
		}
		delim, _ := token.(json.Delim)
		if delim == '}' || delim == ']' {
			around = around[:len(around)-1]
			continue
		}
		inner := len(around) - 1
		isKey := inner >= 0 && around[inner].advance(token)
		switch {
		case dec.InputOffset() >= offset && isKey:
			return fieldPath(around[:inner]) // just behind the brace
		case dec.InputOffset() >= offset:
			return fieldPath(around)
		case delim != 0:
			around = append(around, step{mapping: delim == '{', index: -1})
		}
	}
}

// step is a place in a mapping or a list.
type step struct {
	mapping bool
	key     string
	named   bool // whether key is that of the next value
	index   int
}

// advance goes on to the next token, and reports whether that is a key.
func (s *step) advance(token json.Token) bool {
	key, isText := token.(string)
	switch {
	case !s.mapping:
		s.index++
	case s.named:
		s.named = false
	case isText:
		s.key, s.named = key, true
		return true
	}
	return false
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func fieldPath(steps []step) string {
	var path strings.Builder
	for _, s := range steps {
		switch {
		case !s.mapping:
			fmt.Fprintf(&path, "[%d]", s.index)
		case !plainKey.MatchString(s.key):
			fmt.Fprintf(&path, "[%s]", s.key)
		case path.Len() > 0:
			path.WriteString("." + s.key)
		default:
			path.WriteString(s.key)
		}
	}
	return path.String()
}
