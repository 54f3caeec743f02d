package typeerror

import (
	"github.com/tidwall/gjson"

	"rollcall.training/internal/fieldpath"
)

// PathAtOffset returns the path of the value at a byte offset of a JSON text: the first value that
// ends at or after the offset, or whose opening bracket does. The offset is that of a
// [json.UnmarshalTypeError], whose own path does not contain the indexes of list items. If the offset
// is beyond the text, the path is empty.
func PathAtOffset(text []byte, offset int64) string {
	return findPath(gjson.ParseBytes(text), "", int(offset))
}

// findPath returns the path of the value at an offset within a value that has the given path.
func findPath(v gjson.Result, path string, offset int) string {
	if v.Type != gjson.JSON || v.Index+1 >= offset { // the offset follows the opening bracket
		return path
	}
	item := -1
	v.ForEach(func(key, child gjson.Result) bool {
		item++
		switch {
		case child.Index+len(child.Raw) < offset:
			return true
		case v.IsArray():
			path = findPath(child, fieldpath.Item(path, item), offset)
		case key.Index+len(key.Raw) < offset: // otherwise, the offset follows the opening brace
			path = findPath(child, fieldpath.Child(path, key.String()), offset)
		}
		return false
	})
	return path
}
