package fieldpath

import (
	"encoding/json"
	"fmt"

	rfc6902 "github.com/evanphx/json-patch/v5"
	"gomodules.xyz/jsonpatch/v2"
)

// ApplyPatch returns the JSON of an object after the operations of a JSON patch.
func ApplyPatch(object []byte, operations []jsonpatch.Operation) ([]byte, error) {
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	patch, err := rfc6902.DecodePatch(text)
	if err != nil {
		return nil, fmt.Errorf("decoding the patch: %w", err)
	}
	patched, err := patch.Apply(object)
	if err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	return patched, nil
}
