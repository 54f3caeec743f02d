package policy_test

// moreProblemCases are mistakes in limits, defaults and rules.
var moreProblemCases = map[string]problemCase{
	"a number in exponent notation beyond the maximum": {
		text: "cluster: {limits: {size: {max: 1e12}}}",
		want: "p.yaml:3:27: cluster.limits.size.max: 1000000000000 must be a whole number from 0 to " +
			"102400000",
	},
	"a number above the maximum": {
		text: "cluster: {limits: {size: {max: 1000000000000}}}",
		want: "p.yaml:3:27: cluster.limits.size.max: 1000000000000 must be a whole number from 0 to " +
			"102400000",
	},
	"a multiple above the maximum": {
		text: "cluster: {limits: {gpus: {multipleOf: 8, max: 4}}}",
		want: "p.yaml:3:20: cluster.limits.gpus: no gang with accelerators satisfies multipleOf 8 and " +
			"max 4",
	},
	"an empty list of numbers": {
		text: "cluster: {limits: {gpus: {in: []}}}",
		want: "p.yaml:3:27: cluster.limits.gpus.in: is empty, so no gang with accelerators satisfies it; " +
			"write max: 0 to forbid accelerators",
	},
	"a limit without an effect": {
		text: "cluster: {limits: {size: {}}}",
		want: "p.yaml:3:20: cluster.limits.size: has no effect; set min or max",
	},
	"a minimum runtime above the maximum": {
		text: "cluster: {limits: {runtime: {min: 2h, max: 1h}}}",
		want: "p.yaml:3:20: cluster.limits.runtime: no gang satisfies min 2h and max 1h",
	},
	"a default that its own limit denies": {
		text: "cluster: {defaults: {runtime: 48h}, limits: {runtime: {max: 24h}}}",
		want: "p.yaml:3:22: cluster.defaults.runtime: violates cluster.limits.runtime: makes the maximum " +
			"runtime 48h, at most 24h is allowed; set at most 86400. Every gang without an own value would " +
			"be denied",
	},
	"a default of a profile that the limit of the cluster denies": {
		text: "cluster: {limits: {ttl: {max: 1h}}}\nprofiles: [{name: a, namespaces: {names: [a]}, " +
			"defaults: {ttl: 2h}}]",
		want: "p.yaml:4:59: profiles[0].defaults.ttl: violates cluster.limits.ttl: makes the time until " +
			"deletion after the end 2h, at most 1h is allowed; set at most 3600. Every gang without an own " +
			"value would be denied",
	},
	"a default label that the required pattern denies": {
		text: "cluster: {defaults: {labels: {team: A1}}, limits: {labels: {require: {team: '[a-z]+'}}}}",
		want: "p.yaml:3:31: cluster.defaults.labels[team]: violates cluster.limits.labels: must match " +
			"[a-z]+. Every gang without an own value would be denied",
	},
	"a default priority class that is not allowed": {
		text: "cluster: {defaults: {priorityClass: high}, limits: {priorityClass: {allow: [low]}}}",
		want: "p.yaml:3:22: cluster.defaults.priorityClass: violates cluster.limits.priorityClass: is " +
			"not allowed as the priority class; allowed are low. Every gang without an own value would be " +
			"denied",
	},
	"a default that differs from the locked default of the cluster": {
		text: "cluster: {defaults: {queue: {value: a, locked: true}}}\nprofiles: [{name: p, namespaces: " +
			"{names: [p]}, defaults: {queue: b}}]",
		want: `p.yaml:4:59: profiles[0].defaults.queue: must be "a", which the cluster locks`,
	},
	"a limit of restarts below the default of Rollcall is advice": {
		text: "cluster: {limits: {restarts: {max: 0}}}",
		want: "p.yaml:3:31: cluster.limits.restarts.max: a gang without an own value has 3 restarts, and " +
			"would be denied; add defaults.restarts: 0",
		isAdvice: true,
	},
	"a limit of disruptions without a maximum": {
		text: "cluster: {limits: {disruptions: {mode: warn}}}",
		want: "p.yaml:3:20: cluster.limits.disruptions: has no effect; set max",
	},
	"a default of disruptions above the limit": {
		text: "cluster: {defaults: {disruptions: 20}, limits: {disruptions: {max: 10}}}",
		want: "p.yaml:3:22: cluster.defaults.disruptions: violates cluster.limits.disruptions: allows 20 disruptions of " +
			`the gang, at most 10 are allowed; set rollcall.training/max-disruptions: "10". Every gang without an own ` +
			"value would be denied",
	},
	"a default of disruptions that is not a number": {
		text: "cluster: {defaults: {disruptions: unlimited}}",
		want: "p.yaml:3:22: cluster.defaults.disruptions: must be a whole number from 0 to 1000",
	},
	"a default annotation for which the policy has a key": {
		text: "cluster: {defaults: {annotations: {rollcall.training/max-disruptions: '3'}}}",
		want: "p.yaml:3:36: cluster.defaults.annotations[rollcall.training/max-disruptions]: write disruptions: 3",
	},
	"a limit of disruptions above that of the cluster is advice": {
		text: "cluster: {limits: {disruptions: {max: 5}}}\nprofiles: [{name: p, namespaces: {names: [p]}, " +
			"limits: {disruptions: {max: 10}}}]",
		want:     "p.yaml:4:71: profiles[0].limits.disruptions.max: has no effect above 5, the limit of the cluster",
		isAdvice: true,
	},
	"two profiles of one name": {
		text: "profiles:\n- {name: a, namespaces: {names: [a]}}\n- {name: a, namespaces: {names: [b]}}",
		want: "p.yaml:5:4: profiles[1].name: a is also the name of the profile on line 4",
	},
	"two rules of one name": {
		text: "cluster:\n  rules:\n  - {name: a, expression: 'true'}\n  - {name: a, expression: 'true'}",
		want: "p.yaml:6:6: cluster.rules[1].name: a is also the name of cluster.rules[0] on line 5",
	},
	"a rule with the name of a limit": {
		text: "cluster: {limits: {size: {max: 1}}, rules: [{name: size, expression: 'true'}]}",
		want: "p.yaml:3:46: cluster.rules[0].name: size is also the name of cluster.limits.size on line 3",
	},
	"a profile with the name of the cluster": {
		text: "profiles: [{name: cluster, namespaces: {names: [a]}}]",
		want: "p.yaml:3:13: profiles[0].name: cluster is the name of the scope for all namespaces",
	},
	"a pattern of namespaces that is not valid": {
		text: "profiles: [{name: a, namespaces: {names: ['[a-']}}]",
		want: `p.yaml:3:43: profiles[0].namespaces.names[0]: "[a-" is not a pattern; * stands for any ` +
			`text`,
	},
	"a selector that is not valid": {
		text: "profiles: [{name: a, namespaces: {selector: {matchExpressions: [{key: a, operator: " +
			"Is}]}}}]",
		want: `p.yaml:3:35: profiles[0].namespaces.selector: "Is" is not a valid label selector operator`,
	},
	"a regular expression that is too long": {
		text: "cluster: {limits: {labels: {require: {team: " +
			"'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" +
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" +
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}}}}",
		want: "p.yaml:3:39: cluster.limits.labels.require[team]: has 257 bytes; at most 256 are allowed",
	},
	"a label that no object can have": {
		text: "cluster: {limits: {labels: {forbid: ['a b']}}}",
		want: "p.yaml:3:38: cluster.limits.labels.forbid[0]: is not the name of a label: name part must " +
			"consist of alphanumeric characters, '-', '_' or '.', and must start and end with an " +
			"alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation " +
			"is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
	},
	"a misspelled framework": {
		text: "cluster: {limits: {frameworks: {deny: [pytorhc]}}}",
		want: `p.yaml:3:40: cluster.limits.frameworks.deny[0]: "pytorhc" is not a framework; did you ` +
			`mean pytorch?; frameworks are ` + allFrameworks,
	},
	"a framework that is allowed and denied": {
		text: "cluster: {limits: {frameworks: {allow: [jax], deny: [jax]}}}",
		want: "p.yaml:3:41: cluster.limits.frameworks.allow[0]: jax is also in deny",
	},
	"a framework of images that does not exist": {
		text: "cluster: {limits: {images: {allow: {torch: [a.io/]}}}}",
		want: `p.yaml:3:37: cluster.limits.images.allow[torch]: "torch" is not a framework; did you mean ` +
			`pytorch?; frameworks are ` + allFrameworks,
	},
	"a registry without a slash is advice": {
		text: "cluster: {limits: {images: {allow: {'*': [registry.example.com]}}}}",
		want: "p.yaml:3:43: cluster.limits.images.allow[*][0]: matches this registry only, and never a " +
			"longer name such as registry.example.com.example.net; write registry.example.com/",
		isAdvice: true,
	},
	"an image without a registry": {
		text: "cluster: {limits: {images: {allow: {'*': [pytorch]}}}}",
		want: `p.yaml:3:43: cluster.limits.images.allow[*][0]: "pytorch" has no registry, so it matches ` +
			`no image; write docker.io/library/pytorch`,
	},
	"a repository without a registry": {
		text: "cluster: {limits: {images: {deny: [team/pytorch]}}}",
		want: `p.yaml:3:36: cluster.limits.images.deny[0]: "team/pytorch" has no registry, so it matches ` +
			`no image; write docker.io/team/pytorch`,
	},
	"a tag of an image": {
		text: "cluster: {limits: {images: {deny: ['registry.example.com:5000/ml/train:1']}}}",
		want: "p.yaml:3:36: cluster.limits.images.deny[0]: matches no image, because it has a tag; write " +
			"registry.example.com:5000/ml/train",
	},
	"a pattern of images": {
		text: "cluster: {limits: {images: {deny: ['registry.example.com/*']}}}",
		want: "p.yaml:3:36: cluster.limits.images.deny[0]: must be a registry or a repository without a " +
			"pattern, such as registry.example.com/hpc",
	},
	"a restart policy that does not exist": {
		text: "cluster: {limits: {restarts: {policies: [always]}}}",
		want: `p.yaml:3:42: cluster.limits.restarts.policies[0]: "always" is not a restart policy; use ` +
			`gang, pod or never`,
	},
	"a syntax error in an expression": {
		text: "cluster: {rules: [{name: a, expression: 'gang.gpus >'}]}",
		want: "p.yaml:3:29: cluster.rules[0].expression: column 12: Syntax error: mismatched input " +
			"'<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, " +
			"NUM_UINT, STRING, BYTES, IDENTIFIER}",
	},
	"an expression that compares a number with a text": {
		text: `cluster: {rules: [{name: a, expression: 'gang.gpus == "8"'}]}`,
		want: "p.yaml:3:29: cluster.rules[0].expression: column 11: found no matching overload for " +
			"'_==_' applied to '(int, string)'",
	},
	"an expression that reads an optional field": {
		text: `cluster: {rules: [{name: a, expression: "gang.runtime <= duration('1h')"}]}`,
		want: "p.yaml:3:19: cluster.rules[0]: fails for a gang without any labels: no such key: runtime; " +
			"read optional values as in gang.labels[?'team'].orValue('') or has(gang.runtime)",
	},
	"a rule without an expression": {
		text: "cluster: {rules: [{name: a}]}",
		want: "p.yaml:3:19: cluster.rules[0].expression: is required",
	},
	"a message of several lines": {
		text: `cluster: {rules: [{name: a, expression: 'true', message: "a\nb"}]}`,
		want: "p.yaml:3:49: cluster.rules[0].message: must be one line",
	},
	"an exemption without a reason": {
		text: "cluster: {limits: {size: {max: 1}}}\nexemptions: [{rule: cluster/size, namespace: a, " +
			"gangs: ['*'], until: 2027-01-01}]",
		want: "p.yaml:4:14: exemptions[0].reason: is required, such as the number of a ticket",
	},
	"a level of the Pod Security Standards that does not exist": {
		text: "cluster: {limits: {podSecurity: {level: strict}}}",
		want: `p.yaml:3:34: cluster.limits.podSecurity.level: "strict" is not a level; use baseline or ` +
			`restricted`,
	},
	"a level that allows everything": {
		text: "cluster: {limits: {podSecurity: {level: privileged}}}",
		want: "p.yaml:3:34: cluster.limits.podSecurity.level: privileged allows everything; remove the " +
			"limit, or use baseline or restricted",
	},
	"a version of the Pod Security Standards that does not exist": {
		text: "cluster: {limits: {podSecurity: {level: baseline, version: v9.9}}}",
		want: `p.yaml:3:51: cluster.limits.podSecurity.version: "v9.9" is not a version; use latest, or ` +
			`v1.0 to v1.37`,
	},
	"a version that this release does not contain": {
		text: "cluster: {limits: {podSecurity: {level: baseline, version: v1.99}}}",
		want: `p.yaml:3:51: cluster.limits.podSecurity.version: "v1.99" is not a version; use latest, or ` +
			`v1.0 to v1.37`,
	},
	"an exception for the entire node": {
		text: "cluster: {limits: {podSecurity: {level: baseline, allow: {hostPaths: [/]}}}}",
		want: `p.yaml:3:71: cluster.limits.podSecurity.allow.hostPaths[0]: "/" must be the absolute path ` +
			`of a directory, such as /dev/infiniband`,
	},
	"an exception for all capabilities": {
		text: "cluster: {limits: {podSecurity: {level: baseline, allow: {capabilities: [ALL]}}}}",
		want: `p.yaml:3:74: cluster.limits.podSecurity.allow.capabilities[0]: "ALL" must be one ` +
			`capability in the form of a container, such as IPC_LOCK`,
	},
	"a default without a value": {
		text: "cluster: {defaults: {queue: {locked: true}}}",
		want: "p.yaml:3:22: cluster.defaults.queue: must be a value, or {value: …, locked: true}",
	},
	"a default with a misspelled field": {
		text: "cluster: {defaults: {queue: {value: a, lock: true}}}",
		want: "p.yaml:3:22: cluster.defaults.queue: must be a value, or {value: …, locked: true}",
	},
	"a default of the wrong type": {
		text: "cluster: {defaults: {restarts: many}}",
		want: "p.yaml:3:22: cluster.defaults.restarts: must be a whole number from 0 to 1000",
	},
	"a default runtime without a unit": {
		text: "cluster: {defaults: {runtime: 3600}}",
		want: "p.yaml:3:22: cluster.defaults.runtime: must be a duration with the units h, m and s, such as 90m or 72h",
	},
	"a default for the size of a gang": {
		text: "cluster: {defaults: {annotations: {rollcall.training/elastic: '1:2'}}}",
		want: "p.yaml:3:36: cluster.defaults.annotations[rollcall.training/elastic]: cannot have a " +
			"default, because it can determine the size or the ranks of the gang; annotations of Rollcall " +
			"with a default are rollcall.training/restart-policy, " +
			"rollcall.training/non-retriable-exit-codes, rollcall.training/success-policy, " +
			"rollcall.training/clean-pod-policy, rollcall.training/start-timeout, rollcall.training/schedule-timeout, " +
			"rollcall.training/shm-size, rollcall.training/scheduler, " +
			"rollcall.training/published-ranks, rollcall.training/restart-on-node-loss, " +
			"rollcall.training/avoid-nodes, rollcall.training/topology",
	},
	"a default for a label of Rollcall": {
		text: "cluster: {defaults: {labels: {rollcall.training/role: worker}}}",
		want: "p.yaml:3:31: cluster.defaults.labels[rollcall.training/role]: cannot have a default, " +
			"because it can determine the size or the ranks of the gang; annotations of Rollcall with a " +
			"default are rollcall.training/restart-policy, rollcall.training/non-retriable-exit-codes, " +
			"rollcall.training/success-policy, rollcall.training/clean-pod-policy, " +
			"rollcall.training/start-timeout, rollcall.training/schedule-timeout, " +
			"rollcall.training/shm-size, rollcall.training/scheduler, " +
			"rollcall.training/published-ranks, rollcall.training/restart-on-node-loss, " +
			"rollcall.training/avoid-nodes, rollcall.training/topology",
	},
	"a default for a variable with the rank": {
		text: "cluster: {defaults: {env: {RANK: '0'}}}",
		want: "p.yaml:3:28: cluster.defaults.env[RANK]: determines the ranks, so Rollcall sets it; " +
			"remove the default",
	},
	"a default number of accelerators": {
		text: "cluster: {defaults: {resources: {nvidia.com/gpu: '8'}}}",
		want: "p.yaml:3:34: cluster.defaults.resources[nvidia.com/gpu]: is an accelerator, and only the " +
			"user determines how many the gang uses",
	},
	"a default amount of memory": {
		text: "cluster: {defaults: {resources: {memory: 8Gi}}}",
		want: "p.yaml:3:34: cluster.defaults.resources[memory]: must be an extended resource such as " +
			"rdma/hca, or huge pages; use a LimitRange for cpu and memory",
	},
	"a default quantity that is not valid": {
		text: "cluster: {defaults: {resources: {rdma/hca: one}}}",
		want: `p.yaml:3:34: cluster.defaults.resources[rdma/hca]: "one" is not a quantity above 0`,
	},
	"a default label with an invalid value": {
		text: "cluster: {defaults: {nodeSelector: {pool: 'a b'}}}",
		want: `p.yaml:3:37: cluster.defaults.nodeSelector[pool]: "a b": a valid label must be an empty ` +
			`string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an ` +
			`alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation ` +
			`is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
	},
	"a default toleration of every taint": {
		text: "cluster: {defaults: {tolerations: [{operator: Exists}]}}",
		want: "p.yaml:3:36: cluster.defaults.tolerations[0].key: is required; a toleration of every " +
			"taint would place gangs on any node",
	},
	"an unlabeled kind that does not exist": {
		text: "unlabeled: {multiPodGPU: {kinds: [Deployment]}}",
		want: `p.yaml:3:35: unlabeled.multiPodGPU.kinds[0]: "Deployment" is not a kind; use Job or ` +
			`StatefulSet`,
	},
	"a mode of unlabeled workloads that does not exist": {
		text: "unlabeled: {optOut: {mode: deny}}",
		want: `p.yaml:3:22: unlabeled.optOut.mode: "deny" is not a mode; use enforce, warn, audit or off`,
	},
}
