package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Duration is a duration in the syntax of Go, such as 72h or 90m. It is positive and at most ten years.
type Duration struct {
	value time.Duration
	err   error // why the text is not a duration; validation reports it with the path of the field
}

// UnmarshalJSON implements [json.Unmarshaler]. It accepts any text, because an error of the decoder
// would not have the path of the field.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var value string
	if err := json.Unmarshal(text, &value); err != nil {
		value = string(text)
	}
	d.value, d.err = parseDuration(value)
	return nil
}

func parseDuration(text string) (time.Duration, error) {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("must be a duration with the units h, m and s, such as 90m or 72h")
	}
	if parsed <= 0 || parsed > maxDuration {
		return 0, fmt.Errorf("must be above 0 and at most %s", formatDuration(maxDuration))
	}
	return parsed, nil
}

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// String returns the duration without units that are zero.
func (d Duration) String() string { return formatDuration(d.value) }

func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
