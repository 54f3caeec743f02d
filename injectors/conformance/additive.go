package conformance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// shaped are the fields that an admission may change although they hold a value:
// the API server fills them with a default before admission, so that a default
// cannot be told from a wish.
var shaped = []string{
	"/spec/completionMode",
	"/spec/podManagementPolicy",
	"/spec/template/spec/enableServiceLinks",
}

// Additive returns an error when after lacks, or holds otherwise, anything that
// before holds. Both are trees of decoded JSON. Elements of lists may gain
// neighbours but keep their order.
func Additive(before, after any) error { return additive("", before, after) }

func additive(path string, before, after any) error {
	if slices.Contains(shaped, path) || strings.HasSuffix(path, "/terminationMessagePolicy") && before == "File" {
		return nil
	}
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: an object became %v", path, after)
		}
		for _, k := range slices.Sorted(maps.Keys(b)) {
			v, ok := a[k]
			if !ok && b[k] != nil {
				return fmt.Errorf("%s/%s: lost", path, k)
			}
			if err := additive(path+"/"+k, b[k], v); err != nil {
				return err
			}
		}
		return nil
	case []any:
		a, ok := after.([]any)
		if !ok && len(b) > 0 {
			return fmt.Errorf("%s: a list became %v", path, after)
		}
		return additiveList(path, b, a)
	default:
		if before == "" {
			return nil // our types write an absent name so
		}
		if !reflect.DeepEqual(before, after) {
			return fmt.Errorf("%s: %v became %v", path, before, after)
		}
		return nil
	}
}

// additiveList finds each element of before in after, in order.
func additiveList(path string, before, after []any) error {
	next := 0
	for i, b := range before {
		at := fmt.Sprintf("%s/%d", path, i)
		var last error
		found := false
		for ; next < len(after) && !found; next++ {
			if !sameName(b, after[next]) {
				continue
			}
			last = additive(at, b, after[next])
			found = last == nil
		}
		if !found && last != nil {
			return last
		}
		if !found {
			return fmt.Errorf("%s: lost, or out of order", at)
		}
	}
	return nil
}

// sameName reports whether two elements can be the same one.
func sameName(a, b any) bool {
	am, aok := a.(map[string]any)
	bm, bok := b.(map[string]any)
	return !aok || !bok || reflect.DeepEqual(am["name"], bm["name"])
}
