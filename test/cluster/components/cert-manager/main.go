// Command cert-manager runs cert-manager's controllers for Certificates and its cainjector in one process,
// with the issuers for CAs and for self-signed certificates. The standard programs are separate modules that
// the Go proxy does not have, and they link the clients of ACME servers, Vault and several clouds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	cmscheme "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned/scheme"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"   // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"         // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned" // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"           // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"        // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"         // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"    // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"   // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"           // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"                        // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"                                 // Registers itself.
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"                         // Registers itself.
	"github.com/cert-manager/cert-manager/pkg/util"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// workers is the number of workers of each controller.
const workers = 2

func main() {
	flag.Parse() // controller-runtime registers the flag kubeconfig
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), flag.Lookup("kubeconfig").Value.String()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	group, ctx := errgroup.WithContext(ctx)
	if err := startControllers(ctx, kubeconfig, group); err != nil {
		return err
	}
	mgr, err := newCAInjector(ctx)
	if err != nil {
		return err
	}
	group.Go(func() error { return mgr.Start(ctx) })
	return group.Wait()
}

// startControllers starts the controllers that the imports of this file have registered.
func startControllers(ctx context.Context, kubeconfig string, group *errgroup.Group) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   100,
		KubernetesAPIBurst: 100,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Second,
			CertificateRequestMaximumBackoffDuration: time.Minute,
		},
	})
	if err != nil {
		return fmt.Errorf("setting up cert-manager: %w", err)
	}
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return fmt.Errorf("setting up the controller %s: %w", name, err)
		}
		group.Go(func() error { return c.Run(workers, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return fmt.Errorf("setting up the informers: %w", err)
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	return nil
}

func newCAInjector(ctx context.Context) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cmscheme.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	// The user agent is the field manager of cainjector.
	config := util.RestConfigWithUserAgent(ctrl.GetConfigOrDie(), "cainjector")
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("setting up cainjector: %w", err)
	}
	err = cainjector.RegisterAllInjectors(ctx, mgr, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
		},
	})
	return mgr, err
}
