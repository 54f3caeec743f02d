package typeerror

import (
	"bytes"
	"encoding/json"

	"rollcall.training/internal/fieldpath"
)

// PathAtOffset returns the path of the value at a byte offset of a JSON text: the first value that
// ends at or after the offset, or whose opening bracket does. The offset is that of a
// [json.UnmarshalTypeError], whose own path does not contain the indexes of list items. If the offset
// is beyond the text, the path is empty.
func PathAtOffset(text []byte, offset int64) string {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var parents []pathStep // the mappings and lists around the token, outermost first
	for {
		token, err := decoder.Token()
		if err != nil {
			return formatPath(parents)
		}
		delim, _ := token.(json.Delim)
		if delim == '}' || delim == ']' {
			parents = parents[:len(parents)-1]
			continue
		}
		innermost := len(parents) - 1
		isKey := innermost >= 0 && parents[innermost].consumeToken(token)
		switch {
		case decoder.InputOffset() >= offset && isKey:
			return formatPath(parents[:innermost]) // the offset follows the opening brace
		case decoder.InputOffset() >= offset:
			return formatPath(parents)
		case delim != 0:
			parents = append(parents, pathStep{isMapping: delim == '{', index: -1})
		}
	}
}

// pathStep is a position in a mapping or a list.
type pathStep struct {
	isMapping bool
	// key is the last key of the mapping. hasKey is true until its value has been consumed.
	key    string
	hasKey bool
	// index is the index of the last item of the list, or -1.
	index int
}

// consumeToken advances the position to the next token. It reports whether the token is a key.
func (s *pathStep) consumeToken(token json.Token) bool {
	key, isString := token.(string)
	switch {
	case !s.isMapping:
		s.index++
	case s.hasKey:
		s.hasKey = false
	case isString:
		s.key, s.hasKey = key, true
		return true
	}
	return false
}

// formatPath returns a path in the syntax of field errors.
func formatPath(steps []pathStep) string {
	path := ""
	for _, step := range steps {
		if step.isMapping {
			path = fieldpath.Child(path, step.key)
		} else {
			path = fieldpath.Item(path, step.index)
		}
	}
	return path
}
