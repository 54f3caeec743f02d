package injection

import (
	"math"
	"testing"

	"rollcall.training/gang"
)

func TestMultiplyLimit(t *testing.T) {
	elastic := &gang.ElasticBounds{Min: 1, Max: 8}
	for name, c := range map[string]struct {
		role    string
		elastic *gang.ElasticBounds
		limit   int32
		want    int32
	}{
		"each worker of a fixed size counts":          {role: "worker", limit: 5, want: 20},
		"each worker that can be added counts":        {role: "worker", elastic: elastic, limit: 5, want: 40},
		"the launcher of elastic workers counts once": {role: "launcher", elastic: elastic, limit: 5, want: 5},
		"the product stays below the largest int32": {
			role: "worker", limit: math.MaxInt32 / 2, want: math.MaxInt32 - 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := gang.Gang{
				Framework: gang.Framework{ElasticRole: "worker"}, Role: c.role, Elastic: c.elastic,
				Members: []gang.Member{{Role: "launcher", Size: 1}, {Role: "worker", Size: 4}},
			}
			if got := multiplyLimit(c.limit, g); got != c.want {
				t.Errorf("multiplyLimit(%d, ...) = %d, want %d", c.limit, got, c.want)
			}
		})
	}
}
