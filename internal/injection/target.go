package injection

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// Kinds of the values in a [Record]. The names of their values are in parentheses.
const (
	KindEnv                      = "env"                      // of a container (variable)
	kindMount                    = "mount"                    // of a container (path)
	KindResource                 = "resource"                 // of a container (resource)
	kindInherited                = "inherited"                // of an init container of the plan (field)
	kindCommand                  = "command"                  // of a container
	KindRestartRules             = "restartRules"             // of a container
	kindTerminationMessagePolicy = "terminationMessagePolicy" // of a container
	KindProbe                    = "probe"                    // of a container (liveness or readiness)
	kindInitContainer            = "initContainer"            // of the pod (container)
	KindVolume                   = "volume"                   // of the pod (volume)
	kindSizeLimit                = "sizeLimit"                // of the pod (volume)
	kindLabel                    = "label"                    // of the pod (label)
	kindAnnotation               = "annotation"               // of the pod (annotation)
	kindPodField                 = "podField"                 // of the pod (path below template.spec)
	kindDNSSearch                = "dnsSearch"                // of the pod (domain)
	kindToleration               = "toleration"               // of the pod (key and effect of the taint)
	KindField                    = "field"                    // of the workload (path below spec)
)

// target is a kind of values of a pod template that Rollcall can own. A new kind is a row of targets.
type target struct {
	ofContainer bool
	// get returns the value; nil if the template does not have it.
	get func(p *podTemplate, k key) any
	// getFormer returns the value whose digest earlier builds recorded; nil if it is that of get.
	getFormer func(p *podTemplate, k key) any
	// remove removes the value if the template has it.
	remove func(p *podTemplate, k key)
}

// targets are all kinds. The functions that set the values are those that decide about them.
var targets = map[string]target{
	KindEnv:                      newContainerTarget((*container).readEnv, (*container).removeEnv),
	kindMount:                    newContainerTarget((*container).readMount, (*container).removeMount),
	KindResource:                 newContainerTarget((*container).readResource, (*container).removeResource),
	kindInherited:                newContainerTarget((*container).readInherited, (*container).keepInherited),
	kindCommand:                  newContainerTarget((*container).readCommand, (*container).removeCommand),
	KindRestartRules:             newContainerTarget((*container).readRestartRules, (*container).removeRestartRules),
	kindTerminationMessagePolicy: newContainerTarget((*container).readMessagePolicy, (*container).removeMessagePolicy),
	KindProbe:                    newContainerTarget((*container).readProbe, (*container).removeProbe),
	kindInitContainer: {
		get: (*podTemplate).readInitContainer, getFormer: (*podTemplate).readFormerInitContainer,
		remove: (*podTemplate).removeInitContainer,
	},
	KindVolume:     {get: (*podTemplate).readVolume, remove: (*podTemplate).removeVolume},
	kindSizeLimit:  {get: (*podTemplate).readSizeLimit, remove: (*podTemplate).removeSizeLimit},
	kindLabel:      newMapTarget(func(p *podTemplate) map[string]string { return p.template.Labels }),
	kindAnnotation: newMapTarget(func(p *podTemplate) map[string]string { return p.template.Annotations }),
	kindPodField:   {get: (*podTemplate).readPodField, remove: (*podTemplate).removePodField},
	kindDNSSearch:  {get: (*podTemplate).readDNSSearch, remove: (*podTemplate).removeDNSSearch},
	kindToleration: {get: (*podTemplate).readToleration, remove: (*podTemplate).removeToleration},
}

// newContainerTarget returns a kind of values of containers. A container that does not exist has no values.
func newContainerTarget(get func(c *container, name string) any, remove func(c *container, name string)) target {
	return target{
		ofContainer: true,
		get: func(p *podTemplate, k key) any {
			if c := p.containersByName[k.container]; c != nil {
				return get(c, k.name)
			}
			return nil
		},
		remove: func(p *podTemplate, k key) {
			if c := p.containersByName[k.container]; c != nil {
				remove(c, k.name)
			}
		},
	}
}

// newMapTarget returns a kind of values in a map.
func newMapTarget(values func(p *podTemplate) map[string]string) target {
	return target{
		get: func(p *podTemplate, k key) any {
			if value, ok := values(p)[k.name]; ok {
				return value
			}
			return nil
		},
		remove: func(p *podTemplate, k key) { delete(values(p), k.name) },
	}
}

// key identifies a value. The container is empty for values of the pod and of the workload. The name is empty
// if a container has only one value of the kind.
type key struct{ kind, container, name string }

// String returns the key in a [Record], such as env/trainer/RANK, command/trainer or label/app.
func (k key) String() string {
	switch {
	case k.container == "":
		return k.kind + "/" + k.name
	case k.name == "":
		return k.kind + "/" + k.container
	}
	return k.kind + "/" + k.container + "/" + k.name
}

// parseKey returns the key of a text; false if it is not the key of a target.
func parseKey(text string) (key, bool) {
	k := key{}
	k.kind, k.name, _ = strings.Cut(text, "/")
	t, ok := targets[k.kind]
	if t.ofContainer {
		k.container, k.name, _ = strings.Cut(k.name, "/")
	}
	return k, ok
}

// digester computes digests of the values of a pod template. It encodes all values in one buffer.
type digester struct {
	pod     *podTemplate
	text    bytes.Buffer
	encoder *json.Encoder // writes to text
}

func newDigester(p *podTemplate) *digester {
	d := &digester{pod: p}
	d.encoder = json.NewEncoder(&d.text)
	return d
}

// digest returns a digest of the current value; empty if the template does not have it.
func (d *digester) digest(k key) string { return d.digestValue(targets[k.kind].get(d.pod, k)) }

// matches reports whether the current value has a digest that this build or an earlier build recorded.
func (d *digester) matches(k key, recorded string) bool {
	if d.digest(k) == recorded {
		return true
	}
	getFormer := targets[k.kind].getFormer
	return getFormer != nil && recorded != "" && d.digestValue(getFormer(d.pod, k)) == recorded
}

// digestValue returns the first 32 bits of a hash. A digest detects edits by accident, not attacks: whoever can
// edit the record can also edit the workload.
func (d *digester) digestValue(value any) string {
	if value == nil {
		return ""
	}
	d.text.Reset()
	if err := d.encoder.Encode(value); err != nil {
		return "" // the value is not from Rollcall, whose values can all be encoded
	}
	sum := sha256.Sum256(bytes.TrimSuffix(d.text.Bytes(), []byte("\n"))) // the encoder adds the newline
	return hex.EncodeToString(sum[:4])
}
