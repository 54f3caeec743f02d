package cluster

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRealNodeAddresses(t *testing.T) {
	all := netip.MustParsePrefix(podCIDR)
	var earlier []netip.Prefix
	for number := 1; number <= maxRealNodes; number++ {
		n := realNode{clusterDir: "/cluster", number: number}
		pods := netip.MustParsePrefix(n.podRange())
		ip, first := netip.MustParseAddr(n.ip()), netip.MustParseAddr(n.firstPodIP())
		if !all.Overlaps(pods) || !pods.Contains(ip) || !pods.Contains(first) || ip.Compare(first) >= 0 {
			t.Errorf("node %d has the range %s, the address %s and the first pod %s", number, pods, ip, first)
		}
		for _, other := range earlier {
			if other.Overlaps(pods) {
				t.Errorf("the ranges %s and %s overlap", other, pods)
			}
		}
		earlier = append(earlier, pods)
		if len(n.link()) > 15 {
			t.Errorf("the name %s is too long for a link", n.link())
		}
	}
	machine := realNode{clusterDir: "/cluster", number: 1}
	got := []string{
		machine.name(), machine.dir(), machine.ip(), machine.mac(), machine.podsCgroup(), machine.networkFile(),
		machine.imageStore("/store"), machine.component("kubelet"),
	}
	want := []string{nodeName, "/cluster", bridgeIP, "02:00:c6:12:00:01", podsCgroup, "", "/store", "kubelet"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the first node is not this machine (-want +got):\n%s", diff)
	}
}

func TestListRealNodes(t *testing.T) {
	dir := t.TempDir()
	for _, other := range []string{"network-2", "none", "n2x"} {
		if err := os.Mkdir(filepath.Join(dir, other), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var added []realNode
	for range maxRealNodes - 1 {
		n, err := createRealNodeDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		added = append(added, n)
	}
	if _, err := createRealNodeDir(dir); err == nil {
		t.Errorf("a node was added to %d nodes", maxRealNodes)
	}
	want := append([]realNode{{clusterDir: dir, number: 1}}, added...)
	if diff := cmp.Diff(want, listRealNodes(dir), cmp.AllowUnexported(realNode{})); diff != "" {
		t.Errorf("the listed nodes differ from the added nodes (-want +got):\n%s", diff)
	}
	// The number of a removed node is free.
	if err := os.Remove(added[1].dir()); err != nil {
		t.Fatal(err)
	}
	if n, err := createRealNodeDir(dir); err != nil || n != added[1] {
		t.Errorf("the node after the removal of %s is %s (%v)", added[1].name(), n.name(), err)
	}
}

func TestRecordProcess(t *testing.T) {
	gone := processID{PID: 1 << 30, Start: 1}
	s := &clusterState{}
	for _, name := range []string{"etcd", "kubelet"} {
		s.recordProcess(processRecord{processID: gone, program: program{Name: name}})
	}
	s.recordProcess(processRecord{processID: currentProcess(), program: program{Name: "etcd"}})
	if len(s.Processes) != 2 || s.Processes[0].processID != currentProcess() {
		t.Errorf("the new process has not the place of the exited process: %v", s.Processes)
	}
	if _, alive := s.findProcess("etcd"); !alive {
		t.Error("the new process is not found")
	}
	if _, alive := s.findProcess("kubelet"); alive {
		t.Error("an exited process is alive")
	}
}

func TestLinkImageStore(t *testing.T) {
	first, store := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	blob, database := "io.containerd.content.v1.content/blobs/sha256/1", "io.containerd.metadata.v1.bolt/meta.db"
	for _, file := range []string{blob, database} {
		path := filepath.Join(first, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if hasAllBlobs(store, first) {
		t.Error("an empty store has all blobs")
	}
	if err := linkImageStore(first, store); err != nil {
		t.Fatal(err)
	}
	if !hasAllBlobs(store, first) {
		t.Error("the linked store has not all blobs")
	}
	for file, isShared := range map[string]bool{blob: true, database: false} {
		infos := make([]os.FileInfo, 0, 2)
		for _, dir := range []string{first, store} {
			info, err := os.Stat(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			infos = append(infos, info)
		}
		if got := os.SameFile(infos[0], infos[1]); got != isShared || infos[0].Size() != infos[1].Size() {
			t.Errorf("%s: both stores have the same file: %t, want %t", file, got, isShared)
		}
	}
}
