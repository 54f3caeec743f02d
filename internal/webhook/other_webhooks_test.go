package webhook_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"rollcall.training/gang"
	"rollcall.training/internal/testing/golden"
	"rollcall.training/internal/webhook"
)

// mutation is what another mutating webhook or policy does to pod templates. It must be idempotent.
type mutation func(template *corev1.PodTemplateSpec)

// forEachContainer returns a mutation of all containers and init containers.
func forEachContainer(mutate func(c *corev1.Container)) mutation {
	return func(template *corev1.PodTemplateSpec) {
		for _, list := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
			for i := range list {
				mutate(&list[i])
			}
		}
	}
}

// insertsFirstContainer is the name of the mutation that changes which container is the first.
const insertsFirstContainer = "inserts a sidecar as the first container"

// otherWebhooks are what webhooks and policies of public libraries do.
func otherWebhooks() map[string]mutation {
	setDefault := func(list *corev1.ResourceList, name corev1.ResourceName, amount string) {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		if _, exists := (*list)[name]; !exists {
			(*list)[name] = resource.MustParse(amount)
		}
	}
	insertContainer := func(list []corev1.Container, at int, c corev1.Container) []corev1.Container {
		if slices.ContainsFunc(list, func(existing corev1.Container) bool { return existing.Name == c.Name }) {
			return list
		}
		return slices.Insert(list, min(at, len(list)), c)
	}
	setSizeLimit := func(limit string, overrides bool) mutation {
		return func(template *corev1.PodTemplateSpec) {
			for i := range template.Spec.Volumes {
				dir := template.Spec.Volumes[i].EmptyDir
				if dir != nil && (overrides || dir.SizeLimit == nil) {
					dir.SizeLimit = ptr.To(resource.MustParse(limit))
				}
			}
		}
	}
	proxy := corev1.Container{Name: "mesh-proxy", Image: "example.com/proxy:1"}
	mountCertificates := forEachContainer(func(c *corev1.Container) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "company-ca" }) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "company-ca", MountPath: "/etc/ssl/certs"})
		}
	})
	return map[string]mutation{
		"mounts certificates into each container": func(template *corev1.PodTemplateSpec) {
			volumes := &template.Spec.Volumes
			if !slices.ContainsFunc(*volumes, func(v corev1.Volume) bool { return v.Name == "company-ca" }) {
				*volumes = slices.Insert(*volumes, 0, corev1.Volume{Name: "company-ca"})
			}
			mountCertificates(template)
		},
		"sets resources of each container": forEachContainer(func(c *corev1.Container) {
			for name, amount := range map[corev1.ResourceName]string{"cpu": "2", "memory": "4Gi", "ephemeral-storage": "1Gi"} {
				setDefault(&c.Resources.Limits, name, amount)
				setDefault(&c.Resources.Requests, name, amount)
			}
		}),
		"sets ephemeral-storage of each container": forEachContainer(func(c *corev1.Container) {
			setDefault(&c.Resources.Limits, corev1.ResourceEphemeralStorage, "1Gi")
		}),
		"sets size limits that are absent": setSizeLimit("1Gi", false),
		"overrides size limits":            setSizeLimit("2Gi", true),
		"sets the security context of each container": forEachContainer(func(c *corev1.Container) {
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.AllowPrivilegeEscalation = ptr.To(false)
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
		}),
		"appends a sidecar": func(template *corev1.PodTemplateSpec) {
			template.Spec.Containers = insertContainer(template.Spec.Containers, 1<<10, proxy)
		},
		insertsFirstContainer: func(template *corev1.PodTemplateSpec) {
			template.Spec.Containers = insertContainer(template.Spec.Containers, 0, proxy)
		},
		"inserts a native sidecar as the first init container": func(template *corev1.PodTemplateSpec) {
			c := *proxy.DeepCopy()
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			template.Spec.InitContainers = insertContainer(template.Spec.InitContainers, 0, c)
		},
		"adds a pull secret": func(template *corev1.PodTemplateSpec) {
			template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mirror"}}
		},
		"pulls images from a mirror": forEachContainer(func(c *corev1.Container) {
			if !strings.HasPrefix(c.Image, "mirror.example.com/") {
				c.Image = "mirror.example.com/" + c.Image
			}
		}),
		"pins images to digests": forEachContainer(func(c *corev1.Container) {
			if !strings.Contains(c.Image, "@") {
				c.Image += "@sha256:" + strings.Repeat("0", 64)
			}
		}),
		"always pulls images": forEachContainer(func(c *corev1.Container) { c.ImagePullPolicy = corev1.PullAlways }),
		"prepends a variable": forEachContainer(func(c *corev1.Container) {
			if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "HTTP_PROXY" }) {
				c.Env = slices.Insert(c.Env, 0, corev1.EnvVar{Name: "HTTP_PROXY", Value: "http://proxy:3128"})
			}
		}),
		"labels the pods": func(template *corev1.PodTemplateSpec) {
			if template.Labels == nil {
				template.Labels = map[string]string{}
			}
			template.Labels["example.com/team"] = "research"
		},
	}
}

// admissionChain passes requests through mutating webhooks, as the API server does.
type admissionChain struct {
	t        *testing.T
	kind     gang.Kind
	webhooks []func(old, raw []byte) []byte
}

// newAdmissionChain returns a chain of another webhook and Rollcall.
func newAdmissionChain(t *testing.T, kind gang.Kind, other mutation, rollcallFirst bool) admissionChain {
	chain := admissionChain{t: t, kind: kind}
	rollcall := func(old, raw []byte) []byte {
		r := webhook.NewMutator(newEngine(), nil).Handle(t.Context(), newRequest(operationOf(old), kind, old, raw))
		if !r.Allowed {
			t.Fatalf("denied: %s", r.Result.Message)
		}
		return applyPatch(t, raw, r)
	}
	mutate := func(_, raw []byte) []byte {
		w := chain.decode(raw)
		other(w.Template())
		return marshalJSON(t, w.Object())
	}
	chain.webhooks = []func(old, raw []byte) []byte{mutate, rollcall}
	if rollcallFirst {
		slices.Reverse(chain.webhooks)
	}
	return chain
}

func operationOf(old []byte) admissionv1.Operation {
	if old == nil {
		return admissionv1.Create
	}
	return admissionv1.Update
}

func (c admissionChain) decode(raw []byte) gang.Workload {
	c.t.Helper()
	return decodeWorkload(c.t, c.kind, raw)
}

// admit returns the admitted object. It calls all webhooks twice, because the API server reinvokes them
// once. A third call must not change the object, and the validating webhook must allow it.
func (c admissionChain) admit(old, raw []byte) []byte {
	c.t.Helper()
	for range 2 {
		for _, call := range c.webhooks {
			raw = call(old, raw)
		}
	}
	for _, call := range c.webhooks {
		again := call(old, raw)
		if diff := cmp.Diff(c.decode(raw).Object(), c.decode(again).Object()); diff != "" {
			c.t.Fatalf("a third call changed the object (-before +after):\n%s", diff)
		}
	}
	r := webhook.NewValidator(newEngine(), nil).
		Handle(c.t.Context(), newRequest(operationOf(old), c.kind, old, raw))
	if !r.Allowed {
		c.t.Fatalf("the validating webhook denied the object: %s", r.Result.Message)
	}
	return raw
}

// runWithOtherWebhooks runs a test with each mutation of otherWebhooks and with all of them, before and
// after Rollcall.
func runWithOtherWebhooks(t *testing.T, kind gang.Kind, test func(t *testing.T, chain admissionChain)) {
	others := otherWebhooks()
	names := slices.Sorted(maps.Keys(others))
	others["does all of it"] = func(template *corev1.PodTemplateSpec) {
		for _, name := range names {
			others[name](template)
		}
	}
	for name, other := range others {
		for order, rollcallFirst := range map[string]bool{"before Rollcall": false, "after Rollcall": true} {
			if name == insertsFirstContainer && !rollcallFirst {
				continue // Rollcall cannot know which container was the first
			}
			t.Run(name+" "+order, func(t *testing.T) {
				test(t, newAdmissionChain(t, kind, other, rollcallFirst))
			})
		}
	}
}

// TestOtherWebhooks admits golden manifests together with another webhook. The result must be
// admitted, be stable, and have all variables, volumes and init containers of an injection without the
// other webhook.
func TestOtherWebhooks(t *testing.T) {
	for name, kind := range map[string]gang.Kind{
		"conformance/testdata/admitted/init-and-sidecar":    gang.Job,
		"conformance/testdata/admitted/shm-of-memory-limit": gang.Job,
		"generic/testdata/hostfile":                         gang.Job,
		"mpi/testdata/launcher":                             gang.Job,
		"mpi/testdata/worker-statefulset":                   gang.StatefulSet,
	} {
		t.Run(name, func(t *testing.T) {
			raw := readGoldenCase(t, name)
			alone := webhook.NewMutator(newEngine(), nil).Handle(t.Context(), newRequest(admissionv1.Create, kind, nil, raw))
			want := decodeWorkload(t, kind, applyPatch(t, raw, alone)).Template()
			runWithOtherWebhooks(t, kind, func(t *testing.T, chain admissionChain) {
				checkInjected(t, want, chain.decode(chain.admit(nil, raw)).Template())
			})
		})
	}
}

// checkInjected requires that got has the named objects of want.
func checkInjected(t *testing.T, want, got *corev1.PodTemplateSpec) {
	t.Helper()
	wantNames, gotNames := listNames(want), listNames(got)
	for _, name := range wantNames {
		if !slices.Contains(gotNames, name) {
			t.Errorf("the template does not have the %s", name)
		}
	}
	for _, c := range got.Spec.Containers {
		if c.Name == "mesh-proxy" && len(c.Env) > 1 {
			t.Errorf("the sidecar has the variables of a rank: %+v", c.Env)
		}
	}
}

// TestOtherWebhooksOnUpdates updates a StatefulSet that another webhook changes as well. An update of a
// label must not change the template, and a new image must reach the injected init container.
func TestOtherWebhooksOnUpdates(t *testing.T) {
	raw := readGoldenCase(t, "mpi/testdata/worker-statefulset")
	runWithOtherWebhooks(t, gang.StatefulSet, func(t *testing.T, chain admissionChain) {
		stored := chain.admit(nil, raw)
		labeled := chain.admit(stored, mergePatch(t, stored, `{"metadata":{"labels":{"example.com/owner":"me"}}}`))
		if diff := cmp.Diff(chain.decode(stored).Template(), chain.decode(labeled).Template()); diff != "" {
			t.Errorf("an update of a label changed the template (-stored +updated):\n%s", diff)
		}
		w := chain.decode(stored)
		for i := range w.Template().Spec.Containers {
			if c := &w.Template().Spec.Containers[i]; c.Name == "trainer" {
				c.Image = "example.com/mpi:2"
			}
		}
		updated := chain.decode(chain.admit(stored, marshalJSON(t, w.Object()))).Template().Spec
		var images []string
		for _, c := range slices.Concat(updated.InitContainers, updated.Containers) {
			if c.Name != "mesh-proxy" {
				images = append(images, c.Image)
			}
		}
		if len(slices.Compact(images)) != 1 || !strings.Contains(images[0], "example.com/mpi:2") {
			t.Errorf("the images are %q, want the new image", images)
		}
	})
}

// readGoldenCase returns the manifest of a golden case as the API server sends it.
func readGoldenCase(t *testing.T, name string) []byte {
	t.Helper()
	for _, c := range golden.Cases(t) {
		if c.Name == name {
			return setDefaultNamespace(t, toJSON(t, c.Manifest))
		}
	}
	t.Fatalf("the golden case %s does not exist", name)
	return nil
}

// listNames returns the containers, variables, mounts and volumes of a template.
func listNames(template *corev1.PodTemplateSpec) []string {
	var names []string
	for _, list := range [][]corev1.Container{template.Spec.InitContainers, template.Spec.Containers} {
		for _, c := range list {
			names = append(names, "container "+c.Name)
			for _, e := range c.Env {
				names = append(names, "variable "+c.Name+"/"+e.Name)
			}
			for _, m := range c.VolumeMounts {
				names = append(names, "mount "+c.Name+":"+m.MountPath)
			}
		}
	}
	for _, v := range template.Spec.Volumes {
		names = append(names, "volume "+v.Name)
	}
	return names
}
