package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"rollcall.training/internal/connections"
)

const (
	// apiServerPollInterval is the interval at which a process that starts looks for the API server.
	apiServerPollInterval = time.Second
	// apiServerTimeout bounds one request for this.
	apiServerTimeout = 10 * time.Second
	// leaseTimeout bounds one request of the leader election: half of the time in which the leader must renew its
	// Lease.
	leaseTimeout = 5 * time.Second
)

// waitForAPIServer waits until the API server answers, or ctx is done. A process that cannot start without it would
// exit, and the kubelet waits up to 5 minutes before it starts the container again. Meanwhile, the liveness probe
// succeeds and the readiness probe fails.
func (o *commonOptions) waitForAPIServer(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the client configuration: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a discovery client: %w", err)
	}
	answers := func(ctx context.Context) (bool, error) {
		err := client.RESTClient().Get().AbsPath("/version").Timeout(apiServerTimeout).Do(ctx).Error()
		var status apierrors.APIStatus // an API server that refuses the request will not change its mind
		return err == nil || errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError, nil
	}
	if isThere, _ := answers(ctx); isThere {
		return nil
	}
	log.Log.Info("Waiting for the API server", "host", config.Host)
	if o.probeAddress != "0" {
		stop, err := serveLiveness(ctx, o.probeAddress)
		if err != nil {
			return err
		}
		defer stop()
	}
	if err := wait.PollUntilContextCancel(ctx, apiServerPollInterval, false, answers); err != nil {
		return fmt.Errorf("waiting for the API server: %w", err)
	}
	log.Log.Info("The API server answers")
	return nil
}

// serveLiveness serves a liveness probe that succeeds until stop is called. Other probes fail.
func serveLiveness(ctx context.Context, address string) (stop func(), err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {}) // status 200
	port, err := connections.NewPort("probes", address, mux, nil)
	if err != nil {
		return nil, fmt.Errorf("opening a port: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- port.Start(ctx) }()
	return func() {
		cancel()
		if err := <-stopped; err != nil {
			log.Log.Error(err, "Served the liveness probe")
		}
	}, nil
}

// newLeaseLock returns the lock of the leader election for a process in a pod; nil outside of a pod. Its identity is
// the name of the pod. If the container restarts, its process is the leader again at once, and need not wait until the
// Lease of its predecessor expires. A pod never runs two processes of a container at the same time.
func (o *controllerOptions) newLeaseLock(config *rest.Config) (resourcelock.Interface, error) {
	pod := os.Getenv("POD_NAME")
	if pod == "" || !o.leaderElect {
		return nil, nil
	}
	config = rest.AddUserAgent(config, "leader-election")
	config.Timeout = leaseTimeout
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the Lease: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: o.leaseName},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: pod},
	}, nil
}
