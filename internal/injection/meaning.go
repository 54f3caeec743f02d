package injection

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/gang"
	"rollcall.training/plan"
)

// comparison is what values of the user are compared with.
type comparison struct {
	workload gang.Workload
	gang     gang.Gang
	plan     plan.Plan
	// budget is the number of bytes in which names are still completed and that are still decoded.
	budget int
}

// envComparer compares the variables of a container with planned variables.
type envComparer struct {
	*comparison
	// searches are the DNS search domains of the pods.
	searches []string
	// index and podIP are the index and a name of the only pod of the workload, else placeholders.
	index, podIP string
	// planned are the planned values by name.
	planned map[string]gang.EnvValue
	// user are the values of the container's variables, in order.
	user []gang.EnvValue
}

// newEnvComparer compares the variables of c with env.
func (c *comparison) newEnvComparer(env []plan.Env, user *corev1.Container) *envComparer {
	m := &envComparer{
		comparison: c, searches: c.plan.DNSSearches, index: gang.IndexPlaceholder, podIP: "<status.podIP>",
		planned: make(map[string]gang.EnvValue, len(env)),
	}
	if config := c.workload.Template().Spec.DNSConfig; config != nil {
		m.searches = slices.Concat(m.searches, config.Searches)
	}
	if own := c.gang.OwnMember(); own.Size == 1 && c.gang.Elastic == nil {
		m.index, m.podIP = "0", c.gang.PodFQDN(own, 0)
	}
	planned := corev1.Container{Env: make([]corev1.EnvVar, len(env))}
	for i := range env {
		planned.Env[i] = env[i].EnvVar
	}
	for i, value := range c.workload.ResolveEnv(&planned, nil) {
		m.planned[env[i].Name] = value
	}
	m.user = c.workload.ResolveEnv(user, m.planned)
	return m
}

// relate returns the relation of the i-th variable of the user to a planned variable that is not equal.
func (m *envComparer) relate(i int, planned *plan.Env) relation {
	user, value := m.user[i], m.planned[planned.Name]
	switch {
	case user.Known && value.Known && m.isSame(user.Text, value.Text, planned.Meaning):
		return sameMeaning
	case !user.Known:
		return unknown
	case planned.Meaning == plan.Rank && len(user.Text) > len(gang.IndexPlaceholder) &&
		strings.Contains(user.Text, gang.IndexPlaceholder):
		return podName
	}
	return different
}

func (m *envComparer) isSame(user, planned string, meaning plan.Meaning) bool {
	user, planned = m.completeNames(user), m.completeNames(planned)
	if user == planned {
		return true
	}
	switch meaning {
	case plan.Switch:
		return user != ""
	case plan.Address:
		plannedHost, plannedPort, _ := strings.Cut(planned, ":")
		host, port, _ := strings.Cut(user, ":")
		// A program that reads only one of the two forms adds or removes the port.
		return host == plannedHost && (port == "" || plannedPort == "" || port == plannedPort)
	case plan.PodCount:
		return user == planned+":"+planned
	case plan.ProcessCount:
		countsAccelerators := user == "gpu" || user == "auto"
		return countsAccelerators && planned == strconv.FormatInt(m.gang.Containers[0].Accelerators, 10)
	}
	return m.budget >= 0 && isSameJSON(user, planned)
}

// maxComparedBytes limits the text that is decoded, or in which names are completed, for one workload. It is
// twice the maximum length of a variable on Linux (MAX_ARG_STRLEN).
const maxComparedBytes = 2 * 32 * 4096

// hostPattern matches the hosts in a text, and words that could be hosts.
var hostPattern = regexp.MustCompile(`[A-Za-z0-9{}-]+(\.[A-Za-z0-9{}-]+)*\.?`)

// completeNames replaces the names of pods in a text by their complete names, and the placeholder of
// the index by the index if the workload has only one pod.
func (m *envComparer) completeNames(text string) string {
	if m.budget -= len(text); m.budget < 0 {
		return text
	}
	text = strings.ReplaceAll(text, gang.IndexPlaceholder, m.index)
	text = strings.ReplaceAll(text, "<status.podIP>", m.podIP)
	return hostPattern.ReplaceAllStringFunc(text, func(host string) string {
		return m.gang.CompleteHost(host, m.searches)
	})
}

// isSameJSON reports whether two texts are the same JSON objects, except for the key environment of
// TF_CONFIG, which only the removed tf.estimator reads. An index can be a number or a string.
func isSameJSON(a, b string) bool {
	if !strings.HasPrefix(a, "{") || !strings.HasPrefix(b, "{") {
		return false
	}
	decode := func(text string) (object map[string]any, err error) {
		quoted := `"` + gang.IndexPlaceholder + `"`
		text = strings.ReplaceAll(strings.ReplaceAll(text, quoted, gang.IndexPlaceholder), gang.IndexPlaceholder, quoted)
		err = json.Unmarshal([]byte(text), &object)
		delete(object, "environment")
		return object, err
	}
	objectA, errA := decode(a)
	objectB, errB := decode(b)
	return errA == nil && errB == nil && reflect.DeepEqual(objectA, objectB)
}
