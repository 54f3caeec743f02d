package vet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func ofRanks() []Check {
	return []Check{
		{
			Code: CodeLoopbackRendezvous, Severity: Warning, gang: loopbackRendezvous,
			Title: "The ranks are told to meet at localhost",
			Why:   "Each pod has a localhost of its own, so each rank waits there for the others until it gives up. What a variable of the container says, a flag or an `export` in its command overrides.",
			Fix:   "Remove it: Rollcall sets the address of rank 0.",
		},
		{
			Code: CodeSameRank, Severity: Warning, gang: sameRank,
			Title: "A rank is written as a number",
			Why:   "All pods of a workload are made of one template, so all of them get the same number, and two ranks that claim to be one keep the others waiting.",
			Fix:   "Remove it: Rollcall gives each pod its own rank, also as `$(ROLLCALL_RANK)` for a variable of another name.",
		},
	}
}

// meetings are variables and flags that name the host of rank 0.
var meetings = []string{"MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "RDZV_ENDPOINT", "JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS",
	"PADDLE_MASTER", "DMLC_TRACKER_URI", "DMLC_PS_ROOT_URI", "MAIN_PROCESS_IP"}

// isLoopback reports whether a host, with or without a port, is the pod itself.
func isLoopback(text string) bool {
	if strings.HasPrefix(text, "[") {
		text, _, _ = strings.Cut(text[1:], "]")
	} else if strings.Count(text, ":") == 1 {
		text, _, _ = strings.Cut(text, ":")
	}
	addr, err := netip.ParseAddr(text)
	return text == "localhost" || err == nil && addr.IsLoopback()
}

func loopbackRendezvous(_ *input, m *member) []remark {
	if !m.several() {
		return nil
	}
	var out []remark
	found := func(field, what, host string) {
		out = append(out, say(field, "%s is %s, which in each pod is the pod itself", what, host).do("remove it: Rollcall sets the address of rank 0")...)
	}
	for _, c := range m.trainers() {
		if m.denial == nil { // which names them
			for i, e := range c.Env {
				if v, ok := value(e); ok && slices.Contains(meetings, e.Name) && isLoopback(v) {
					found(fmt.Sprintf("%s.env[%d].value", c.path, i), e.Name, v)
				}
			}
		}
		command := c.command()
		for _, a := range command.assigned {
			if slices.Contains(meetings, a.name) && isLoopback(a.value) {
				found(c.path+".command", a.name, a.value)
			}
		}
		for _, p := range command.programs {
			flags, _, _ := p.torchrun()
			for _, name := range []string{"master-addr", "rdzv-endpoint"} {
				if v := flags[name]; v.known && isLoopback(v.text) {
					found(c.path+".command", "--"+name, v.text)
				}
			}
		}
	}
	return out
}

// rankNames are variables by which programs learn their rank, or that of their node.
var rankNames = []string{"RANK", "NODE_RANK", "GROUP_RANK", "MACHINE_RANK", "WORLD_RANK", "PET_NODE_RANK", "JAX_PROCESS_ID", "PROCESS_ID",
	"SLURM_PROCID", "SLURM_NODEID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "DMLC_TASK_ID", "PADDLE_TRAINER_ID"}

func sameRank(_ *input, m *member) []remark {
	own, _ := m.pods()
	if own < 2 {
		return nil
	}
	var out []remark
	found := func(field, name, rank string) {
		out = append(out, say(field, "%s is %s in each of %d pods", name, rank, own).do("remove it, or write $(ROLLCALL_RANK)")...)
	}
	isRank := func(name, value string) bool {
		_, err := strconv.Atoi(value)
		return err == nil && slices.Contains(rankNames, name)
	}
	for _, c := range m.trainers() {
		if m.denial == nil { // which names them
			for i, e := range c.Env {
				if v, ok := value(e); ok && isRank(e.Name, v) {
					found(fmt.Sprintf("%s.env[%d].value", c.path, i), e.Name, v)
				}
			}
		}
		for _, a := range c.command().assigned {
			if isRank(a.name, a.value) {
				found(c.path+".command", a.name, a.value)
			}
		}
	}
	return out
}
