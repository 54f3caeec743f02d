package check

// Code identifies a check. Codes are stable: they are never renamed and never reused.
type Code string

// Codes of checks of the cluster.
const (
	// CodeKubernetesVersion is the check of the version of the API server.
	CodeKubernetesVersion Code = "KubernetesVersion"
	// CodeAdmissionPolicies is the check that the API server serves ValidatingAdmissionPolicies.
	CodeAdmissionPolicies Code = "AdmissionPolicies"
	// CodeRankAssignment is the check of what sets the ranks of gangs of several workloads.
	CodeRankAssignment Code = "RankAssignment"
	// CodeRestartRules is the check of the restart rules of containers.
	CodeRestartRules Code = "RestartRules"
	// CodeInstallPermissions is the check of the permissions of the user who installs the chart.
	CodeInstallPermissions Code = "InstallPermissions"
	// CodeLeftovers is the check of objects of a release that is not installed.
	CodeLeftovers Code = "Leftovers"
)

// Codes of checks of the components.
const (
	// CodeInstallation is the check that there is one installation.
	CodeInstallation Code = "Installation"
	// CodeWebhookReady and CodeControllerReady are the checks of the Deployments.
	CodeWebhookReady    Code = "WebhookReady"
	CodeControllerReady Code = "ControllerReady"
	// CodeVersions is the check of the versions of the chart, the components and the command.
	CodeVersions Code = "Versions"
	// CodeAvailability is the check of the number of replicas and the failure policy.
	CodeAvailability Code = "Availability"
	// CodeLeader is the check of the leader of the controller.
	CodeLeader Code = "Leader"
	// CodeControllerPermissions is the check of the permissions of the controller.
	CodeControllerPermissions Code = "ControllerPermissions"
	// CodePolicy is the check of the policy for gangs.
	CodePolicy Code = "Policy"
)

// Codes of checks of admission.
const (
	// CodeWebhookConfigurations is the check of the webhook configurations.
	CodeWebhookConfigurations Code = "WebhookConfigurations"
	// CodeWebhookService is the check of the Service of the webhooks.
	CodeWebhookService Code = "WebhookService"
	// CodeCABundle is the check that API servers trust the serving certificate.
	CodeCABundle Code = "CABundle"
	// CodeCertificate is the check of the validity of certificates.
	CodeCertificate Code = "Certificate"
	// CodeInjection is the check that a labeled Job is injected.
	CodeInjection Code = "Injection"
	// CodeDenial is the check that an invalid Job is denied.
	CodeDenial Code = "Denial"
	// CodeOtherWebhooks is the check of other mutating webhooks for Jobs.
	CodeOtherWebhooks Code = "OtherWebhooks"
	// CodeNotInjected is the check of labeled workloads that were admitted without injection.
	CodeNotInjected Code = "NotInjected"
)

// Codes returns the codes of all checks in the order of a report.
func Codes() []Code {
	return []Code{
		CodeInstallation, CodeKubernetesVersion, CodeAdmissionPolicies, CodeRankAssignment, CodeRestartRules,
		CodeInstallPermissions, CodeWebhookReady, CodeControllerReady, CodeVersions, CodeAvailability,
		CodeWebhookConfigurations, CodeWebhookService, CodeCABundle, CodeCertificate, CodeInjection, CodeDenial,
		CodeLeader, CodeControllerPermissions, CodePolicy, CodeOtherWebhooks, CodeNotInjected, CodeLeftovers,
	}
}
