package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPorts(t *testing.T) {
	ports, err := FindFreePorts(loopback, 5)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(ports); len(slices.Compact(slices.Clone(ports))) != 5 {
		t.Errorf("the ports %v are not five different ports", ports)
	}
	later, err := FindFreePorts(loopback, 5)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(later, func(port int) bool { return slices.Contains(ports, port) }) {
		t.Errorf("the next call returned %v, which repeats a port of %v", later, ports)
	}
	listener, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	taken := listener.Addr().(*net.TCPAddr).Port
	if err := checkPortFree(loopback, taken, "the purpose"); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprint(taken)) ||
		!strings.Contains(err.Error(), "the purpose") {
		t.Errorf("a port in use returned %v, want an error with the port and its purpose", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := checkPortFree(loopback, taken, "the purpose"); err != nil {
		t.Errorf("a free port was rejected: %v", err)
	}
}

func TestNextPort(t *testing.T) {
	for _, test := range []struct {
		reason, text string
		want         int // 0 means any port of the range
	}{
		{reason: "the recorded port is next", text: "20017", want: 20017},
		{reason: "a line break is ignored", text: "20017\n", want: 20017},
		{reason: "a port below the range is not used", text: "80"},
		{reason: "a port above the range is not used", text: "30000"},
		{reason: "an empty file is ignored", text: ""},
	} {
		file := filepath.Join(t.TempDir(), "next-port")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := readNextPort(file)
		if got < portRangeStart || got >= portRangeEnd || test.want > 0 && got != test.want {
			t.Errorf("%s: the next port is %d, want %d", test.reason, got, test.want)
		}
	}
}
