package hostfile_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rollcall.training/injectors/hostfile"
)

func TestFormatOrder(t *testing.T) {
	host := func(workload string, index int32, location ...string) hostfile.Host {
		return hostfile.Host{Workload: workload, Index: index, Location: location}
	}
	for name, test := range map[string]struct {
		hosts      []hostfile.Host
		keepsFirst bool
		want       string
	}{
		"hosts of a rack are neighbors, in the order of their nodes": {
			hosts: []hostfile.Host{
				host("w", 0, "r1", "n3"), host("w", 1, "r0", "n1"), host("w", 2, "r1", "n2"), host("w", 3, "r0", "n1"),
			},
			want: "w 1 1\nw 3 3\nw 2 2\nw 0 0",
		},
		"racks of the same name in different blocks are not neighbors": {
			hosts: []hostfile.Host{
				host("w", 0, "b1", "r0", "n2"), host("w", 1, "b0", "r0", "n1"), host("w", 2, "b1", "r0", "n3"),
			},
			want: "w 1 1\nw 0 0\nw 2 2",
		},
		"consecutive indexes share a line": {
			hosts: []hostfile.Host{host("w", 2, "r0", "n2"), host("w", 0, "r0", "n1"), host("w", 1, "r0", "n1")},
			want:  "w 0 2",
		},
		"a launcher that is a host is the first, and its rack follows": {
			hosts: []hostfile.Host{
				host("l", 0, "r1", "n3"), host("w", 0, "r0", "n1"), host("w", 1, "r1", "n2"), host("w", 2, "r1", "n3"),
			},
			keepsFirst: true, want: "l 0 0\nw 2 2\nw 1 1\nw 0 0",
		},
		"nodes without labels are one part of the network": {
			hosts: []hostfile.Host{host("w", 0, "", "n2"), host("w", 1, "r0", "n1"), host("w", 2, "", "n0")},
			want:  "w 2 2\nw 0 1",
		},
		"no hosts": {keepsFirst: true},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, hostfile.FormatOrder(test.hosts, test.keepsFirst)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestFormatOrderOfRacks counts the edges of the ring of 64 hosts that cross 4 racks, for random placements.
func TestFormatOrderOfRacks(t *testing.T) {
	const size, racks, trials = 64, 4, 1000
	random := rand.New(rand.NewPCG(1, 2))
	sum := 0
	for range trials {
		hosts := make([]hostfile.Host, size)
		for i, node := range random.Perm(size) {
			hosts[i] = hostfile.Host{
				Workload: "w", Index: int32(i), Location: []string{fmt.Sprint(node % racks), fmt.Sprint(node)},
			}
		}
		var byIndex, byNetwork []string
		for _, h := range hosts {
			byIndex = append(byIndex, h.Location[0])
		}
		for line := range strings.SplitSeq(hostfile.FormatOrder(hosts, false), "\n") {
			var first, last int
			if _, err := fmt.Sscanf(line, "w %d %d", &first, &last); err != nil {
				t.Fatal(err)
			}
			byNetwork = append(byNetwork, byIndex[first:last+1]...)
		}
		sum += countCrossingEdges(byIndex)
		if got := countCrossingEdges(byNetwork); got != racks || len(byNetwork) != size {
			t.Fatalf("%d edges of %d hosts cross racks", got, len(byNetwork))
		}
	}
	t.Logf("%.1f edges cross racks in the order of the indexes, %d in the order of the network",
		float64(sum)/trials, racks)
}

// countCrossingEdges returns how many neighbors in a ring are in different racks.
func countCrossingEdges(racks []string) int {
	n := 0
	for i, rack := range racks {
		if rack != racks[(i+1)%len(racks)] {
			n++
		}
	}
	return n
}
