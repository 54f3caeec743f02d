# Terraform or OpenTofu installs Rollcall from the chart of a release, with the preset for high availability.
terraform {
  required_providers {
    helm = {
      source  = "hashicorp/helm"
      version = "~> 3.0"
    }
  }
}

resource "helm_release" "rollcall" {
  name             = "rollcall"
  namespace        = "rollcall-system"
  create_namespace = true
  repository       = "oci://registry.example.com/rollcall/charts"
  chart            = "rollcall"
  version          = "0.2.0"
  atomic           = true # a failed upgrade is rolled back
  timeout          = 600

  values = [
    file("${path.module}/ha-values.yaml"), # a copy of ci/ha-values.yaml in the chart
    yamlencode({
      image = {
        repository = "registry.example.com/rollcall/manager"
      }
    }),
  ]
}
