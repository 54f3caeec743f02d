package policy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"rollcall.training/internal/policy"
)

// container replaces the fields of the container of bigJob after its image.
func container(fields string) []string {
	return []string{"        resources: {limits: {nvidia.com/gpu: 8}}", strings.TrimPrefix(fields, "\n")}
}

// image replaces the image of bigJob.
func image(name string) []string { return []string{"registry.example.com/pytorch/train:1", name} }

// imageFinding is the start of a finding for the image of bigJob.
const imageFinding = "cluster/images spec.template.spec.containers[0].image: is "

const ipcLock = `
        securityContext: {capabilities: {add: [IPC_LOCK]}}`

const infinibandVolume = `
        volumeMounts: [{name: ib, mountPath: /dev/infiniband}]
      volumes: [{name: ib, hostPath: {path: /dev/infiniband/}}]`

const imageVolume = `
      volumes: [{name: data, image: {reference: "quay.io/x/data:1"}}]`

const imageVolumeFinding = "cluster/images spec.template.spec.volumes[0].image.reference: "

func TestPodLimits(t *testing.T) {
	const checkpointFinding = "cluster/checkpoint spec.template.spec.volumes: the gang can restart 3 times, but nothing " +
		"outlives its pods, so each attempt starts from scratch; mount a PersistentVolumeClaim in the training container, " +
		`or set rollcall.training/max-restarts: "0" (policy cluster/checkpoint)`
	for name, test := range map[string]struct {
		limits   string
		job      string
		replace  []string
		findings []string
	}{
		"a capability that the level does not allow": {
			limits: "podSecurity: {level: baseline}", replace: container(ipcLock),
			findings: []string{"cluster/podSecurity spec.template.spec: non-default capabilities (container \"trainer\" must " +
				"not include \"IPC_LOCK\" in securityContext.capabilities.add): the Pod Security Standard baseline:latest does " +
				"not allow this; remove it (policy cluster/podSecurity)"},
		},
		"a capability that a fabric needs": {
			limits: "podSecurity: {level: baseline, allow: {capabilities: [IPC_LOCK]}}", replace: container(ipcLock),
		},
		"another capability than the allowed one": {
			limits: "podSecurity: {level: baseline, allow: {capabilities: [SYS_ADMIN]}}", replace: container(ipcLock),
			findings: []string{"cluster/podSecurity spec.template.spec: non-default capabilities"},
		},
		"a directory of the node that a fabric needs": {
			limits:  "podSecurity: {level: baseline, allow: {hostPaths: [/dev/infiniband]}}",
			replace: container(infinibandVolume),
		},
		"a directory next to the allowed one": {
			limits:   "podSecurity: {level: baseline, allow: {hostPaths: [/dev/infiniband]}}",
			replace:  container(strings.ReplaceAll(infinibandVolume, "/dev/infiniband/", "/dev/infiniband2")),
			findings: []string{"cluster/podSecurity spec.template.spec: hostPath volumes"},
		},
		"a path that leaves the allowed directory": {
			limits: "podSecurity: {level: baseline, allow: {hostPaths: [/dev/infiniband]}}",
			replace: []string{"        resources: {limits: {nvidia.com/gpu: 8}}",
				"      volumes: [{name: ib, hostPath: {path: /dev/infiniband/../../etc}}]"},
			findings: []string{"cluster/podSecurity spec.template.spec: hostPath volumes"},
		},
		"the network of the node with its ports": {
			limits:  "podSecurity: {level: baseline, allow: {hostNetwork: true, hostIPC: true}}",
			replace: container("        ports: [{containerPort: 1, hostPort: 1}]\n      hostNetwork: true\n      hostIPC: true"),
		},
		"host ports without the network of the node": {
			limits:   "podSecurity: {level: baseline, allow: {hostNetwork: true}}",
			replace:  container("        ports: [{containerPort: 1, hostPort: 1}]"),
			findings: []string{"cluster/podSecurity spec.template.spec: hostPort"},
		},
		"a gang that restarts and keeps nothing": {
			limits: "checkpoint: {whenRestarts: 1, minSize: 2}", findings: []string{checkpointFinding},
		},
		"a gang that is smaller than the limit":     {limits: "checkpoint: {minSize: 97}"},
		"a gang with fewer restarts than the limit": {limits: "checkpoint: {whenRestarts: 4}"},
		"a gang that writes to storage without a volume": {
			limits: "checkpoint: {}", replace: container("        args: ['--save=s3://ckpt/a']"),
		},
		"a volume that outlives the pods": {limits: "checkpoint: {}", replace: claimVolume("{claimName: c}")},
		"a claim that is only read does not save anything": {
			limits: "checkpoint: {}", replace: claimVolume("{claimName: c, readOnly: true}"),
			findings: []string{checkpointFinding},
		},
		"another member can save the checkpoints": {
			limits: "checkpoint: {}", job: memberJob,
			findings: []string{"unknown cluster/checkpoint spec.template.spec.volumes: it is not known yet " +
				"whether another member saves checkpoints (policy cluster/checkpoint)"},
		},
		"a denied framework": {
			limits: "frameworks: {deny: [pytorch]}",
			findings: []string{"cluster/frameworks metadata.labels[rollcall.training/framework]: is not allowed; " +
				"use any framework except pytorch (policy cluster/frameworks)"},
		},
		"a denied repository of an allowed registry": {
			limits: "images: {allow: {'*': [registry.example.com/]}, deny: [registry.example.com/pytorch]}",
			findings: []string{"cluster/images spec.template.spec.containers[0].image: is registry.example.com/pytorch/train, " +
				"and images of registry.example.com/pytorch are not allowed (policy cluster/images)"},
		},
		"an image without a digest": {
			limits: "images: {digests: true}",
			findings: []string{"cluster/images spec.template.spec.containers[0].image: must have a digest, such as " +
				"image@sha256:… (policy cluster/images)"},
		},
		"the ID of an image on the node": {
			limits:   "images: {allow: {'*': [docker.io/]}}",
			replace:  image("'sha256:" + strings.Repeat("0a", 32) + "'"),
			findings: []string{imageFinding + "the ID of an image on the node, which can come from any registry"},
		},
		"a part of the ID of an image on the node": {
			limits: "images: {digests: true}", replace: image("'sha256:0a'"),
			findings: []string{imageFinding + "the ID of an image on the node, which can come from any registry"},
		},
		"an image whose name contains that of a digest": {
			limits: "images: {allow: {'*': [docker.io/]}}", replace: image("'x/sha256:0a'"),
		},
		"an image volume of a denied registry": {
			limits: "images: {deny: [quay.io/]}", replace: container(imageVolume),
			findings: []string{imageVolumeFinding + "is quay.io/x/data, and images of quay.io/ are not allowed"},
		},
		"an image volume without a digest": {
			limits:   "images: {digests: true}",
			replace:  append(container(imageVolume), image("a@sha256:"+strings.Repeat("0", 64))...),
			findings: []string{imageVolumeFinding + "must have a digest"},
		},
		"an image volume in a rule": {
			limits:   "}, rules: [{name: ours, expression: \"gang.images.all(i, i.startsWith('registry.'))\"}], defaults: {",
			replace:  container(imageVolume),
			findings: []string{"cluster/ours metadata: does not satisfy"},
		},
		"a denied registry in capital letters": {
			limits: "images: {deny: [quay.io/]}", replace: image("QUAY.IO/x/y:1"),
			findings: []string{imageFinding + "QUAY.IO/x/y, and images of quay.io/ are not allowed (policy cluster/images)"},
		},
		"a denied registry with the default port": {
			limits: "images: {deny: [quay.io/]}", replace: image("quay.io:443/x/y:1"),
			findings: []string{imageFinding + "quay.io:443/x/y, and images of quay.io/ are not allowed (policy cluster/images)"},
		},
		"a denied registry with zeros before the default port": {
			limits: "images: {deny: [quay.io/]}", replace: image("quay.io:0443/x/y:1"),
			findings: []string{imageFinding + "quay.io:0443/x/y, and images of quay.io/ are not allowed"},
		},
		"another port is another registry": {
			limits: "images: {deny: [quay.io/]}", replace: image("quay.io:5000/x/y:1"),
		},
		"another name of a denied Docker Hub": {
			limits: "images: {deny: [docker.io/]}", replace: image("registry-1.docker.io/x/y:1"),
			findings: []string{imageFinding + "registry-1.docker.io/x/y, and images of docker.io/ are not allowed"},
		},
		"Docker Hub with another name in the list": {
			limits: "images: {deny: [Registry.Hub.Docker.com:443/x]}", replace: image("x/y:1"),
			findings: []string{imageFinding + "docker.io/x/y, and images of Registry.Hub.Docker.com:443/x are not allowed"},
		},
		"an allowed registry in capital letters": {
			limits: "images: {allow: {'*': [Registry.Example.com/]}}", replace: image("registry.example.COM/x/y:1"),
		},
		"a hidden accelerator from a source": {
			limits:  "hiddenGPUs: {}",
			replace: container(`        env: [{name: NVIDIA_VISIBLE_DEVICES, valueFrom: {configMapKeyRef: {name: a, key: a}}}]`),
			findings: []string{"cluster/hiddenGPUs spec.template.spec.containers[0].env[0].valueFrom: NVIDIA_VISIBLE_DEVICES " +
				"can expose accelerators that the container does not request; remove it, and request them in " +
				"resources.limits (policy cluster/hiddenGPUs)"},
		},
		"a hidden accelerator next to a claim": {
			limits: "hiddenGPUs: {}",
			replace: container("        env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]\n" +
				"        resources: {claims: [{name: nic}]}\n" +
				"      resourceClaims: [{name: nic, resourceClaimTemplateName: nic}]"),
			findings: []string{"cluster/hiddenGPUs spec.template.spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES exp"},
		},
		"all accelerators of the node next to a requested one": {
			limits: "hiddenGPUs: {}",
			replace: container("        env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]\n" +
				"        resources: {limits: {nvidia.com/gpu: 1}}"),
			findings: []string{"cluster/hiddenGPUs spec.template.spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES exp"},
		},
		"a variable without a value next to a requested accelerator": {
			limits: "hiddenGPUs: {}",
			replace: container("        env: [{name: NVIDIA_VISIBLE_DEVICES}]\n" +
				"        resources: {limits: {nvidia.com/gpu: 1}}"),
		},
		"a variable that hides accelerators": {
			limits: "hiddenGPUs: {}", replace: container("        env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]"),
		},
		"a restart policy that is not allowed": {
			limits: "restarts: {policies: [never, pod]}",
			findings: []string{"cluster/restarts metadata.annotations[rollcall.training/restart-policy]: gang is not allowed " +
				"as the restart policy; allowed are never, pod (policy cluster/restarts)"},
		},
		"a runtime below the minimum": {
			limits:  "runtime: {min: 1h}",
			replace: []string{"  parallelism: 96", "  parallelism: 96\n  activeDeadlineSeconds: 60"},
			findings: []string{"cluster/runtime spec.activeDeadlineSeconds: makes the maximum runtime 1m, at least 1h is " +
				"required; set at least 3600 (policy cluster/runtime)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := test.job
			if job == "" {
				job = bigJob
			}
			in := newInput(t, readJob(t, strings.NewReplacer(test.replace...).Replace(job)))
			var got []string
			for _, f := range readPolicy(t, "cluster: {limits: {"+test.limits+"}}").Judge(in)[0].Findings {
				text := f.Rule + " " + f.String()
				if f.Unknown {
					text = "unknown " + text
				}
				got = append(got, text)
			}
			isPrefix := cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) })
			if diff := cmp.Diff(test.findings, got, isPrefix, cmpopts.EquateEmpty()); diff != "" {
				t.Error("findings (-want +got):\n" + diff)
			}
		})
	}
}

// claimVolume mounts a claim in the container of bigJob.
func claimVolume(claim string) []string {
	return container("        volumeMounts: [{name: c, mountPath: /c}]\n" +
		"      volumes: [{name: c, persistentVolumeClaim: " + claim + "}]")
}

// TestPodSecurityFixtures compares the limit with the pods that Kubernetes tests its Pod Security Admission
// with, as the pod template of a gang.
func TestPodSecurityFixtures(t *testing.T) {
	const module = "k8s.io/pod-security-admission"
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(dir)), "test", "testdata")
	counts := map[string]int{}
	for _, level := range []string{"baseline", "restricted"} {
		versions, err := filepath.Glob(filepath.Join(root, level, "v*"))
		if err != nil || len(versions) == 0 {
			t.Fatalf("no fixtures for %s: %v", level, err)
		}
		for _, directory := range versions {
			version := filepath.Base(directory)
			p := readPolicy(t, "cluster: {limits: {podSecurity: {level: "+level+", version: "+version+"}}}")
			for _, outcome := range []string{"pass", "fail"} {
				files, err := filepath.Glob(filepath.Join(directory, outcome, "*.yaml"))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					counts[outcome]++
					if findings := judgeFixture(t, p, file); (len(findings) > 0) != (outcome == "fail") {
						t.Errorf("%s: findings %v", strings.TrimPrefix(file, root), findings)
					}
				}
			}
		}
	}
	t.Logf("%d pods pass, and %d pods fail", counts["pass"], counts["fail"])
	if counts["pass"] < 1000 || counts["fail"] < 1000 {
		t.Errorf("%d pods pass, and %d pods fail; the fixtures are not complete", counts["pass"], counts["fail"])
	}
}

// judgeFixture returns the findings for the pod of a file as the template of a gang. The gang is not
// injected, because a fixture is minimal: only its pod is judged.
func judgeFixture(t *testing.T, p *policy.Policy, file string) []policy.Finding {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		t.Fatal(err)
	}
	w := readJob(t, bigJob)
	w.Job.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	result, err := engine.Describe(w)
	if err != nil {
		t.Fatal(err)
	}
	return p.Judge(policy.Input{
		Members: []policy.Member{{Gang: result.Gang, Workload: w}}, Namespace: policy.Namespace{Name: "a"}, Now: today,
	})[0].Findings
}

// TestPodSecurityVersion verifies that the newest version is that of the library.
func TestPodSecurityVersion(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	minor := regexp.MustCompile(`k8s.io/pod-security-admission v0\.(\d+)\.`).FindStringSubmatch(string(text))
	if minor == nil {
		t.Fatal("go.mod does not contain the library")
	}
	readPolicy(t, "cluster: {limits: {podSecurity: {level: baseline, version: v1."+minor[1]+"}}}")
}

// TestPodSecurityOfInjection verifies that the injection of Rollcall does not violate the strictest level.
func TestPodSecurityOfInjection(t *testing.T) {
	const secure = `
        securityContext:
          allowPrivilegeEscalation: false
          runAsNonRoot: true
          seccompProfile: {type: RuntimeDefault}
          capabilities: {drop: [ALL]}`
	p := readPolicy(t, "cluster: {limits: {podSecurity: {level: restricted}}}")
	for _, framework := range engine.Frameworks().Names() {
		replace := append(container(secure), "framework: pytorch", "framework: "+framework)
		w := readJob(t, strings.NewReplacer(replace...).Replace(bigJob))
		if _, err := engine.Admit(w); err != nil {
			t.Logf("%s needs other roles: %v", framework, err)
			continue
		}
		for _, f := range p.Judge(newInput(t, w))[0].Findings {
			t.Errorf("%s: %s", framework, f)
		}
	}
}
