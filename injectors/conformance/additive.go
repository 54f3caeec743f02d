package conformance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// defaultedFields are the fields that an injection may change although they have a value. The API server
// sets their defaults before admission, so a default cannot be distinguished from a value of the user.
var defaultedFields = []string{
	"/spec/completionMode",
	"/spec/podManagementPolicy",
	"/spec/template/spec/enableServiceLinks",
}

// CheckAdditive returns an error if after does not contain all values of before. Both are trees of decoded
// JSON. A list may have additional elements, but the order of the existing elements must not change.
func CheckAdditive(before, after any) error { return checkAdditive("", before, after) }

func checkAdditive(path string, before, after any) error {
	isDefault := strings.HasSuffix(path, "/terminationMessagePolicy") && before == "File"
	if isDefault || slices.Contains(defaultedFields, path) {
		return nil
	}
	switch oldValue := before.(type) {
	case map[string]any:
		newValue, ok := after.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: an object changed to %v", path, after)
		}
		return checkAdditiveObject(path, oldValue, newValue)
	case []any:
		newValue, ok := after.([]any)
		if !ok && len(oldValue) > 0 {
			return fmt.Errorf("%s: a list changed to %v", path, after)
		}
		return checkAdditiveList(path, oldValue, newValue)
	default:
		// The Go types encode a missing name as an empty string.
		if before != "" && !reflect.DeepEqual(before, after) {
			return fmt.Errorf("%s: %v changed to %v", path, before, after)
		}
		return nil
	}
}

// checkAdditiveObject compares the fields of two objects.
func checkAdditiveObject(path string, before, after map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		value, ok := after[key]
		if !ok && before[key] != nil {
			return fmt.Errorf("%s/%s: removed", path, key)
		}
		if err := checkAdditive(path+"/"+key, before[key], value); err != nil {
			return err
		}
	}
	return nil
}

// checkAdditiveList searches for each element of before in after, in order.
func checkAdditiveList(path string, before, after []any) error {
	next := 0
	for i, element := range before {
		elementPath := fmt.Sprintf("%s/%d", path, i)
		var lastErr error
		found := false
		for ; next < len(after) && !found; next++ {
			if !haveSameName(element, after[next]) {
				continue
			}
			lastErr = checkAdditive(elementPath, element, after[next])
			found = lastErr == nil
		}
		if !found && lastErr != nil {
			return lastErr
		}
		if !found {
			return fmt.Errorf("%s: removed or reordered", elementPath)
		}
	}
	return nil
}

// haveSameName reports whether two list elements can be the same element. Objects with different names
// cannot.
func haveSameName(a, b any) bool {
	aObject, aOK := a.(map[string]any)
	bObject, bOK := b.(map[string]any)
	return !aOK || !bOK || reflect.DeepEqual(aObject["name"], bObject["name"])
}
