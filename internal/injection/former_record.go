package injection

import (
	"encoding/json"
	"fmt"
)

// formerKinds are the kinds of values by the name of their map in the former form of a record, which had a map
// for each kind. This build reads the form, and the next release can delete this file.
var formerKinds = map[string]string{
	"env":                        KindEnv,
	"mounts":                     kindMount,
	"resources":                  KindResource,
	"inherited":                  kindInherited,
	"initContainers":             kindInitContainer,
	"commands":                   kindCommand,
	"restartRules":               KindRestartRules,
	"terminationMessagePolicies": kindTerminationMessagePolicy,
	"volumes":                    KindVolume,
	"sizeLimits":                 kindSizeLimit,
	"labels":                     kindLabel,
	"dnsSearches":                kindDNSSearch,
	"fields":                     KindField,
}

// decodeFormerValues returns the values of a record with a map for each kind, by name, or by container and
// name.
func decodeFormerValues(data []byte) (map[string]string, error) {
	var former map[string]json.RawMessage
	if err := json.Unmarshal(data, &former); err != nil {
		return nil, err
	}
	values := map[string]string{}
	for field, kind := range formerKinds {
		var byName map[string]any
		if former[field] == nil {
			continue
		}
		if err := json.Unmarshal(former[field], &byName); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", field, err)
		}
		for name, value := range byName {
			switch value := value.(type) {
			case string:
				values[kind+"/"+name] = value
			case map[string]any:
				for inner, digest := range value {
					values[kind+"/"+name+"/"+inner], _ = digest.(string)
				}
			default:
				return nil, fmt.Errorf("decoding %s: %s is neither a text nor an object", field, name)
			}
		}
	}
	return values, nil
}
