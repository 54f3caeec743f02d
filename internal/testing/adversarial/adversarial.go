// Package adversarial contains workloads that are expensive to handle for their size, for tests of the cost of
// admission and of the caches.
package adversarial

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall.training/gang"
	"rollcall.training/injectors"
)

// Input is a workload that is expensive to handle for its size.
type Input struct {
	// Name describes the input.
	Name string
	// Kind is the kind of the workload.
	Kind gang.Kind
	// Object is the JSON of the workload. It need not be valid, because the API server validates a
	// workload only after the mutating webhooks.
	Object string
}

// adversarialBytes is the length of the large part of most inputs. An API server accepts requests of up
// to 3 MiB (k8s.io/apiserver pkg/server, MaxRequestBodyBytes), and the webhooks up to 2 MiB.
const adversarialBytes = 2_000_000

// Inputs returns workloads of up to 3 MiB that are as expensive as their author could make
// them: long lists, long texts, many keys, deep nesting, and products of two long lists.
func Inputs() []Input {
	return slices.Concat(newProductInputs(), newListInputs(), newTextInputs(), newKeyInputs(), newMetadataInputs(),
		newLargeGangs(), newLargeComparisons(), newDefaultInputs())
}

// onlyContainer is the part of a pod spec with an ordinary container.
const onlyContainer = `"containers":[{"name":"trainer","image":"i"}]`

// newKeyInputs returns workloads with many keys and with records of many values.
func newKeyInputs() []Input {
	return []Input{
		newJobInput("5,000 unknown keys", repeat(5000, `"rollcall.training/nprocs-%d":"x"`), onlyContainer),
		newJobInput("5,000 annotations", repeat(5000, `"example.com/%d":"x"`), onlyContainer),
		newJobInput("record of 4,900 flat variables of 4,900", quoteAnnotation(gang.AnnotationInjected,
			`{"injector":"pytorch","values":{`+repeat(4900, `"env/trainer/V%d":"2d7119fb"`)+`}}`),
			`"containers":[{"name":"trainer",`+list("env", 4900, `{"name":"V%d","value":"v"}`)+`}]`),
		newJobInput("record of 4,900 variables of 4,900", quoteAnnotation(gang.AnnotationInjected,
			`{"injector":"pytorch","env":{"trainer":{`+repeat(4900, `"V%d":"2d7119fb"`)+`}}}`),
			`"containers":[{"name":"trainer",`+list("env", 4900, `{"name":"V%d","value":"v"}`)+`}]`),
		newJobInput("record of 4,900 mounts of 4,900", quoteAnnotation(gang.AnnotationInjected,
			`{"injector":"pytorch","mounts":{"trainer":{`+repeat(4900, `"/m%d":"2d7119fb"`)+`}}}`),
			`"containers":[{"name":"trainer",`+list("volumeMounts", 4900, `{"name":"v","mountPath":"/m%d"}`)+`}]`),
	}
}

// newProductInputs returns workloads with two long lists, whose product can be the cost.
func newProductInputs() []Input {
	return []Input{
		newJobInput("1,000 unknown training containers of 1,001",
			quoteAnnotation(gang.AnnotationContainers, repeat(1000, "zzzz%d")), list("containers", 1001, containerFormat)),
		newJobInput("2,500 unknown training containers of 2,501",
			quoteAnnotation(gang.AnnotationContainers, repeat(2500, "zzzz%d")), list("containers", 2501, containerFormat)),
		newJobInput("one unknown training container, and a container with a name of 2,000,000 bytes",
			quoteAnnotation(gang.AnnotationContainers, strings.Repeat("z", 4000)),
			`"containers":[{"name":"`+strings.Repeat("y", adversarialBytes)+`"}]`),
		newJobInput("400 containers, each with conflicting variables",
			quoteAnnotation(gang.AnnotationContainers, repeat(400, "c%d")),
			list("containers", 400, `{"name":"c%d","image":"i","env":[{"name":"RANK","value":"x"},`+
				`{"name":"MASTER_ADDR","value":"x"},`+
				`{"name":"WORLD_SIZE","value":"x"},{"name":"MASTER_PORT","value":"x"}]}`)),
		newJobInput("400 training containers that get resources, with long images",
			quoteAnnotation(gang.AnnotationGPUs, "8")+","+
				quoteAnnotation(gang.AnnotationContainers, repeat(400, "c%d")),
			list("containers", 400, `{"name":"c%d","image":"`+strings.Repeat("i", 4500)+`"}`)),
	}
}

// newDefaultInputs returns workloads with many containers that could get the defaults of a policy.
func newDefaultInputs() []Input {
	return []Input{
		newJobInput("900,000 training containers of 4,900",
			quoteAnnotation(gang.AnnotationContainers, separate(900_000, "z")), list("containers", 4900, containerFormat)),
		newJobInput("900,000 times a training container with other sources of variables",
			quoteAnnotation(gang.AnnotationContainers, separate(900_000, "c")),
			`"containers":[{"name":"c","envFrom":[{"configMapRef":{"name":"m"}}]}]`),
		newJobInput("2,000 times a training container with other sources of variables",
			quoteAnnotation(gang.AnnotationContainers, separate(2000, "c")),
			`"containers":[{"name":"c","envFrom":[{"configMapRef":{"name":"m"}}]}]`),
		{Name: "record of 14,000 defaults of 3,500 containers", Kind: gang.StatefulSet,
			Object: `{"metadata":{"name":"train","labels":{"rollcall.training/framework":"pytorch"},"annotations":{` +
				quoteAnnotation(gang.AnnotationInjected, `{"injector":"","defaults":{`+repeat(3500,
					`"env/c%[1]d/A":"","env/c%[1]d/B":"","env/c%[1]d/C":"","env/c%[1]d/D":""`)+`}}`) +
				`}},"spec":{"template":{"spec":{` + list("containers", 3500, `{"name":"c%d"}`) + `}}}}`},
	}
}

// newListInputs returns workloads with long lists.
func newListInputs() []Input {
	return []Input{
		newJobInput("900,000 empty init containers", "", onlyContainer+`,"initContainers":[`+separate(900_000, "{}")+`]`),
		newJobInput("580,000 init containers of null", "", onlyContainer+`,"initContainers":[`+separate(580_000, "null")+`]`),
		newJobInput("1,400,000 containers of the wrong type", "", `"containers":[`+separate(1_400_000, "0")+`]`),
		newJobInput("900,000 empty containers", "", `"containers":[`+separate(900_000, "{}")+`]`),
		newJobInput("900,000 empty volumes", "", onlyContainer+`,"volumes":[`+separate(900_000, "{}")+`]`),
		newJobInput("900,000 empty variables", "", `"containers":[{"name":"trainer","env":[`+separate(900_000, "{}")+`]}]`),
		newJobInput("60,000 variables that refer to variables of the plan", "",
			`"containers":[{"name":"trainer",`+list("env", 60_000, `{"name":"V%d","value":"$(RANK)"}`)+`}]`),
		newJobInput("5,000 variables that refer to variables of the plan", "",
			`"containers":[{"name":"trainer",`+list("env", 5000, `{"name":"V%d","value":"$(RANK)"}`)+`}]`),
		newJobInput("60,000 conflicting variables", "",
			`"containers":[{"name":"trainer","env":[`+separate(60_000, `{"name":"RANK","value":"x"}`)+`]}]`),
		newJobInput("5,000 conflicting variables", "",
			`"containers":[{"name":"trainer","env":[`+separate(5000, `{"name":"RANK","value":"x"}`)+`]}]`),
		newJobInput("5,000 empty containers", "", `"containers":[`+separate(5000, "{}")+`]`),
		newJobInput("4,000 containers as regular, init and ephemeral containers", "",
			list("containers", 4000, containerFormat)+","+list("initContainers", 4000, containerFormat)+","+
				list("ephemeralContainers", 4000, containerFormat)),
		newJobInput("500 containers with 30 arguments each", "",
			list("containers", 500, `{"name":"c%d","image":"i","args":[`+separate(30, `"a"`)+`]}`)),
		newJobInput("9 containers with 1,700 variables each",
			quoteAnnotation(gang.AnnotationContainers, repeat(9, "c%d")),
			list("containers", 9, `{"name":"c%d","image":"i","env":[`+separate(1700, `{"name":"V","value":"$(RANK)"}`)+`]}`)),
		newJobInput("5,000 volumes", "", onlyContainer+`,`+list("volumes", 5000, `{"name":"v%d","emptyDir":{}}`)),
		newJobInput("700,000 arguments", "", `"containers":[{"name":"trainer","args":[`+separate(700_000, `""`)+`]}]`),
		newJobInput("5,000 resources", "", `"containers":[{"name":"trainer","resources":{"limits":{`+
			repeat(5000, `"nvidia.com/mig-%d":"0"`)+`}}}]`),
		newAdversarialJob("jax with 10,000,000 accelerators", quoteAnnotation(gang.LabelFramework, "jax"), "",
			`"containers":[{"name":"trainer","resources":{"limits":{"nvidia.com/gpu":"10000000"}}}]`),
	}
}

// newTextInputs returns workloads with long texts and deep nesting.
func newTextInputs() []Input {
	return []Input{
		newJobInput("roles of 200,000 commas",
			quoteAnnotation(gang.AnnotationRoles, strings.Repeat(",", 200_000)), onlyContainer),
		newJobInput("roles of 2,000,000 commas",
			quoteAnnotation(gang.AnnotationRoles, strings.Repeat(",", adversarialBytes)), onlyContainer),
		newJobInput("exit codes of 2,000,000 bytes",
			quoteAnnotation(gang.AnnotationNonRetriableExitCodes, strings.Repeat("1,", adversarialBytes/2)),
			onlyContainer),
		newJobInput("conflicting variable of 2,000,000 bytes", "",
			`"containers":[{"name":"trainer","env":[{"name":"RANK","value":"`+strings.Repeat(`\"`, adversarialBytes/2)+`"}]}]`),
		newJobInput("annotation of 2,000,000 bytes",
			quoteAnnotation(gang.AnnotationShmSize, strings.Repeat("9", adversarialBytes)), onlyContainer),
		newJobInput("foreign annotation of 2,000,000 bytes",
			quoteAnnotation("example.com/a", strings.Repeat("x", adversarialBytes)), onlyContainer),
		newJobInput("unknown key of 2,000,000 bytes",
			quoteAnnotation(gang.Prefix+strings.Repeat("p", adversarialBytes), "x"), onlyContainer),
		newJobInput("resource quantity of 2,000,000 digits", "",
			`"containers":[{"name":"trainer","resources":{"limits":{"cpu":"`+strings.Repeat("9", adversarialBytes)+`"}}}]`),
		newJobInput("nesting of 1,000,000 lists", "", onlyContainer+`,"unknown":`+
			strings.Repeat("[", adversarialBytes/2)+strings.Repeat("]", adversarialBytes/2)),
		newJobInput("nesting of 9,000 objects", "", onlyContainer+`,"unknown":`+
			strings.Repeat(`{"a":`, 9000)+"1"+strings.Repeat("}", 9000)),
		newJobInput("status of 2,000,000 bytes", quoteAnnotation(gang.AnnotationStatus,
			`{"version":1,"phase":"`+strings.Repeat("x", adversarialBytes)+`"}`), onlyContainer),
		newJobInput("record of 2,000,000 bytes", quoteAnnotation(gang.AnnotationInjected,
			`{"injector":"`+strings.Repeat("x", adversarialBytes)+`"}`), onlyContainer),
	}
}

// newMetadataInputs returns workloads with large metadata, and StatefulSets.
func newMetadataInputs() []Input {
	return []Input{
		newAdversarialJob("label of 2,000,000 bytes",
			quoteAnnotation(gang.LabelGang, strings.Repeat("a", adversarialBytes)), "", onlyContainer),
		newAdversarialJob("framework of 2,000,000 bytes",
			quoteAnnotation(gang.LabelFramework, strings.Repeat("a", adversarialBytes)), "", onlyContainer),
		newAdversarialJob("4,900 labels", repeat(4900, `"example.com/%d":"x"`), "", onlyContainer),
		{Name: "name of 2,000,000 bytes", Kind: gang.Job,
			Object: `{"metadata":{"name":"` + strings.Repeat("a", adversarialBytes) +
				`","labels":{"rollcall.training/framework":"pytorch"}},"spec":{"template":{"spec":{` + onlyContainer + `}}}}`},
		{Name: "5,000 managed fields", Kind: gang.Job,
			Object: `{"metadata":{"name":"train","labels":{"rollcall.training/framework":"pytorch"},"managedFields":[` +
				separate(5000, `{"manager":"m","fieldsV1":{"f:a":{}},"time":"2026-01-01T00:00:00Z"}`) +
				`]},"spec":{"template":{"spec":{` + onlyContainer + `}}}}`},
		{Name: "5,000 volume claim templates", Kind: gang.StatefulSet,
			Object: `{"metadata":{"name":"train","labels":{"rollcall.training/framework":"pytorch"}},` +
				`"spec":{"template":{"spec":{` +
				onlyContainer + `}},"volumeClaimTemplates":[` + separate(5000, "{}") + `]}}`},
		{Name: "900,000 volume claim templates", Kind: gang.StatefulSet,
			Object: `{"metadata":{"name":"train","labels":{"rollcall.training/framework":"pytorch"}},` +
				`"spec":{"template":{"spec":{` +
				onlyContainer + `}},"volumeClaimTemplates":[` + separate(900_000, "{}") + `]}}`},
	}
}

// newJobInput returns a Job with the given annotations and the given part of its pod spec.
func newJobInput(name, annotations, podSpec string) Input {
	return newAdversarialJob(name, "", annotations, podSpec)
}

// newLargeGangs returns gangs of as many ranks as possible with long names. Some frameworks need the
// addresses of all ranks in a variable.
func newLargeGangs() []Input {
	name := strings.Repeat("t", 50)
	size := strconv.Itoa(gang.MaxPods)
	out := []Input{{
		Name: "tensorflow with 2700 ranks and 499 init containers", Kind: gang.Job,
		Object: fmt.Sprintf(`{"metadata":{"name":"train","namespace":"team","labels":{%q:"tensorflow"}},`+
			`"spec":{"parallelism":2700,"completions":2700,"template":{"spec":{"restartPolicy":"Never",%s,%s}}}}`,
			gang.LabelFramework, onlyContainer, list("initContainers", 499, containerFormat)),
	}}
	for _, framework := range injectors.Builtin().Frameworks() {
		role := framework.DefaultRole
		if framework.HasLauncher {
			role = "worker"
		}
		meta := fmt.Sprintf(`"labels":{%q:%q,%q:%q},"annotations":{%q:%q}`, gang.LabelFramework, framework.Name,
			gang.LabelRole, framework.DefaultRole, gang.AnnotationRoles, role+"="+strconv.Itoa(gang.MaxPods-1)+",launcher=1")
		if !framework.HasLauncher {
			meta = fmt.Sprintf(`"labels":{%q:%q}`, gang.LabelFramework, framework.Name)
		} else {
			name, size = strings.Repeat("t", 40)+"-launcher", "1"
		}
		out = append(out, Input{
			Name: fmt.Sprintf("%s with %d ranks", framework.Name, gang.MaxPods), Kind: gang.Job,
			Object: fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"team",%s},"spec":{"parallelism":%s,"completions":%s,`+
				`"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"trainer","image":"i"}]}}}}`,
				name, meta, size, size),
		})
		name, size = strings.Repeat("t", 50), strconv.Itoa(gang.MaxPods)
	}
	return out
}

// newLargeComparisons returns gangs with a long planned variable and many variables of the user with the
// same name, each of which is compared with it: as JSON, and except for the port. A world size is compared
// with the command, too.
func newLargeComparisons() []Input {
	const variables = 4600
	var out []Input
	for _, size := range []int{2000, gang.MaxPods} {
		out = append(out, Input{
			Name: fmt.Sprintf("%d TF_CONFIG with %d ranks", variables, size), Kind: gang.Job,
			Object: fmt.Sprintf(`{"metadata":{"name":"train","namespace":"team","labels":{%q:"tensorflow"}},`+
				`"spec":{"parallelism":%d,"completions":%d,"template":{"spec":{"restartPolicy":"Never",`+
				`"containers":[{"name":"trainer","image":"i","env":[%s]}]}}}}`, gang.LabelFramework, size, size,
				separate(variables, `{"name":"TF_CONFIG","value":"{\"a\":1}"}`)),
		})
	}
	for _, world := range []string{"3", "4"} {
		out = append(out, newJobInput(fmt.Sprintf("%d WORLD_SIZE of %s next to a long command", variables, world), "",
			`"containers":[{"name":"trainer","args":["train.py","`+strings.Repeat("--nproc", 200_000)+`"],"env":[`+
				separate(variables, `{"name":"WORLD_SIZE","value":"`+world+`"}`)+`]}]`))
	}
	return out
}

const containerFormat = `{"name":"c%d","image":"i"}`

func newAdversarialJob(name, labels, annotations, podSpec string) Input {
	if labels != "" {
		labels = "," + labels
	}
	return Input{Name: name, Kind: gang.Job, Object: fmt.Sprintf(
		`{"metadata":{"name":"train","namespace":"team","labels":{"rollcall.training/framework":"pytorch"%s},`+
			`"annotations":{%s}},`+
			`"spec":{"parallelism":2,"completions":2,"template":{"spec":{"restartPolicy":"Never",%s}}}}`,
		labels, annotations, podSpec)}
}

// quoteAnnotation returns a member of a JSON object. It escapes only double quotes.
func quoteAnnotation(key, value string) string {
	return `"` + key + `":"` + strings.ReplaceAll(value, `"`, `\"`) + `"`
}

// list returns a list with n elements. The format contains the index of the element as %d.
func list(name string, n int, format string) string {
	return `"` + name + `":[` + repeat(n, format) + `]`
}

// repeat returns n elements, separated by commas. The format contains the index of the element as %d.
func repeat(n int, format string) string {
	var out strings.Builder
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, format, i)
	}
	return out.String()
}

// separate returns n equal elements, separated by commas.
func separate(n int, element string) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}
